"""What `storage gc` lists: all that nobody goes on with, and nothing of a run that is under way."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import torch
from pydantic import JsonValue

from tests.app.builders_checkpoint import hold, make_manifest
from tests.app.cli_here import trainshed_here
from trainshed.attempt import gc as found
from trainshed.attempt.disk_cache_gc import delete_left_rows, delete_rows
from trainshed.attempt.gc import ROWS_KEPT, SUPERFLUOUS, UNFINISHED, leftovers
from trainshed.checkpoint import store as checkpoint
from trainshed.storage.disk import Disk
from trainshed.storage.folder import UNDERWAY, Folder
from trainshed.storage.run_folder import RECORD, ROWS, ROWS_LIST, RunFolder
from trainshed_api.records import MachineRecord, RunRecord

SPEC: dict[str, JsonValue] = {"train": "module:train", "epochs": 1, "checkpoint": {"keep": 2}}


def make_run(storage: Folder, attempts: dict[int, list[int]]) -> RunFolder:
    """Make a run that has ended: by attempt, the steps of its checkpoints."""
    run = RunFolder(storage / "local" / "digits")
    record = RunRecord(
        name="digits",
        spec_hash="abc",
        spec=SPEC,
        versions={},
        git=None,
        machine=MachineRecord(cpus=1, memory_bytes=1, gpus=0),
        data={},
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    run.at.write(RECORD, record.model_dump_json(by_alias=True).encode())
    for number, steps in attempts.items():
        run.claim("abc", fresh=number == 1, number=number).close()
        for step in steps:
            content = hold({"weight": torch.zeros(1)}, {})
            checkpoint.write(
                run.checkpoints(number), content, make_manifest(step), trust_objects=False
            )
    return run


def leave_half(parent: Folder) -> Folder:
    """Leave of a checkpoint what a kill in the middle leaves."""
    if parent.path:
        left = parent / ".writing-x7"
    else:
        left = parent / "checkpoint_000000099_epoch0009"
        left.write(UNDERWAY, b"")
    left.write("model.pt", b"half")
    return left


def test_half_written_ones_and_those_beyond_keep_are_listed(place: Folder) -> None:
    run = make_run(place, {1: [10, 20, 30], 2: [40]})
    left = leave_half(run.checkpoints(1))

    listed = {(each.folder.name, each.why) for each in leftovers(place, 0)}

    assert listed == {
        (left.name, UNFINISHED),
        ("checkpoint_000000010_epoch0001", SUPERFLUOUS),
        ("checkpoint_000000020_epoch0001", SUPERFLUOUS),
    }


def test_nothing_of_a_run_that_is_under_way_is_listed(place: Folder) -> None:
    run = make_run(place, {1: [10, 20, 30]})
    leave_half(run.checkpoints(1))
    attempt = run.claim("abc", fresh=False)

    assert list(leftovers(place, 0)) == []
    attempt.close()
    assert list(leftovers(place, 0))


def test_what_was_written_just_now_stays(place: Folder) -> None:
    run = make_run(place, {1: [10, 20, 30], 2: [40]})
    leave_half(run.checkpoints(1))

    assert list(leftovers(place)) == [], "its driver may be cut off, and not know that it is dead"


def test_a_link_to_what_is_another_runs_is_not_followed(tmp_path: Path) -> None:
    theirs = make_run(Disk(tmp_path / "theirs"), {1: [10, 20, 30], 2: [40]})
    mine = make_run(Disk(tmp_path / "mine"), {1: []})
    at, other = mine.attempt(1).path, theirs.checkpoints(1).path
    assert at
    assert other
    leave_half(theirs.checkpoints(1))
    (at / "ray").symlink_to(other)

    assert list(leftovers(Disk(tmp_path / "mine"), 0)) == []


def test_the_command_shows_before_it_deletes(
    place: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found, "leftovers", partial(leftovers, age_seconds=0))
    run = make_run(place, {1: [10, 20, 30], 2: [40]})
    left = leave_half(run.checkpoints(1))

    shown = trainshed_here("storage", "gc", str(place))
    assert shown.code == 0, shown.stderr
    assert str(left) in shown.stdout
    assert "3 folders" in shown.stdout
    assert "Add --delete to delete them" in shown.stdout
    assert left.exists()

    trainshed_here("storage", "gc", str(place), "--delete")
    assert not left.exists()
    assert [
        each.name for each in checkpoint.candidates([run.checkpoints(1), run.checkpoints(2)])
    ] == ["checkpoint_000000040_epoch0001", "checkpoint_000000030_epoch0001"]
    assert "nothing to delete" in trainshed_here("storage", "gc", str(place)).stdout


def keep_rows(run: RunFolder, number: int) -> Folder:
    """Leave what `cache: disk` of an attempt leaves."""
    rows = run.attempt(number) / ROWS / "train"
    (rows / "part-1").write("rows.parquet", b"rows")
    rows.write(ROWS_LIST, b"{}")
    return rows


def test_rows_of_a_run_that_may_go_on_are_kept(place: Folder) -> None:
    run = make_run(place, {1: [10]})
    keep_rows(run, 1)

    assert list(leftovers(place, 0)) == []


def test_rows_that_no_attempt_goes_on_with_are_listed_and_deleted(place: Folder) -> None:
    """There is no checkpoint: the next attempt makes them anew."""
    run = make_run(place, {1: []})
    rows = keep_rows(run, 1)

    (listed,) = leftovers(place, 0)
    listed.delete()

    assert (str(listed.folder), listed.why) == (str(rows), ROWS_KEPT)
    assert rows.tree() == []


def test_an_attempt_deletes_rows_with_which_it_does_not_go_on(place: Folder) -> None:
    run = make_run(place, {1: [10], 2: [20], 3: [30], 4: []})
    old, half, own, other = (keep_rows(run, number) for number in (1, 2, 4, 3))
    half.delete(ROWS_LIST)

    before = [run.attempt(3) / ROWS, run.attempt(2) / ROWS]
    assert delete_left_rows(run, 4, before, {"train"}) is None

    assert [bool(folder.tree()) for folder in (old, half, other, own)] == [
        False,
        False,
        True,
        True,
    ]


def test_rows_of_files_stay_that_an_attempt_did_not_keep_to_their_end(place: Folder) -> None:
    run = make_run(place, {1: [], 2: []})
    half = keep_rows(run, 1)
    half.delete(ROWS_LIST)

    assert delete_left_rows(run, 2, [run.attempt(1) / ROWS]) is None

    assert half.tree()


def test_one_that_was_overtaken_deletes_none(place: Folder) -> None:
    run = make_run(place, {1: [10], 2: [20], 3: []})
    rows = keep_rows(run, 1)

    assert delete_left_rows(run, 2, []) is None

    assert rows.tree()


def test_a_run_that_has_succeeded_leaves_no_rows(place: Folder) -> None:
    run = make_run(place, {1: [10], 2: [20]})
    rows = [keep_rows(run, 1), keep_rows(run, 2)]

    assert delete_rows(run) is None

    assert [folder.tree() for folder in rows] == [[], []]
