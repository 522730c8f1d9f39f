"""Whether what a run trains with is installed where it is to train."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

from trainshed_api.errors import Problem, SpecError
from trainshed_api.frameworks import RULES, FrameworkName


def check_framework(name: FrameworkName, in_cluster: bool) -> None:
    """Refuse a framework that is not here, before anything of the user's is imported.

    Args:
        name: as the spec has it.
        in_cluster: whether this is a node of a cluster, which has what its image has.

    Raises:
        SpecError: saying what has it.
    """
    module = RULES[name].module
    if importlib.util.find_spec(module) is None:
        expected = f"what is installed here: {module} is not; {_where(name, in_cluster)}"
        raise SpecError([Problem("spec.framework", name, expected)])


def _where(name: FrameworkName, in_cluster: bool) -> str:
    if not in_cluster:
        return f"pip install 'trainshed[app,{name}]' brings it"
    tag = f"{version('trainshed')}-{name}"
    return (
        f"an image with the tag {tag} has it: set the chart's image.tag, or name a class of "
        "controller.classImages in spec.cluster.dedicated.class"
    )
