"""The arithmetic of the benchmarks, and the order in which sides run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.measure import Figure, Options, Sample, Target, in_turn

REFERENCE = ("other", [1.0, 2.0, 4.0])


@dataclass(frozen=True)
class Case:
    """A figure and what must come out."""

    figure: Figure
    want_median: float
    want_ratio: float | None
    want_met: bool | None


CASES = {
    "a figure alone has a median and nothing else": Case(
        Figure("a", "s", [3.0, 1.0, 2.0]), 2.0, None, None
    ),
    "two repeats have the mean of both as their median": Case(
        Figure("a", "s", [1.0, 2.0]), 1.5, None, None
    ),
    "the ratio is taken within each repeat, then its median": Case(
        Figure("a", "s", [2.0, 6.0, 4.0], REFERENCE), 4.0, 2.0, None
    ),
    "a bound from above on the value is met at the bound": Case(
        Figure("a", "s", [1.0], target=Target("value", "<=", 1.0)), 1.0, None, True
    ),
    "a bound from above on the value is missed above it": Case(
        Figure("a", "s", [1.1], target=Target("value", "<=", 1.0)), 1.1, None, False
    ),
    "a bound on the worst looks at the worst": Case(
        Figure("a", "s", [9.0, 1.0, 2.0], target=Target("worst", "<=", 8.0)), 2.0, None, False
    ),
    "the worst from below is the least": Case(
        Figure("a", "s", [9.0, 1.0, 2.0], target=Target("worst", ">=", 1.5)), 2.0, None, False
    ),
    "a bound from below on the ratio looks at the ratio, not at the value": Case(
        Figure("a", "s", [9.0], ("other", [10.0]), Target("ratio", ">=", 0.95)), 9.0, 0.9, False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_figure_says(case: Case) -> None:
    assert case.figure.median == case.want_median
    assert case.figure.ratio == case.want_ratio
    assert case.figure.met is case.want_met


def test_figures_of_unequal_repeats_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="shorter"):
        _ = Figure("a", "s", [1.0, 2.0], ("other", [1.0])).ratio


def test_sides_run_in_turn_each_in_an_empty_folder_of_its_own(tmp_path: Path) -> None:
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

    samples = in_turn({"a": side("a"), "b": side("b")}, Options(2, True, tmp_path))

    assert order == ["a", "b", "a", "b"]
    assert samples.of("b", "count") == [2, 4]
    assert len(folders) == 4
    assert not any(folder.exists() for folder in folders)


def test_mirrored_sides_take_turns_in_being_first(tmp_path: Path) -> None:
    order: list[str] = []

    def side(name: str) -> Callable[[Path], Sample]:
        def run(_: Path) -> Sample:
            order.append(name)
            return {}

        return run

    in_turn({"a": side("a"), "b": side("b")}, Options(3, True, tmp_path), is_mirrored=True)
    assert order == ["a", "b", "b", "a", "a", "b"]
