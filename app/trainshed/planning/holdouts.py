"""Checks datasets that divide the rows of the same files: each row must be in one of them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from trainshed.data.sources.dataset_files import moving_options
from trainshed.data.sources.literals import literal
from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.formats import options_of
from trainshed_api.where import Unquoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.data.sampler.file_tables import Source
    from trainshed_api.rows import HoldoutSpec, ReadSpec
    from trainshed_api.v1alpha1 import DatasetSpec

_WHY = "holdout selects rows by their positions in the files, which depend on it"


class _Part(NamedTuple):
    """A dataset of some of the rows of its files."""

    field: str
    read: ReadSpec
    source: Source
    holdout: HoldoutSpec


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
        if plan.source and (holdout := specs[name].read.holdout)
    ]
    for one, other in combinations(parts, 2):
        if _are_sides(one.holdout, other.holdout) and _share_files(one.source, other.source):
            problems = list(_other_rules(one, other)) or list(_other_positions(one, other))
            if problems:
                raise SpecError(problems)


def _are_sides(one: HoldoutSpec, other: HoldoutSpec) -> bool:
    """Return whether no row is meant to be in both: a larger share has all rows of a smaller."""
    if one.keep == other.keep:
        return False
    held, rest = (one, other) if one.keep == "held" else (other, one)
    if held.share is None or rest.share is None:
        return True
    return held.seed == rest.seed and held.share <= rest.share


def _other_rules(one: _Part, other: _Part) -> Iterator[Problem]:
    """Yield the rules of the second part by which a row may be in both."""
    a, b = one.holdout, other.holdout
    for name, wanted, value in (
        ("by", a.by, b.by),
        ("stratify", a.stratify, b.stratify),
        ("before", a.before and "a value", b.before and "a value"),
    ):
        if wanted != value:
            expected = f"{wanted or 'no value'}, as {one.field}: else rows are in both datasets"
            yield Problem(f"{other.field}.holdout.{name}", value or "nothing", expected)
            return
    if a.by is None:
        return
    types = [part.source.schema and part.source.schema.field(a.by).type for part in (one, other)]
    # Many files are planned with the values of a dictionary: a value has one side either way.
    kinds = [kind.value_type if isinstance(kind, pa.DictionaryType) else kind for kind in types]
    if kinds[0] != kinds[1]:
        expected = f"a column of {kinds[0]}, as {one.field}: the same value has another side else"
        yield Problem(f"{other.field}.holdout.by", f"{a.by} of {kinds[1]}", expected)
    elif kinds[0] and a.before and b.before:
        times = [literal(a.by, Unquoted(each), kinds[0]) for each in (a.before, b.before)]
        is_later = b.keep == "held"
        if pc.less(*(reversed(times) if is_later else times)).as_py():
            limit = f"{a.before} or {'a later' if is_later else 'an earlier'} value"
            expected = f"{limit}, as {one.field}: else rows are in both datasets"
            yield Problem(f"{other.field}.holdout.before", b.before, expected)


def _share_files(one: Source, other: Source) -> bool:
    """Say whether files may be in both: of a table's versions some are, or hold the same rows."""
    a, b = one.scan, other.scan
    # What follows a file's question mark may be which one is meant.
    stores = [(scan.root, scan.store_options.endpoint, scan.store_options.query) for scan in (a, b)]
    if stores[0] != stores[1]:
        return False
    return a.format == b.format or not set(one.files.names).isdisjoint(other.files.names)


def _other_positions(one: _Part, other: _Part) -> Iterator[Problem]:
    """Yield what of two random sides may give a row two positions."""
    rule, a, b = one.holdout, one.source.scan, other.source.scan
    if rule.by or rule.stratify or (_is_by_file(one.source) and _is_by_file(other.source)):
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
