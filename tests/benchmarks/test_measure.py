"""Medians, ratios and targets of figures, and the order in which sides run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.measure import Figure, Options, Sample, Target, run_sides

REFERENCE = ("other", [1.0, 2.0, 4.0])


def make_options(cache: Path, repeats: int) -> Options:
    return Options(repeats=repeats, quick=True, cache=cache)


@dataclass(frozen=True)
class Case:
    """A figure and its expected values."""

    figure: Figure
    want_median: float
    want_ratio: float | None
    want_met: bool | None


CASES = {
    "a figure without another side has only a median": Case(
        Figure("a", "s", [3.0, 1.0, 2.0]), 2.0, None, None
    ),
    "the median of two repeats is their mean": Case(Figure("a", "s", [1.0, 2.0]), 1.5, None, None),
    "the ratio is taken within each repeat, then its median": Case(
        Figure("a", "s", [2.0, 6.0, 4.0], REFERENCE), 4.0, 2.0, None
    ),
    "an upper bound is met at the bound": Case(
        Figure("a", "s", [1.0], target=Target("value", "<=", 1.0)), 1.0, None, True
    ),
    "an upper bound is missed above it": Case(
        Figure("a", "s", [1.1], target=Target("value", "<=", 1.0)), 1.1, None, False
    ),
    "an upper bound on the worst compares the largest value": Case(
        Figure("a", "s", [9.0, 1.0, 2.0], target=Target("worst", "<=", 8.0)), 2.0, None, False
    ),
    "a lower bound on the worst compares the smallest value": Case(
        Figure("a", "s", [9.0, 1.0, 2.0], target=Target("worst", ">=", 1.5)), 2.0, None, False
    ),
    "a bound on the ratio compares the ratio, not the value": Case(
        Figure("a", "s", [9.0], ("other", [10.0]), Target("ratio", ">=", 0.95)), 9.0, 0.9, False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_figure_has_its_median_ratio_and_verdict(case: Case) -> None:
    assert case.figure.median == case.want_median
    assert case.figure.ratio == case.want_ratio
    assert case.figure.met is case.want_met


def test_figures_of_unequal_repeats_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="shorter"):
        _ = Figure("a", "s", [1.0, 2.0], ("other", [1.0])).ratio


def test_sides_alternate_each_in_a_new_empty_folder(tmp_path: Path) -> None:
    order: list[str] = []
    folders: set[Path] = set()

    def side(name: str) -> Callable[[Path], Sample]:
        def run(folder: Path) -> Sample:
            assert list(folder.iterdir()) == []
            (folder / "left").touch()
            folders.add(folder)
            order.append(name)
            return {"count": len(order)}

        return run

    samples = run_sides({"a": side("a"), "b": side("b")}, make_options(tmp_path, repeats=2))

    assert order == ["a", "b", "a", "b"]
    assert samples.of("b", "count") == [2, 4]
    assert len(folders) == 4
    assert not any(folder.exists() for folder in folders)


def test_mirrored_sides_alternate_in_being_first(tmp_path: Path) -> None:
    order: list[str] = []

    def side(name: str) -> Callable[[Path], Sample]:
        def run(_: Path) -> Sample:
            order.append(name)
            return {}

        return run

    run_sides({"a": side("a"), "b": side("b")}, make_options(tmp_path, repeats=3), is_mirrored=True)
    assert order == ["a", "b", "b", "a", "a", "b"]
