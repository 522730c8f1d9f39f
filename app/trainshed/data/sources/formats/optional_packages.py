"""Packages that only some data need, and that need not be installed otherwise."""

from __future__ import annotations

import importlib.util
import shlex
from typing import TYPE_CHECKING, NamedTuple

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed_api.formats import FormatName


class OptionalPackage(NamedTuple):
    """The module to import, and the name to install."""

    module: str
    name: str


# The extra of this project that installs it has the format's name.
OF_FORMATS: Mapping[FormatName, OptionalPackage] = {
    "audio": OptionalPackage("soundfile", "soundfile"),
    "delta": OptionalPackage("deltalake", "deltalake"),
    "iceberg": OptionalPackage("pyiceberg", "pyiceberg"),
    "lance": OptionalPackage("lance", "pylance"),
    "video": OptionalPackage("av", "av"),
}


def check_package(form: FormatName, field: str) -> None:
    """Refuse a format of `OF_FORMATS` whose package is not installed.

    Args:
        form: the format.
        field: the spec's field to name, e.g. `spec.data.datasets.train.read`.

    Raises:
        SpecError: saying how to install it.
    """
    if missing := missing_of([OF_FORMATS[form]]):
        expected = expected_packages(missing, f"trainshed[{form}]")
        raise SpecError([Problem(f"{field}.format", f'"{form}"', expected)])


def missing_of(packages: Sequence[OptionalPackage]) -> list[str]:
    """Return the names of packages that are not installed."""
    return [package.name for package in packages if not is_importable(package.module)]


def expected_packages(names: Sequence[str], by: str | None = None) -> str:
    """Return how to install packages, for an error.

    Args:
        names: of the packages, at least one.
        by: what installs them; None for the packages themselves.
    """
    more = len(names) > 1
    listed = ", ".join(map(shlex.quote, names))
    pip = shlex.join([by] if by else names)
    return (
        f"it with the package{'s' * more} {', '.join(names)} installed: pip install {pip}, or in "
        f"a cluster code.pip: [{listed}] or an image that has {'them' if more else 'it'}"
    )


def is_importable(module: str) -> bool:
    """Return whether a module is installed, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the parent package is missing, too
        return False
