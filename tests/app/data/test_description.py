"""Data that are other than a checkpoint says: refused in an epoch's middle, said at its end."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tests.app.data.builders_plan import FUNCTIONS, make_mix, make_plan, with_fields, write_rows
from trainshed.data.sampler.dataset_plan import DatasetPlan
from trainshed.data.sampler.description import MOST_FILES, Described, describe, keep_order
from trainshed.data.sampler.file_tables import FileTable
from trainshed_api.errors import SpecError

GROUPS = ([5, 11], [1, 30, 8], [26])


def described(plan: DatasetPlan, counts: list[int] | None = None) -> dict[str, Described]:
    """Return what a checkpoint says of a plan's dataset."""
    told = describe(plan, None if counts is None else np.asarray(counts))
    assert told
    return {plan.name: told}


def write_file(folder: Path, name: str, sizes: list[int]) -> None:
    """Write one more file, or another one in its place."""
    (written,) = write_rows(folder / "_aside", [sizes]).iterdir()
    (folder / name).parent.mkdir(exist_ok=True)
    written.rename(folder / name)


@dataclass(frozen=True)
class Case:
    """A change of files, what there is now, and what there was."""

    change: Callable[[Path], object]
    want_got: str
    want_was: str


CASES: dict[str, Case] = {
    "a file more": Case(
        lambda rows: write_file(rows, "part-003.parquet", [64]),
        "part-003.parquet with 64 rows in ",
        "no such file",
    ),
    "a file that comes first": Case(
        lambda rows: write_file(rows, "a/new.parquet", [64]),
        "a/new.parquet with 64 rows in ",
        "no such file",
    ),
    "a file less": Case(
        lambda rows: (rows / "part-001.parquet").unlink(),
        "no file part-001.parquet",
        "one with 39 rows in ",
    ),
    "other rows": Case(
        lambda rows: write_file(rows, "part-001.parquet", [1, 30, 9]),
        "part-001.parquet with 40 rows in ",
        "39 rows in ",
    ),
    "rows in other groups": Case(
        lambda rows: write_file(rows, "part-001.parquet", [30, 1, 8]),
        "part-001.parquet with 39 rows in ",
        "",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_files_are_refused_in_the_middle_of_an_epoch(tmp_path: Path, case: Case) -> None:
    rows = write_rows(tmp_path / "rows", GROUPS)
    was = described(make_plan(rows))
    case.change(rows)
    with pytest.raises(SpecError) as caught:
        keep_order({"train": make_plan(rows)}, was, mid_pass={"train": True})

    said = str(caught.value)
    assert said.startswith(f"spec.data.datasets.train.read: got {case.want_got}")
    assert f"; expected {case.want_was}" in said
    assert "--fresh" in said


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_other_files_are_said_at_the_end_of_an_epoch_and_read(tmp_path: Path, case: Case) -> None:
    rows = write_rows(tmp_path / "rows", GROUPS)
    was = described(make_plan(rows))
    case.change(rows)
    now = {"train": make_plan(rows)}
    going_on, notes = keep_order(now, was, mid_pass={"train": False})

    assert going_on == now
    (note,) = notes
    assert note.startswith(f"spec.data.datasets.train.read: {case.want_got}")
    assert f"where the checkpoint had {case.want_was}" in note


def test_rows_are_told_apart_where_neither_number_nor_size_does(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows", GROUPS)
    plan = make_plan(rows)
    assert plan.source
    first, *others = plan.source.files
    moved = FileTable.of([replace(first, groups=first.groups + 1), *others])
    now = replace(plan, source=replace(plan.source, files=moved))
    with pytest.raises(SpecError, match=r"part-000.parquet with 16 rows in .* in other row groups"):
        keep_order({"train": now}, described(plan), mid_pass={"train": True})


def test_other_rows_to_score_do_not_stop_an_epoch_of_training(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows", GROUPS)
    train, valid = make_plan(rows), replace(make_plan(rows), name="valid")
    was = described(train) | described(valid)
    write_file(rows, "part-003.parquet", [64])
    now = {"train": train, "valid": replace(make_plan(rows), name="valid")}
    going_on, notes = keep_order(now, was, mid_pass={"train": True})

    assert going_on["train"].kept
    assert going_on["valid"] == now["valid"]
    assert [note.partition(":")[0] for note in notes] == ["spec.data.datasets.valid.read"]


def test_a_step_has_rows_of_all_that_are_mixed(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows", GROUPS)
    was = described(replace(make_plan(rows), name="a"))
    write_file(rows, "part-003.parquet", [64])
    part = replace(make_plan(rows), name="a")
    mix = make_mix({"a": (part, 1.0)})
    with pytest.raises(SpecError, match=r"datasets\.a\.read: got part-003"):
        keep_order({"train": mix, "a": part}, was, mid_pass={"train": True})
    assert describe(mix, None) is None


def test_of_many_files_the_number_and_a_digest_are_kept(tmp_path: Path) -> None:
    plan = make_plan(write_rows(tmp_path / "rows", GROUPS))
    assert plan.source
    first = plan.source.files[0]
    many = [replace(first, path=f"{number}.parquet") for number in range(MOST_FILES + 1)]
    plan = replace(plan, source=replace(plan.source, files=FileTable.of(many)))
    was = described(plan)
    assert was["train"].files == ()

    _, notes = keep_order({"train": plan}, was, mid_pass={"train": True})
    assert notes == []
    assert plan.source
    fewer = replace(plan, source=replace(plan.source, files=FileTable.of(many[1:])))
    with pytest.raises(
        SpecError, match=f"got {MOST_FILES} files .* expected {MOST_FILES + 1} files"
    ):
        keep_order({"train": fewer}, was, mid_pass={"train": True})


def test_rows_that_only_transforms_left_out_are_refused_where_they_come_again(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows", [[4], [6]])
    odd = make_plan(
        rows, cache="objects", transforms=[{"use": f"{FUNCTIONS}:odd_rows"}], keeps_rows=False
    )
    was = described(odd, [2, 3])
    assert was["train"].counts == (2, 3)
    with pytest.raises(SpecError, match=r"transforms: got 10 rows after them; expected 5 rows"):
        keep_order({"train": make_plan(rows, cache="none")}, was, mid_pass={"train": True})


def test_rows_that_transforms_leave_out_by_now_are_refused_where_they_come_as_they_come(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows", [[4], [6]])
    was = described(make_plan(rows, cache="none"))
    odd = make_plan(
        rows,
        cache="none",
        transforms=[{"use": f"{FUNCTIONS}:odd_rows"}],
        keeps_rows=False,
        may_learn=True,
    )

    with pytest.raises(
        SpecError, match=r"transforms: got rows that only reading tells; expected 10"
    ):
        keep_order({"train": odd}, was, mid_pass={"train": True})


def test_counts_of_fragments_that_were_cut_otherwise_are_refused(tmp_path: Path) -> None:
    """As an earlier release may have cut them; counts would be taken for those of others."""
    plan = make_plan(write_rows(tmp_path, GROUPS), read={"where": "id >= 0"}, cache="none")
    before = described(plan, [16, -1])

    with pytest.raises(
        SpecError, match=r"train.read: got 3 fragments; expected 2 fragments, as when"
    ):
        keep_order({"train": plan}, before, mid_pass={"train": True})

    going_on, notes = keep_order({"train": plan}, before, mid_pass={"train": False})
    assert going_on["train"].kept is None
    assert "3 fragments, where the checkpoint had 2" in notes[0]


def test_a_function_s_rows_that_nobody_counted_are_not_described() -> None:
    plan = make_plan(None, read={"use": f"{FUNCTIONS}:odd_rows"})
    assert describe(plan, None) is None


def test_rows_that_transforms_may_leave_out_are_not_described_before_they_are_counted(
    tmp_path: Path,
) -> None:
    rows = write_rows(tmp_path / "rows", [[4], [6]])
    odd = make_plan(
        rows, cache="objects", transforms=[{"use": f"{FUNCTIONS}:odd_rows"}], keeps_rows=False
    )
    assert describe(odd, None) is None

    # Who goes on knows what was counted before.
    told = described(odd, [2, 3])
    going_on, _ = keep_order({"train": odd}, told, mid_pass={"train": True})
    assert {"train": describe(going_on["train"], None)} == told


def test_counts_hold_at_the_end_of_an_epoch_that_ends_within_a_pass(tmp_path: Path) -> None:
    """As `rowsPerEpoch` has it: rows of the pass under way would come twice, or never."""
    write_rows(tmp_path, [[8]])
    for rows, holds in ((4, True), (None, False)):
        plan = with_fields(make_plan(tmp_path), rows_per_epoch=rows)
        going_on, _ = keep_order({plan.name: plan}, described(plan), mid_pass={plan.name: False})
        kept = going_on[plan.name].kept
        assert kept
        assert kept.under_way == holds


def test_other_files_are_refused_in_the_middle_of_a_pass_beside_the_steps(tmp_path: Path) -> None:
    train = make_plan(write_rows(tmp_path / "train", GROUPS))
    rows = write_rows(tmp_path / "rows", GROUPS)
    was = described(train) | described(replace(make_plan(rows), name="other"))
    write_file(rows, "part-003.parquet", [64])
    now = {"train": train, "other": replace(make_plan(rows), name="other")}

    _, notes = keep_order(now, was, mid_pass={"train": True, "other": False})
    assert [note.partition(":")[0] for note in notes] == ["spec.data.datasets.other.read"]
    # As where an iterator spans epochs, at the end of one.
    with pytest.raises(SpecError, match=r"datasets\.other\.read: got part-003"):
        keep_order(now, was, mid_pass={"train": False, "other": True})
