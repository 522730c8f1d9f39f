"""What is left out as bad: the same rows whoever reads them and however, and counted once."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.app.data.builders_formats import write_pictures
from tests.app.data.builders_plan import FUNCTIONS, cut_parts, make_plan, write_rows
from tests.app.data.sample_functions import Unmakeable
from trainshed.data.sampler.bad_records import (
    FIRST,
    MOST_SAID,
    BadRecord,
    BadRecordList,
    BadRecordLog,
)
from trainshed.data.sampler.dataset_plan import DatasetPlan, with_reporter
from trainshed.data.sampler.fragments import Fragment, Scan
from trainshed.data.sampler.function import Function
from trainshed.data.sampler.permutation import RowRange
from trainshed.data.sources.apply_functions import transform_good
from trainshed.data.sources.column_arrays import Columns
from trainshed.data.sources.dataset_files import place_of
from trainshed.data.sources.errors import DataError, FunctionError
from trainshed.data.sources.fragment_reader import (
    FragmentReader,
    Part,
    Reading,
    count_rows,
    parts,
    read_parts,
    read_rows,
    read_whole,
    reading,
)
from trainshed_api.data import DatasetSpec
from trainshed_api.snapshot import MAX_REASON

ROWS = 40
FIELD = "spec.data.datasets.train"


def picky(*bad: int, use: str = "picky") -> Function:
    return Function(f"{FUNCTIONS}:{use}", "field", options=(("bad", list(bad)),))


def table(rows: int = 6) -> Columns:
    return {"id": np.arange(rows), "x": np.arange(rows) / 2}


def make_csv_plan(
    folder: Path,
    lines: Sequence[str],
    *,
    transforms: JsonValue = None,
    holdout: JsonValue = None,
) -> DatasetPlan:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.csv").write_text("id\n" + "".join(f"{line}\n" for line in lines))
    read: dict[str, JsonValue] = {"format": "csv", "options": {"types": {"id": "int64"}}}
    if holdout:
        read["holdout"] = holdout
    return make_plan(folder, read=read, onBadRecord="skip", transforms=transforms or [])


def read_with(plan: DatasetPlan, chunk_rows: int = 1000) -> tuple[Reading, list[BadRecordList]]:
    told: list[BadRecordList] = []
    return replace(reading(with_reporter(plan, told.append)), chunk_rows=chunk_rows), told


def fragment_of(plan: DatasetPlan) -> Fragment:
    assert plan.source
    (fragment,) = plan.source.fragments
    return fragment


def good_and_bad(columns: Columns, *functions: Function) -> tuple[Columns, dict[int, str]]:
    bad: dict[int, str] = {}
    return transform_good(columns, functions, bad.__setitem__), bad


@pytest.mark.parametrize("use", ["picky", "picky_in_place"])
def test_rows_that_a_transform_raises_on_are_left_out_and_no_other(use: str) -> None:
    columns = table()

    good, bad = good_and_bad(columns, picky(1, 4, use=use), picky(5, use=use))

    assert good["id"].tolist() == [0, 2, 3]
    assert sorted(bad) == [1, 4, 5]
    assert "raised ValueError: row 4 is bad" in bad[4]
    assert good["x"].tolist() == ([0.0, 1.0, 1.5] if use == "picky" else [2.0, 3.0, 3.5])
    assert columns["x"].tolist() == (np.arange(6) / 2).tolist()


def test_what_a_function_changes_inside_of_a_row_is_changed_once() -> None:
    audio = np.empty(4, dtype=object)
    for row in range(4):
        audio[row] = np.ones(3)
    function = Function(f"{FUNCTIONS}:louder", "field", kind="rows")

    good, bad = good_and_bad({"id": np.array([0, -1, 2, 3]), "audio": audio}, function, function)

    assert sorted(bad) == [1]
    assert {float(value) for row in good["audio"] for value in row} == {4.0}
    assert {float(value) for row in audio for value in row} == {1.0}


def test_without_transforms_no_row_is_copied() -> None:
    columns = {"cell": np.asarray([[1, 2], None], dtype=object)}

    assert good_and_bad(columns)[0]["cell"] is columns["cell"]


def test_a_good_table_is_given_to_the_transforms_once_and_whole() -> None:
    function = Function(f"{FUNCTIONS}:numbered_calls", "field", options=())

    good, bad = good_and_bad(table(), function)

    assert not bad
    assert good["rows"].tolist() == [6] * 6


def test_what_is_raised_for_rows_together_alone_is_no_row_s_fault() -> None:
    function = Function(f"{FUNCTIONS}:only_alone", "field", options=())

    with pytest.raises(FunctionError, match="no row of these raises alone"):
        good_and_bad(table(), function)


def test_a_function_that_returns_no_table_ends_the_run_all_the_same() -> None:
    with pytest.raises(DataError, match="expected a dict of columns"):
        good_and_bad(table(), Function(f"{FUNCTIONS}:no_table", "field", options=()))


def test_a_class_that_cannot_be_made_is_no_row_s_fault(tmp_path: Path) -> None:
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:Unmakeable"}]
    plan = make_csv_plan(tmp_path, ["0", "1", "2"], transforms=transforms)
    how, told = read_with(plan)
    before = Unmakeable.tries

    with pytest.raises(DataError) as caught:
        read_whole(how, fragment_of(plan))

    assert str(caught.value) == (
        f"{FIELD}.transforms[0].use: the constructor of {FUNCTIONS}:Unmakeable raised "
        "RuntimeError: no model there"
    )
    assert Unmakeable.tries == before + 1
    assert not told


def test_many_bad_rows_of_a_table_are_told_before_all_of_them_are_known(tmp_path: Path) -> None:
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:never", "kind": "rows"}]
    plan = make_csv_plan(tmp_path, [str(row) for row in range(250)], transforms=transforms)
    how, told = read_with(plan)

    assert read_whole(how, fragment_of(plan)) == {}

    assert [each.rows for each in told] == [100, 200, 250]


@settings(max_examples=20, deadline=None)
@given(
    broken=st.sets(st.integers(0, ROWS)),
    raising=st.sets(st.integers(0, ROWS - 1)),
    chunk_rows=st.integers(1, ROWS + 1),
    part_rows=st.integers(1, ROWS),
)
def test_good_rows_come_once_and_in_order_wherever_bad_ones_are(
    tmp_path_factory: pytest.TempPathFactory,
    broken: set[int],
    raising: set[int],
    chunk_rows: int,
    part_rows: int,
) -> None:
    lines = []
    for row in range(ROWS):
        lines += ["q"] * (row in broken) + [str(row)]
    lines += ["q"] * (ROWS in broken)
    want = [row for row in range(ROWS) if row not in raising]
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:picky", "options": {"bad": [*sorted(raising)]}}]
    plan = make_csv_plan(tmp_path_factory.mktemp("rows"), lines, transforms=transforms)
    how, told = read_with(plan, chunk_rows=chunk_rows)
    fragment, num_bad = fragment_of(plan), len(broken) + len(raising)

    assert read_whole(how, fragment).get("id", np.empty(0)).tolist() == want
    assert max((each.rows for each in told), default=0) == num_bad
    assert count_rows(how, fragment) == len(want)
    ids = [int(row) for _, ids in read_rows(how, fragment, 100) for row in ids]
    assert ids == list(range(100, 100 + len(want)))
    if want:
        reader, found = FragmentReader(), []
        for part in cut_parts([Part(fragment, 0, 0, len(want), 0)], part_rows):
            for columns, _ in read_parts(how, [part], reader=reader):
                found += columns["id"].tolist()
        assert found == want
    bad_record_log = BadRecordLog(FIELD, 1000, ROWS)
    for each in told:
        bad_record_log.take(each)
    assert bad_record_log.rows == num_bad
    assert len(bad_record_log.first) == min(FIRST, num_bad)


def test_a_bad_row_is_named_by_its_place_in_the_file(tmp_path: Path) -> None:
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:picky", "options": {"bad": [2]}}]
    plan = make_csv_plan(tmp_path, ["0", "q", "1", "2"], transforms=transforms)
    how, told = read_with(plan)

    assert read_whole(how, fragment_of(plan))["id"].tolist() == [0, 1]
    (known,) = told
    assert [record.place for record in known.first] == ["byte 5", "row 3"]
    assert known.rows == 2


def test_a_bad_picture_is_named_by_its_file(tmp_path: Path) -> None:
    write_pictures(tmp_path, {"cat": 3})
    broken = tmp_path / "cat" / "0001.png"
    broken.write_bytes(broken.read_bytes()[:40])
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:opened", "kind": "rows"}]
    plan = make_plan(tmp_path, read={"format": "images"}, onBadRecord="skip", transforms=transforms)
    how, told = read_with(plan)

    assert len(read_whole(how, fragment_of(plan))["x"]) == 2
    (record,) = told[-1].first
    assert (record.path, record.place) == (str(broken), "the file")


def test_whether_rows_are_held_out_hangs_on_no_bad_one(tmp_path: Path) -> None:
    lines = [line for row in range(60) for line in [*(["q"] * (row % 7 == 0)), str(row)]]

    def ids(keep: str) -> tuple[list[int], int]:
        holdout: JsonValue = {"share": 0.3, "keep": keep}
        plan = make_csv_plan(tmp_path, lines, holdout=holdout)
        how, told = read_with(plan)
        return read_whole(how, fragment_of(plan))["id"].tolist(), told[-1].rows if told else 0

    (rest, bad), (held, others) = ids("rest"), ids("held")

    assert sorted([*rest, *held]) == list(range(60))
    assert bad + others == len(lines) - 60
    assert bad
    assert others


def test_rows_of_a_dataset_that_leaves_bad_ones_out_are_not_told(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "rows", ([8],))

    assert make_plan(folder).has_row_counts
    assert not make_plan(folder, onBadRecord="skip").has_row_counts


def test_two_datasets_of_one_file_share_a_reader_and_no_rows(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "rows", ([8],))
    kinds: dict[str, JsonValue] = {"odd": "odd_rows", "all": "picky"}
    reader, found = FragmentReader(), {}
    for name, use in kinds.items():
        transforms: JsonValue = [{"use": f"{FUNCTIONS}:{use}"}]
        plan = make_plan(folder, keeps_rows=False, transforms=transforms)
        how = replace(reading(replace(plan, name=name)), chunk_rows=2)
        (part,) = (
            parts(plan, [RowRange(0, 0, 1)]) if name == "odd" else parts(plan, [RowRange(0, 1, 8)])
        )
        tables = read_parts(how, [part], reader=reader)
        found[name] = [int(row) for columns, _ in tables for row in columns["id"]]

    assert found == {"odd": [1], "all": [1, 2, 3, 4, 5, 6, 7]}


def record(number: int, rows: int = 1) -> BadRecord:
    return BadRecord("a.csv", f"byte {number}", "it is broken", rows)


def test_what_is_told_again_counts_once() -> None:
    bad_record_log = BadRecordLog(FIELD, 10, 100)
    first = BadRecordList(FIELD, ("a.csv", 0, 0)).after([record(0), record(1)])
    other = BadRecordList(FIELD, ("a.csv", 50, 0)).after([record(50, rows=3)])

    grown = [
        bad_record_log.take(each)
        for each in (first, other, first, other, BadRecordList(FIELD, ("a", 0, 0)))
    ]

    assert grown == [True, True, False, False, False]
    assert bad_record_log.rows == 5
    assert bad_record_log.take(first.after([record(2)]))
    assert bad_record_log.rows == 6
    assert [each.place for each in bad_record_log.first] == [
        "byte 0",
        "byte 1",
        "byte 50",
        "byte 2",
    ]
    assert bad_record_log.excess is None


def test_one_row_more_than_may_be_is_said_with_the_first() -> None:
    bad_record_log = BadRecordLog(FIELD, 4, 100)
    told = BadRecordList(FIELD, ("a.csv", 0, 0)).after(record(number) for number in range(30))

    bad_record_log.take(told)

    assert len(bad_record_log.first) == FIRST
    assert bad_record_log.excess == (
        "spec.data.datasets.train: 30 rows of about 100 are bad, more than its "
        "badRecordLimit of 4: correct or remove them, or raise the limit. The first: "
        "a.csv: byte 0: it is broken; a.csv: byte 1: it is broken; a.csv: byte 2: it is broken"
    )


def test_of_a_bad_record_the_reason_is_told_however_long_the_rest_is() -> None:
    bad = BadRecord(f"/{'deep/' * 200}a.csv", f"row 3 of {'x' * 200}", "no number " * 100)

    said = bad.say()

    assert len(said) == MOST_SAID == MAX_REASON
    assert said.startswith("...")
    assert "/deep/a.csv: row 3 of xxx" in said
    assert said.endswith("no numb...")


def test_a_bad_record_is_said_without_what_a_terminal_obeys() -> None:
    bad = BadRecord("a\n\x1b[2J\udce9.csv", "byte 0", "no \x1b[31mnumber:\n\x9b \ud800 caf\u00e9")

    assert bad.say() == (
        "a\\n\\x1b[2J\\udce9.csv: byte 0: no \\x1b[31mnumber: \\x9b \\ud800 caf\u00e9"
    )


GROUPS: dict[str, tuple[int, ...]] = {
    "row group 7": (7,),
    "row groups 0 to 4999": tuple(range(5000)),
    "3 of row groups 2 to 9": (2, 5, 9),
}


@pytest.mark.parametrize("words", GROUPS)
def test_row_groups_are_told_in_a_few_words(words: str) -> None:
    fragment = Fragment("a.parquet", 0, GROUPS[words], 10, 100)

    assert place_of(Scan(), fragment, 3) == ("a.parquet", f"row 3 of {words}")


REFUSED: dict[str, dict[str, JsonValue]] = {
    "a function's rows": {"read": {"use": "my_module:make"}},
    "rows of a mix": {"read": {"mix": {"a": 1.0}}},
}


@pytest.mark.parametrize("fields", REFUSED.values(), ids=REFUSED)
def test_rows_without_a_place_are_not_left_out(fields: dict[str, JsonValue]) -> None:
    with pytest.raises(ValueError, match="onBadRecord"):
        DatasetSpec.model_validate({"onBadRecord": "skip", **fields})
