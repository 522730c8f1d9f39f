"""How a run reads the rows that it scores, for the manifest of a checkpoint. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from trainshed_api.data import DataSpec

# What also holds for other files: neither their path nor a choice of rows does.
_READ = {"format", "options"}


def reading_of(data: DataSpec, main: str | None) -> dict[str, JsonValue]:
    """Return format, options, transforms and types of the dataset `valid`, as a spec has them.

    Without it they are those of the dataset that trains, and of a mix those of its first part.
    `valid` goes first because a dataset that trains may leave its decoding to an augmentation.

    main: name of the dataset that trains; None if the run has no dataset.
    """
    if main is None:
        return {}
    spec = data.datasets.get("valid") or data.datasets[main]
    if spec.read.mix:
        spec = data.datasets[next(iter(spec.read.mix))]
    return spec.model_dump(
        mode="json",
        by_alias=True,
        exclude_defaults=True,
        include={"read": _READ, "transforms": True, "feed": {"dtypes", "collate"}},
    )
