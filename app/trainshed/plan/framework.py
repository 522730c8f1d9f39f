"""Whether what a run trains with is installed where it is to train."""

from __future__ import annotations

import importlib.util

from trainshed_api.errors import Problem, SpecError
from trainshed_api.frameworks import RULES, FrameworkName


def check_framework(name: FrameworkName, in_cluster: bool) -> None:
    """Refuse a framework that is not here, before anything of the user's is imported.

    Args:
        name: as the spec has it.
        in_cluster: whether this is a node of a cluster, whose image can be another.

    Raises:
        SpecError: saying what has it.
    """
    if importlib.util.find_spec(RULES[name].module) is not None:
        return
    from trainshed import __version__

    where = (
        f"a cluster with the image that has it, ghcr.io/trainshed/app:{__version__}-{name} "
        "(the chart's ray.image or a class's image)"
        if in_cluster
        else f"it installed: pip install 'trainshed[app,{name}]'"
    )
    raise SpecError([Problem("spec.framework", name, f"{where}; {RULES[name].module} is not here")])
