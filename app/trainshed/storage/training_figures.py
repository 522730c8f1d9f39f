"""Figures that a training function adds to the report: feature importance, confusion matrix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from trainshed_api.progress import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainshed.storage.folder import Folder

FOLDER = "figures"
# A table of thousands of features would hide the important ones.
MOST_SHARES, MOST_CLASSES = 30, 40

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]{0,80}")


class Importance(Record):
    """The importance of each feature, largest first; `others` is the sum of the rest."""

    kind: Literal["importance"] = "importance"
    name: str
    shares: dict[str, float]
    others: float = 0.0


class Confusion(Record):
    """The predicted classes of the rows of each class: `counts[is][taken for]`."""

    kind: Literal["confusion"] = "confusion"
    name: str
    classes: list[str]
    counts: list[list[int]]


Figure = Annotated[Importance | Confusion, Field(discriminator="kind")]
_FIGURE: TypeAdapter[Importance | Confusion] = TypeAdapter(Figure)


def keep(attempt: Folder, figure: Importance | Confusion) -> None:
    """Write a figure below an attempt's folder, replacing an earlier one of the same name.

    Raises:
        ValueError: for a name that is no file name, or more classes than a page can show.
    """
    if not _NAME.fullmatch(figure.name):
        raise ValueError(f"a figure's name is letters, digits, . _ - and spaces: {figure.name!r}")
    if isinstance(figure, Confusion) and len(figure.classes) > MOST_CLASSES:
        raise ValueError(f"a figure shows at most {MOST_CLASSES} classes: {len(figure.classes)}")
    (attempt / FOLDER).write(f"{figure.name}.json", figure.to_line().encode())


def read(attempt: Folder) -> Iterator[Importance | Confusion]:
    """Yield the figures below an attempt's folder; unreadable ones are skipped."""
    folder = attempt / FOLDER
    for name in folder.names():
        if not name.endswith(".json"):
            continue
        try:
            yield _FIGURE.validate_json(folder.read(name))
        except (OSError, ValidationError):
            continue


def largest(shares: dict[str, float]) -> tuple[dict[str, float], float]:
    """Return the shares to show, largest first, and the sum of the others."""
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return dict(ordered[:MOST_SHARES]), float(sum(value for _, value in ordered[MOST_SHARES:]))
