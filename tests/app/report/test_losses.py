"""The report tells what each loss cost, by its stages."""

from pathlib import Path

from tests.app.report.pages import write_page
from tests.builders_run import RunFolderBuilder, make_finished, make_progress, make_started
from trainshed.display.formatting import MISSING
from trainshed.report.interruptions import LossRow, list_losses
from trainshed.report.load import read_run
from trainshed.storage.disk import Disk
from trainshed_api.progress import AnyEvent, WorkersLost, WorkersReady

BEGAN = make_started().time


def step(seconds: float) -> AnyEvent:
    return make_progress(time=BEGAN + seconds)


def lost(seconds: float) -> AnyEvent:
    return WorkersLost(time=BEGAN + seconds, message="lost worker 1")


def ready(seconds: float) -> AnyEvent:
    return WorkersReady(time=BEGAN + seconds)


def losses_of(place: Path, *attempts: list[AnyEvent]) -> list[LossRow]:
    return list(list_losses(read_run(RunFolderBuilder(attempts=attempts).write(Disk(place)))))


def test_lost_workers_are_told_of_by_stage(tmp_path: Path) -> None:
    (row,) = losses_of(tmp_path, [make_started(), step(10), lost(12), ready(18), step(20)])

    assert (row.what, row.noticed, row.ready, row.training) == (
        "workers were lost",
        "2.0 s",
        "8.0 s",
        "10 s",
    )


def test_an_attempt_that_was_cut_off_counts_from_its_last_word(tmp_path: Path) -> None:
    later = make_started(2).model_copy(update={"time": BEGAN + 30})
    (row,) = losses_of(tmp_path, [make_started(), step(10)], [later, step(34)])

    assert row.what == "attempt 1 was interrupted"
    assert (row.ready, row.training) == ("20 s", "24 s")


def test_a_loss_under_way_has_no_end_yet(tmp_path: Path) -> None:
    rows = losses_of(tmp_path, [make_started(), step(10), lost(12), lost(14)])

    assert [row.training for row in rows] == [MISSING, MISSING]


def test_a_run_without_losses_has_none(tmp_path: Path) -> None:
    assert losses_of(tmp_path, [make_started(), step(10), make_finished()]) == []


def test_the_page_shows_losses(tmp_path: Path) -> None:
    attempts = [[make_started(), step(10), lost(12), ready(18), step(20)]]
    page = write_page(RunFolderBuilder(attempts=attempts).write(Disk(tmp_path)))

    assert "What losses cost" in page.text
    assert page.unclosed == []
