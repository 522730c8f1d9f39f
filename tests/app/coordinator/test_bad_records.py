"""What all who read leave out is counted per dataset, told once as a warning, and limited."""

from pathlib import Path

import pytest

from tests.app.data.builders_plan import make_plan, write_rows
from trainshed.coordinator.bad_record_limits import BadRecordLimits
from trainshed.data.sampler.bad_records import BadRecord, BadRecordList
from trainshed.data.sources.errors import DataError
from trainshed_api.progress import BadRecords, WarningEvent


@pytest.fixture
def left_out(tmp_path: Path) -> BadRecordLimits:
    folder = write_rows(tmp_path / "rows", ([8],))
    return BadRecordLimits((make_plan(folder, onBadRecord="skip", badRecordLimit=3),))


def told(*places: int) -> BadRecordList:
    records = [BadRecord("a.csv", f"byte {place}", "it is broken") for place in places]
    return BadRecordList("spec.data.datasets.train", ("a.csv", 0, 0)).after(records)


def test_the_first_bad_row_is_a_warning_and_later_ones_are_counted(
    left_out: BadRecordLimits,
) -> None:
    assert not left_out.events(1.0)
    left_out.take(told(0))
    warning, first = left_out.events(2.0)
    left_out.take(told(0, 5))
    left_out.take(told(0))
    (more,) = left_out.events(3.0)

    assert isinstance(warning, WarningEvent)
    assert warning.message.endswith("The first: a.csv: byte 0: it is broken")
    assert "spec.data.datasets.train: rows that cannot be used are left out" in warning.message
    assert first == BadRecords(
        time=2.0, dataset="train", rows=1, first=("a.csv: byte 0: it is broken",)
    )
    assert more == BadRecords(
        time=3.0, dataset="train", rows=2, first=("a.csv: byte 5: it is broken",)
    )
    assert not left_out.events(4.0)


def test_more_than_may_be_is_an_error_to_who_tells_and_is_counted(
    left_out: BadRecordLimits,
) -> None:
    with pytest.raises(DataError, match="4 rows of about 8 are bad, more than its badRec"):
        left_out.take(told(0, 1, 2, 3))

    assert [e.rows for e in left_out.events(1.0) if isinstance(e, BadRecords)] == [4]
