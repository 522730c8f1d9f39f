"""Checks datasets that divide the rows of the same files: each row must be in one of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from trainshed.data.sources.dataset_files import moving_options
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.formats import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.fragments import Holdout, Source
    from trainshed_api.rows import ReadSpec
    from trainshed_api.v1alpha1 import DatasetSpec

_WHY = "holdout selects rows by their positions in the files, which depend on it"


class _Part(NamedTuple):
    """A dataset of some of the rows of its files."""

    field: str
    read: ReadSpec
    source: Source
    holdout: Holdout


def check_holdouts(plans: Mapping[str, DatasetPlan], specs: Mapping[str, DatasetSpec]) -> None:
    """Refuse two sides of a split that choose rows by other rules, or number them in other ways.

    Whether both find the same values with `stratify` is checked where the values are read.

    Args:
        plans: of the datasets that have files.
        specs: of all datasets.

    Raises:
        SpecError: naming what the later one reads in another way.
    """
    parts = [
        _Part(f"{plan.field}.read", specs[name].read, plan.source, holdout)
        for name, plan in plans.items()
        if plan.source and (holdout := plan.source.scan.selection.holdout)
    ]
    for one, other in combinations(parts, 2):
        if _are_sides(one.holdout, other.holdout) and _share_files(one.source, other.source):
            problems = list(_differences(one, other))
            if problems:
                raise SpecError(problems)


def _are_sides(one: Holdout, other: Holdout) -> bool:
    """Say whether no number of a row is on both: a larger share has all that a smaller one has."""
    held, rest = (one, other) if one.held else (other, one)
    return held.held and not rest.held and held.seed == rest.seed and held.share <= rest.share


def _share_files(one: Source, other: Source) -> bool:
    """Say whether files may be in both: of a table's versions some are, or hold the same rows."""
    a, b = one.scan, other.scan
    # What follows a file's question mark may be which one is meant.
    stores = [(scan.root, scan.store_options.endpoint, scan.store_options.query) for scan in (a, b)]
    if stores[0] != stores[1]:
        return False
    names = {file.path for file in one.files}
    return a.format == b.format or not names.isdisjoint(file.path for file in other.files)


def _differences(one: _Part, other: _Part) -> Iterator[Problem]:
    """Yield what of two sides may give a row two places."""
    a, b = one.source.scan, other.source.scan
    rules = [(part.holdout.by, part.holdout.stratify) for part in (one, other)]
    for name, wanted, value in zip(("by", "stratify"), *rules, strict=True):
        if wanted != value:
            expected = f"{wanted or 'no value'}, as {one.field}: else rows are in both datasets"
            yield Problem(f"{other.field}.holdout.{name}", value or "nothing", expected)
    is_by_position = rules == [(None, None)] * 2
    if not is_by_position or (_is_by_file(one.source) and _is_by_file(other.source)):
        return
    if a.format != b.format:
        expected = f"{a.format}, as {one.field}: {_WHY}"
        yield Problem(f"{other.field}.format", b.format, expected)
        return
    if options_of(a.format, one.read.options) == options_of(b.format, other.read.options):
        return  # of a table, the newest version, though somebody wrote to it in between
    known = moving_options(a)
    for name, value in moving_options(b).items():
        if value != known[name]:
            expected = f"{show_value(known[name])}, as {one.field}: {_WHY}"
            yield Problem(f"{other.field}.options.{name}", show_value(value), expected)


def _is_by_file(source: Source) -> bool:
    """Say whether each file is a row, which has no other place."""
    return all(fragment.is_a_row_a_file for fragment in source.fragments)
