"""What pins.toml says: every release, its tools, and where they come from."""

import platform
import tomllib
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

HERE = Path(__file__).resolve().parent
# What Go calls the machines that Python calls otherwise.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Range(BaseModel):
    """Versions that will do: at least the first, less than the second."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    at_least: str = Field(alias="from")
    below: str

    def holds(self, version: str) -> bool:
        """Return whether a version is in the range."""
        return _numbers(self.at_least) <= _numbers(version) < _numbers(self.below)


class Release(BaseModel):
    """Tools that are published, versioned and built together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    version: str
    packages: dict[str, str]
    # What makes a tool on PATH say its version, and which versions will do; nothing: never.
    ask: tuple[str, ...] = ()
    accepts: Range | None = None
    url: str
    member: str = ""
    # Checksums by platform, of the tool itself or, under the name "archive", of what holds it.
    sha256: dict[str, dict[str, str]]
    modules: str = ""
    stamp: tuple[str, ...] = ()

    @property
    def module_folder(self) -> Path:
        """Return the folder whose go.mod and go.sum pin the sources."""
        return HERE / "go" / (self.modules or self.name)

    def fill(self, template: str, tool: str) -> str:
        """Return a URL, an archive's member or a linker's stamp with its names filled in."""
        system, arch = this_platform().split("-")
        return template.format(
            version=self.version, tool=tool, os=system, arch=arch, platform=f"{system}-{arch}"
        )

    def checksum(self, tool: str) -> str | None:
        """Return the sha256 of what `url` names on this platform, or None where none is known."""
        known = self.sha256.get("archive") or self.sha256.get(tool, {})
        return known.get(this_platform())


def this_platform() -> str:
    """Return this machine as Go names it, such as linux-amd64."""
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{_ARCHITECTURES.get(machine, machine)}"


@cache
def load_releases() -> tuple[Release, ...]:
    """Return every release of pins.toml."""
    document = tomllib.loads((HERE / "pins.toml").read_text())
    return tuple(
        Release.model_validate({"name": name, **table}) for name, table in document.items()
    )


def list_tools() -> tuple[str, ...]:
    """Return the names of all tools."""
    return tuple(tool for release in load_releases() for tool in release.packages)


def release_of(tool: str) -> Release:
    """Return the release that a tool is part of. Raises KeyError for a name that is not pinned."""
    for release in load_releases():
        if tool in release.packages:
            return release
    raise KeyError(f"no tool is called {tool!r}; there are: {', '.join(sorted(list_tools()))}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
