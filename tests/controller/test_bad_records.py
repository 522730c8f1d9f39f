"""The status says what is left out of datasets, by the attempt that met most."""

from tests.builders import make_data
from tests.controller.builders_view import (
    SETTINGS,
    later,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.records import BadRecordsRecord
from trainshed_api.status import BadRecordsStatus
from trainshed_controller.decide import decide


def test_rows_that_are_left_out_are_in_the_status_and_never_fewer() -> None:
    view = make_view(data=make_data())
    view = with_status(view, decide(view, make_seen(), SETTINGS, later(0)).status)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    for at, rows in enumerate((3, 70, 5), 1):
        bad = {"train": BadRecordsRecord(rows=rows, first=(f"a.csv: {rows}",))}
        snapshot = make_snapshot(step=at, bad_records=bad)
        seen = make_seen(ray_job=job, snapshot=snapshot)
        view = with_status(view, decide(view, seen, SETTINGS, later(10 * at)).status)

    assert view.status.bad_records == {"train": BadRecordsStatus(rows=70, first=("a.csv: 70",))}


def test_names_that_the_spec_does_not_have_find_no_room() -> None:
    view = make_view(data=make_data())
    view = with_status(view, decide(view, make_seen(), SETTINGS, later(0)).status)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    for at in range(10):
        names = ["train", *(f"made-up-{at}-{number}" for number in range(15))]
        bad = {name: BadRecordsRecord(rows=1) for name in names}
        seen = make_seen(ray_job=job, snapshot=make_snapshot(step=at + 1, bad_records=bad))
        view = with_status(view, decide(view, seen, SETTINGS, later(10 * at + 10)).status)

    assert list(view.status.bad_records) == ["train"]
