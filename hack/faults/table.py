"""The faults, as faults.toml has them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Fault:
    """One change of one file, and the tests that might see it.

    Args:
        id: its name.
        file: below the checkout.
        old: what stands there exactly once.
        new: what takes its place.
        kind: what was done wrong.
        pure: tests that start neither Ray nor an API server.
        slow: the others.
    """

    id: str
    file: str
    old: str
    new: str
    kind: str
    pure: tuple[str, ...]
    slow: tuple[str, ...]


def read_faults() -> list[Fault]:
    """Return all faults, in the order of the file."""
    table = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return [
        Fault(
            id=entry["id"],
            file=entry["file"],
            old=entry["old"],
            new=entry["new"],
            kind=entry["kind"],
            pure=tuple(table["packages"][entry["package"]]["pure"]),
            slow=tuple(entry["slow"]),
        )
        for entry in table["faults"]
    ]
