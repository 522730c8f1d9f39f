"""The packages that only one format needs: who reads no such files need not have them."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NamedTuple

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed_api.formats import FormatName


class _Package(NamedTuple):
    """What is imported, and the name by which it is installed."""

    module: str
    name: str


# The extra of this project that brings one has the format's name.
_PACKAGES: Mapping[FormatName, _Package] = {
    "audio": _Package("soundfile", "soundfile"),
    "delta": _Package("deltalake", "deltalake"),
    "iceberg": _Package("pyiceberg", "pyiceberg"),
    "lance": _Package("lance", "pylance"),
    "video": _Package("av", "av"),
}


def check_package(form: FormatName, field: str) -> None:
    """Refuse a format whose package is not installed.

    Args:
        form: the format.
        field: the spec's field to name, e.g. `spec.data.datasets.train.read`.

    Raises:
        SpecError: saying how to install it.
    """
    package = _PACKAGES.get(form)
    if package is None or importlib.util.find_spec(package.module) is not None:
        return
    want = (
        f"it with the package {package.name} installed: pip install 'trainshed[{form}]', or in a "
        f"cluster code.pip: [{package.name}] or an image that has it"
    )
    raise SpecError([Problem(f"{field}.format", f'"{form}"', want)])
