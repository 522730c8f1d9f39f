"""Figures reach the page: what counted by bars, what was mistaken by a table."""

from pathlib import Path

import numpy as np
import pytest

from tests.app.report.pages import write_page
from tests.builders_run import RunFolderBuilder, make_finished, make_started
from trainshed.report.figures import list_bars, say_right
from trainshed.storage import training_figures
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.training_figures import (
    MOST_SHARES,
    Confusion,
    Importance,
    keep,
    largest,
    read,
)

COUNTS = [[8, 2], [1, 9]]


def make_confusion(name: str = "valid") -> Confusion:
    return Confusion(name=name, classes=["cat", "<dog>"], counts=COUNTS)


def test_what_was_kept_is_read_back(place: Folder) -> None:
    kept: list[Importance | Confusion] = [
        Importance(name="gain", shares={"b": 2.0, "a": 1.0}),
        make_confusion(),
    ]
    for figure in kept:
        keep(place, figure)

    assert list(read(place)) == kept


def test_a_later_figure_of_a_name_replaces_the_earlier(place: Folder) -> None:
    for share in (1.0, 2.0):
        keep(place, Importance(name="gain", shares={"a": share}))

    assert [f.shares for f in read(place) if isinstance(f, Importance)] == [{"a": 2.0}]


def test_what_somebody_else_wrote_there_is_left_out(place: Folder) -> None:
    keep(place, make_confusion())
    (place / training_figures.FOLDER).write("half.json", b'{"kind": "confusion", "name"')

    assert list(read(place)) == [make_confusion()]


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "x" * 99])
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a figure's name is letters"):
        keep(Disk(tmp_path), Importance(name=name, shares={}))


def test_more_classes_than_a_page_shows_are_refused(tmp_path: Path) -> None:
    names = [str(number) for number in range(41)]
    counts = np.eye(41, dtype=np.int64).tolist()

    with pytest.raises(ValueError, match="at most 40 classes: 41"):
        keep(Disk(tmp_path), Confusion(name="many", classes=names, counts=counts))


def test_of_many_features_the_largest_are_shown_and_the_others_summed() -> None:
    shares = {f"f{number:03}": float(number) for number in range(100)}

    shown, others = largest(shares)

    assert list(shown)[:2] == ["f099", "f098"]
    assert len(shown) == MOST_SHARES
    assert sum(shown.values()) + others == sum(shares.values())


def test_bars_are_as_long_as_they_count() -> None:
    bars = list_bars(Importance(name="gain", shares={"a": 4.0, "b": 1.0}, others=2.0))

    assert [(name, percent) for name, _, percent in bars] == [
        ("a", 100.0),
        ("b", 25.0),
        ("all others together", 50.0),
    ]


def test_a_table_tells_how_many_of_each_class_are_right(place: Folder) -> None:
    run = RunFolderBuilder(attempts=([make_started(), make_finished()],)).write(place)
    keep(run / "attempts" / "1", make_confusion())

    page = write_page(run)

    assert "17 of 20 right, 85 %" in page.text
    assert "cat 8 2 80 % <dog> 1 9 90 %" in page.text


def test_a_class_without_rows_is_shown_without_a_share() -> None:
    empty = Confusion(name="valid", classes=["a", "b"], counts=[[0, 0], [0, 0]])

    assert say_right(empty) == ""


def test_the_page_shows_figures_and_nothing_of_them_is_markup(place: Folder) -> None:
    run = RunFolderBuilder(attempts=([make_started(), make_finished()],)).write(place)
    keep(run / "attempts" / "1", make_confusion())
    keep(run / "attempts" / "1", Importance(name="gain", shares={"<i>x</i>": 1.0}))

    page = write_page(run)

    assert "Confusion matrix valid: 17 of 20 right, 85 %" in page.text
    assert "<dog>" in page.text
    assert "<i>x</i>" in page.text
    assert page.unclosed == []
