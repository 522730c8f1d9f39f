"""Which run a folder holds, whether it is over, and where the next attempt goes on."""

import errno
import json
import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.builders_checkpoint import write_checkpoint
from tests.app.builders_rows import write_rows
from tests.builders import make_data, make_dataset, make_run
from tests.builders_later import make_later_spec
from trainshed.attempt import resume
from trainshed.attempt.disk_cache_gc import rows_before
from trainshed.attempt.provenance import run_record
from trainshed.checkpoint import ray_snapshot
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.manifest import DatasetPosition, Manifest
from trainshed.data.sampler.dataset_plan import OrderFingerprint
from trainshed.data.sampler.description import describe
from trainshed.data.sources.formats import parquet_sample
from trainshed.failures import InfrastructureError
from trainshed.planning.preflight import Prepared, RunLocation, prepare
from trainshed.retry import RetryPolicy
from trainshed.storage import run_folder
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import RECORD, RESULT, ROWS
from trainshed_api.data import ShuffleSpec
from trainshed_api.errors import SpecError
from trainshed_api.names import Outcome
from trainshed_api.records import CheckpointRecord, ResultRecord
from trainshed_api.spechash import spec_hash
from trainshed_api.v1alpha1 import TrainingRunSpec


def make_prepared(home: Path, **changes: JsonValue) -> Prepared:
    """Return a run of 5 epochs without data; epochs=None leaves them out."""
    spec: dict[str, JsonValue] = {
        "train": "tests.app.processes:children",
        "epochs": 5,
        **changes,
    }
    run = make_run(**{name: value for name, value in spec.items() if value is not None})
    return prepare(run, RunLocation(Disk(home)))


def make_attempt(prepared: Prepared, home: Path, *, fresh: bool = False) -> Folder:
    """Leave what a driver does that is killed at once; return the folder of its checkpoints."""
    attempt = prepared.folder.claim(prepared.spec_hash, fresh)
    attempt.close()
    record = run_record(prepared, home, started=0.0)
    for folder in (prepared.folder.at, attempt.folder):
        folder.write(RECORD, record.model_dump_json(by_alias=True).encode())
    return prepared.folder.checkpoints(attempt.number)


def write_result(
    prepared: Prepared,
    *,
    outcome: Outcome = "Succeeded",
    epochs: int | None = 5,
    attempt: int = 1,
    **trained: object,
) -> None:
    result = ResultRecord(
        outcome=outcome,
        epochs=epochs,
        wall_seconds=1.0,
        attempt=attempt,
        finished_at=datetime.now(UTC),
    ).model_copy(update=trained)
    prepared.folder.at.write(RESULT, result.model_dump_json(by_alias=True).encode())


def with_spec(prepared: Prepared, spec: TrainingRunSpec) -> Prepared:
    """Return a prepared run as it would be with another spec; no data is looked for."""
    run = prepared.run.model_copy(update={"spec": spec})
    return replace(prepared, run=run, spec_hash=spec_hash(spec))


def cut(checkpoint: Folder) -> Folder:
    checkpoint.write("model.pt", checkpoint.read("model.pt")[:-7])
    return checkpoint


# ------------------------------------------------------------------- same run


def test_a_new_folder_holds_no_other_run(tmp_path: Path) -> None:
    resume.check_same_run(make_prepared(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"reproducible": True},
        {"workers": {"count": 2, "resources": {"cpu": "500m"}}},
        {"gracePeriodSeconds": 5},
        {"checkpoint": {"everySteps": 7}},
    ],
)
def test_what_may_change_between_attempts_is_the_same_run(
    tmp_path: Path, change: dict[str, JsonValue]
) -> None:
    make_attempt(make_prepared(tmp_path), tmp_path)

    resume.check_same_run(make_prepared(tmp_path, **change))


def test_what_only_sets_speed_may_change_between_attempts(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    slow, fast = (
        with_spec(
            prepared,
            make_run(data=make_data(make_dataset(feed={"prefetchBatches": batches}))).spec,
        )
        for batches in (0, 8)
    )
    make_attempt(slow, tmp_path)

    resume.check_same_run(fast)


def test_a_release_with_more_fields_goes_on_with_an_earlier_one_s_run(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    make_attempt(with_spec(prepared, make_run(data=make_data()).spec), tmp_path)

    resume.check_same_run(with_spec(prepared, make_later_spec(data=make_data())))


def make_shuffled(
    home: Path, *, fresh: bool = False, cache: str = "auto", **shuffle: JsonValue
) -> Prepared:
    """Return a run over 80 rows of files, which are written once."""
    if not (home / "rows").exists():
        write_rows(home / "rows", 80)
    data = make_data(make_dataset(shuffle=shuffle, cache=cache))
    run = make_run(train="tests.app.processes:children", data=data)
    return prepare(run, RunLocation(Disk(home)), fresh=fresh)


def begin_with(home: Path, prepared: Prepared, **record: object) -> None:
    """Leave an attempt with fields of its record changed."""
    make_attempt(prepared, home)
    written = run_record(prepared, home, started=0.0).model_copy(update=record)
    prepared.folder.at.write(RECORD, written.model_dump_json(by_alias=True).encode())


def test_a_resumed_run_keeps_the_shuffle_that_was_chosen_when_it_began(tmp_path: Path) -> None:
    blocks = ShuffleSpec(mode="blocks", buffer_size=30)
    begin_with(tmp_path, make_shuffled(tmp_path), shuffle={"train": blocks})

    again = make_shuffled(tmp_path)

    assert again.plans["train"].spec.shuffle == blocks
    resume.check_same_run(again)
    assert make_shuffled(tmp_path, fresh=True).plans["train"].spec.shuffle.mode == "global"


def test_a_run_that_began_with_row_counts_of_many_files_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = make_shuffled(tmp_path)
    begin_with(tmp_path, counted)
    monkeypatch.setattr(parquet_sample, "MOST_COUNTED", 0)

    again, fresh = make_shuffled(tmp_path), make_shuffled(tmp_path, fresh=True)

    assert again.plans["train"].source == counted.plans["train"].source
    assert counted.plans["train"].rows == 80
    assert fresh.plans["train"].rows is None


def test_a_cache_of_workers_is_refused_for_a_run_that_began_with_blocks(tmp_path: Path) -> None:
    """The spec names no mode: the rule was held against that alone, and rows came in file order."""
    blocks = ShuffleSpec(mode="blocks", buffer_size=30)
    begin_with(tmp_path, make_shuffled(tmp_path), shuffle={"train": blocks})

    with pytest.raises(SpecError, match=r'train.cache: got "workers"; expected objects, disk'):
        make_shuffled(tmp_path, cache="workers")


def test_the_mode_that_was_chosen_may_be_named(tmp_path: Path) -> None:
    begin_with(tmp_path, make_shuffled(tmp_path))

    resume.check_same_run(make_shuffled(tmp_path, mode="global"))


def test_a_mode_that_was_chosen_is_named_with_its_buffer(tmp_path: Path) -> None:
    blocks = ShuffleSpec(mode="blocks", buffer_size=30)
    begin_with(tmp_path, make_shuffled(tmp_path), shuffle={"train": blocks})

    resume.check_same_run(make_shuffled(tmp_path, mode="blocks", bufferSize=30))
    with pytest.raises(SpecError, match=r"train.shuffle.bufferSize: 30 -> 40$"):
        resume.check_same_run(make_shuffled(tmp_path, mode="blocks", bufferSize=40))


def test_a_run_that_began_with_an_earlier_release_stays_unshuffled(tmp_path: Path) -> None:
    begin_with(tmp_path, make_shuffled(tmp_path), shuffle={})

    again = make_shuffled(tmp_path)

    assert again.plans["train"].spec.shuffle.mode == "none"
    resume.check_same_run(again)


def test_a_named_shuffle_other_than_that_of_the_run_is_refused(tmp_path: Path) -> None:
    """The hash does not tell: earlier releases gave a run that names no mode that of `none`."""
    make_attempt(make_shuffled(tmp_path), tmp_path)

    with pytest.raises(SpecError) as caught:
        resume.check_same_run(make_shuffled(tmp_path, mode="none"))

    said = 'It differs: spec.data.datasets.train.shuffle.mode: "global" -> "none"'
    assert str(caught.value).endswith(said)


def test_a_pass_in_progress_is_not_resumed_with_another_shuffle(tmp_path: Path) -> None:
    prepared = make_shuffled(tmp_path)
    found = write_begun(prepared, tmp_path)
    manifest = json.loads(found.read(checkpoint.MANIFEST)) | {"shuffle": {"train": "none"}}
    found.write(checkpoint.MANIFEST, json.dumps(manifest).encode())

    with pytest.raises(SpecError, match=r"train.shuffle.mode: got global; expected none, as when"):
        resume.keep_order(prepared, found)


def with_buffer(found: Folder, rows: int) -> None:
    """Record a shuffle in blocks with a buffer in a checkpoint."""
    shuffle = {"shuffle": {"train": "blocks"}, "bufferRows": {"train": rows}}
    manifest = json.loads(found.read(checkpoint.MANIFEST)) | shuffle
    found.write(checkpoint.MANIFEST, json.dumps(manifest).encode())


def test_a_pass_in_progress_keeps_the_buffer_that_another_run_chose(tmp_path: Path) -> None:
    blocks = ShuffleSpec(mode="blocks", buffer_size=30)
    begin_with(tmp_path, make_shuffled(tmp_path), shuffle={"train": blocks})
    prepared = make_shuffled(tmp_path)
    found = write_begun(prepared, tmp_path)
    with_buffer(found, 40)

    going_on, _ = resume.keep_order(prepared, found)

    assert prepared.plans["train"].shuffle_buffer_rows == 30
    assert going_on.plans["train"].shuffle_buffer_rows == 40


def test_a_pass_in_progress_is_not_resumed_with_another_buffer_that_is_named(
    tmp_path: Path,
) -> None:
    prepared = make_shuffled(tmp_path, mode="blocks", bufferSize=30)
    found = write_begun(prepared, tmp_path)
    with_buffer(found, 40)

    with pytest.raises(SpecError, match=r"train.shuffle.bufferSize: got 30; expected 40, as when"):
        resume.keep_order(prepared, found)


def test_another_spec_is_refused_with_all_that_differs(tmp_path: Path) -> None:
    make_attempt(make_prepared(tmp_path, config={"rate": 0.1}), tmp_path)

    with pytest.raises(SpecError) as caught:
        resume.check_same_run(make_prepared(tmp_path, config={"rate": 0.2}, batchSize=8))
    said = str(caught.value)
    assert "or --fresh to start over" in said
    assert "It differs: spec.config.rate: 0.1 -> 0.2; spec.batchSize: 64 -> 8" in said


# -------------------------------------------------------------------- is over


@dataclass(frozen=True)
class Case:
    """A result of attempt 1, what the file says now, and whether the run is over."""

    want: bool
    outcome: Outcome = "Succeeded"
    had: int | None = 5
    epochs: int | None = 5


CASES: dict[str, Case] = {
    "all epochs are done": Case(True),
    "it was stopped": Case(False, outcome="Stopped"),
    "it failed": Case(False, outcome="Failed"),
    "more epochs are asked for now": Case(False, epochs=6),
    "fewer epochs are asked for now": Case(True, epochs=4),
    "the function counts for itself": Case(True, had=None, epochs=None),
    "epochs are counted since then": Case(False, had=None, epochs=5),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_is_over_when_its_epochs_are_done(tmp_path: Path, case: Case) -> None:
    prepared = make_prepared(tmp_path, epochs=case.epochs)
    make_attempt(prepared, tmp_path)
    write_result(prepared, outcome=case.outcome, epochs=case.had)

    assert (resume.finished(prepared) is not None) is case.want


OURS, USERS = "ray/checkpoint_000000024_epoch0002", "ray/checkpoint_2026-11-27_10-00-00"


@pytest.mark.parametrize(
    ("path", "saved", "want"),
    [
        (OURS, 20, False),
        (OURS, 24, True),
        # A function that saves by itself, or not at all, may report no step.
        (USERS, None, True),
        (USERS, 20, True),
        (None, None, True),
    ],
)
def test_a_run_that_was_left_early_is_over_unless_its_tracked_weights_are_older(
    tmp_path: Path, path: str | None, saved: int | None, want: bool
) -> None:
    prepared = make_prepared(tmp_path, epochs=5)
    make_attempt(prepared, tmp_path)
    kept = None if path is None else CheckpointRecord(path=path, epoch=2, step=saved)
    write_result(prepared, epoch=2, step=24, checkpoint=kept)

    assert (resume.finished(prepared) is not None) is want


def test_a_result_from_before_a_fresh_start_is_not_this_runs(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    make_attempt(prepared, tmp_path)
    write_result(prepared)
    make_attempt(prepared, tmp_path, fresh=True)  # and was killed

    assert resume.finished(prepared) is None


@pytest.mark.parametrize("text", ["", "{", '{"outcome": "Fine"}'])
def test_a_result_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    prepared = make_prepared(tmp_path)
    make_attempt(prepared, tmp_path)
    prepared.folder.at.write(RESULT, text.encode())

    assert resume.finished(prepared) is None


# -------------------------------------------------------------- where it goes on


def test_the_first_attempt_starts_at_the_beginning(tmp_path: Path) -> None:
    assert resume.choose(make_prepared(tmp_path), False) == (None, [])


def test_the_newest_checkpoint_of_the_last_attempt_that_has_one_is_taken(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    write_checkpoint(make_attempt(prepared, tmp_path), 90)
    newest = write_checkpoint(make_attempt(prepared, tmp_path), 30)
    make_attempt(prepared, tmp_path)  # died before its first checkpoint

    assert resume.choose(prepared, False) == (newest, [])


def test_a_checkpoint_that_is_not_whole_is_passed_over_and_said_so(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    folder = make_attempt(prepared, tmp_path)
    before, last = write_checkpoint(folder, 10), cut(write_checkpoint(folder, 20))
    found, refused = resume.choose(prepared, False)

    assert found == before
    assert len(refused) == 1
    assert f"checkpoint refused, trying the one before it: {last}: model.pt has" in refused[0]


def test_never_and_fresh_start_anew(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    write_checkpoint(make_attempt(prepared, tmp_path))
    never = make_prepared(tmp_path, checkpoint={"resume": "never"})

    assert resume.choose(never, False) == (None, [])
    assert resume.choose(prepared, True) == (None, [])


def test_after_a_fresh_start_earlier_checkpoints_do_not_count(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    write_checkpoint(make_attempt(prepared, tmp_path), 90)
    make_attempt(prepared, tmp_path, fresh=True)

    assert resume.choose(prepared, False) == (None, [])
    own = write_checkpoint(make_attempt(prepared, tmp_path), 10)
    assert resume.choose(prepared, False) == (own, [])


@pytest.mark.parametrize("fresh", [False, True])
def test_a_checkpoint_that_is_named_is_taken(tmp_path: Path, fresh: bool) -> None:
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), 5)
    for path in (f"elsewhere/{named.name}", str(named), f"file://{named}"):
        write_checkpoint(make_attempt(make_prepared(tmp_path), tmp_path), 90)
        prepared = make_prepared(tmp_path, checkpoint={"resume": path})

        assert resume.choose(prepared, fresh) == (named, [])


def test_a_checkpoint_that_is_deleted_for_a_newer_one_while_it_is_looked_at_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = make_prepared(tmp_path)
    older = write_checkpoint(make_attempt(prepared, tmp_path), 10)
    folder = make_attempt(prepared, tmp_path)
    going = write_checkpoint(folder, 20)
    came = []
    verify = checkpoint.verify

    def write_another(looked_at: Folder, retry_policy: RetryPolicy) -> Manifest:
        if looked_at == going:
            came.append(write_checkpoint(folder, 30))
            going.remove(first=checkpoint.MANIFEST)
        return verify(looked_at, retry_policy)

    monkeypatch.setattr(checkpoint, "verify", write_another)

    assert resume.choose(prepared, False) == (came[0], [])
    assert older.exists()


@pytest.mark.parametrize("has_given", [False, True])
def test_what_ray_train_knows_of_a_refused_checkpoint_does_not_bring_it_back(
    tmp_path: Path, has_given: bool
) -> None:
    prepared = make_prepared(tmp_path)
    first = make_attempt(prepared, tmp_path)
    given = write_checkpoint(first, 10)
    folder = make_attempt(prepared, tmp_path)
    if has_given:
        ray_snapshot.seed(folder, given)
    else:
        own = {"checkpoint_dir_name": write_checkpoint(folder, 20).name, "metrics": {}}
        snapshot = {"checkpoint_results": [own], "latest_checkpoint_result": own}
        folder.write(ray_snapshot.SNAPSHOT, json.dumps(snapshot).encode())
    for whole in checkpoint.candidates([first, folder]):
        whole.delete(checkpoint.MANIFEST)  # its links are whole still
    found, refused = resume.choose(prepared, False)

    assert found == (folder / ray_snapshot.LINKED if has_given else None)
    assert refused


def test_what_an_attempt_began_with_is_not_guessed_where_storage_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), 50)
    prepared = make_prepared(tmp_path, checkpoint={"resume": str(named)})
    write_checkpoint(make_attempt(prepared, tmp_path), 60)
    read = Disk.read

    def refuse(folder: Disk, name: str) -> bytes:
        if name == RECORD:
            raise OSError(errno.EIO, "Input/output error")
        return read(folder, name)

    monkeypatch.setattr(Disk, "read", refuse)
    monkeypatch.setattr(run_folder, "READS", RetryPolicy(rest=lambda _: None))

    with pytest.raises(InfrastructureError, match="Input/output error"):
        resume.choose(prepared, False)


def test_an_attempt_that_ended_before_it_began_hides_none(tmp_path: Path) -> None:
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), 50)
    prepared = make_prepared(tmp_path, checkpoint={"resume": str(named)})
    own = write_checkpoint(make_attempt(prepared, tmp_path), 60)
    prepared.folder.claim(prepared.spec_hash, fresh=False).close()

    assert resume.choose(prepared, False) == (own, [])


def test_a_run_goes_on_from_what_it_made_of_the_checkpoint_that_it_names(tmp_path: Path) -> None:
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), 50)
    write_checkpoint(make_attempt(make_prepared(tmp_path), tmp_path), 90)
    prepared = make_prepared(tmp_path, checkpoint={"resume": str(named)})
    parent = make_attempt(prepared, tmp_path)
    assert resume.choose(prepared, False) == (named, [])

    own = write_checkpoint(parent, 60)
    make_attempt(prepared, tmp_path)
    assert resume.choose(prepared, False) == (own, [])
    assert resume.choose(prepared, True) == (named, [])
    another = make_prepared(tmp_path, checkpoint={"resume": f"file://{named}"})
    assert resume.choose(another, False) == (named, [])


def test_rows_kept_before_a_checkpoint_was_named_are_not_gone_on_with(tmp_path: Path) -> None:
    """They are of another training; those of what it made of that checkpoint are its own."""
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), 50)
    write_checkpoint(make_attempt(make_prepared(tmp_path), tmp_path), 90)
    prepared = make_prepared(tmp_path, checkpoint={"resume": str(named)})
    write_checkpoint(make_attempt(prepared, tmp_path), 60)

    assert rows_before(prepared, 2) == []
    assert rows_before(prepared, 3) == [prepared.folder.attempt(2) / ROWS]


# ------------------------------------------------------------------- same data


def make_with_rows(home: Path, *, files: int = 3) -> Prepared:
    """Return a run of so many files of rows."""
    write_rows(home / "rows", 90, files=files)
    return make_prepared(home, batchSize=8, data=make_data())


def write_begun(prepared: Prepared, home: Path) -> Folder:
    """Leave a checkpoint in the middle of an epoch of the run's data."""
    data = {name: describe(plan, None) for name, plan in prepared.plans.items()}
    known = {name: each for name, each in data.items() if each}
    return write_checkpoint(make_attempt(prepared, home), data=known)


def test_a_file_that_was_added_in_the_middle_of_an_epoch_is_refused_with_what_to_do(
    tmp_path: Path,
) -> None:
    found = write_begun(make_with_rows(tmp_path), tmp_path)
    shutil.copy(tmp_path / "rows" / "part-0.parquet", tmp_path / "rows" / "part-3.parquet")
    with pytest.raises(SpecError) as caught:
        resume.keep_order(make_with_rows(tmp_path), found)

    said = str(caught.value)
    assert said.startswith("spec.data.datasets.train.read: got part-3.parquet with 30 rows in ")
    assert "no such file, as when this epoch began" in said
    assert "start over with --fresh" in said


def test_data_that_were_copied_go_on_in_the_order_that_they_had(tmp_path: Path) -> None:
    begun = make_with_rows(tmp_path / "here")
    found = write_begun(begun, tmp_path / "here")
    shutil.copytree(tmp_path / "here" / "rows", tmp_path / "there" / "rows")  # with other times
    there = make_prepared(tmp_path / "there", batchSize=8, data=make_data())
    going_on, notes = resume.keep_order(there, found)

    assert not notes
    assert going_on.plans["train"].kept == OrderFingerprint(None, True)


def test_a_pass_that_spans_epochs_is_held_to_its_rows_at_an_epochs_end(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 90)
    read: dict[str, JsonValue] = {"format": "parquet", "path": "rows"}
    data: dict[str, JsonValue] = {"datasets": {"train": {"read": read}, "other": {"read": read}}}
    prepared = make_prepared(tmp_path, batchSize=8, data=data)
    found = write_begun(prepared, tmp_path)
    manifest = json.loads(found.read(checkpoint.MANIFEST))
    manifest["position"]["stepInEpoch"] = 0
    position = DatasetPosition(epoch=1, step_in_epoch=3, spans_epochs=True)
    # Of a dataset that the run has no more nothing is held.
    manifest["positions"] = dict.fromkeys(("other", "gone"), position.model_dump(by_alias=True))
    found.write(checkpoint.MANIFEST, json.dumps(manifest).encode())
    going_on, _ = resume.keep_order(prepared, found)

    kept = {name: plan.kept and plan.kept.under_way for name, plan in going_on.plans.items()}
    assert kept == {"train": False, "other": True}


@pytest.mark.parametrize("wrote", ["an earlier release", "the function", "nobody"])
def test_where_nothing_is_known_of_the_data_a_run_goes_on(tmp_path: Path, wrote: str) -> None:
    prepared = make_with_rows(tmp_path)
    found: Folder | None = None
    if wrote == "an earlier release":
        found = write_checkpoint(make_attempt(prepared, tmp_path))
        manifest = json.loads(found.read(checkpoint.MANIFEST))
        del manifest["data"]
        found.write(checkpoint.MANIFEST, json.dumps(manifest).encode())
    elif wrote == "the function":
        found = Disk(tmp_path / "its-own")
        found.write("weights", b"")

    assert resume.keep_order(prepared, found) == (prepared, ())


# ------------------------------------------------------- an earlier release's order of rows


def make_earlier(folder: Folder, *, step_in_epoch: int) -> Folder:
    """Write what a release before wrote, which said nothing of an order."""
    manifest = json.loads(folder.read(checkpoint.MANIFEST))
    del manifest["order"]
    manifest["position"] |= {"stepInEpoch": step_in_epoch, "begunBy": 3}
    folder.write(checkpoint.MANIFEST, json.dumps(manifest).encode())
    return folder


def test_of_an_earlier_release_the_newest_at_an_epochs_end_is_taken_and_that_is_said(
    tmp_path: Path,
) -> None:
    prepared = make_prepared(tmp_path)
    attempt = make_attempt(prepared, tmp_path)
    ended = make_earlier(write_checkpoint(attempt, step=10), step_in_epoch=0)
    make_earlier(write_checkpoint(attempt, step=14), step_in_epoch=4)

    found, refused = resume.choose(prepared, fresh=False)

    assert found == ended
    (said,) = refused
    assert "trying the one before it" in said
    assert "in the middle of epoch 2 by an earlier release, whose steps had other rows" in said


def test_of_an_earlier_release_the_middle_of_an_epoch_alone_is_refused(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    folder = write_checkpoint(make_attempt(prepared, tmp_path), step=4)
    make_earlier(folder, step_in_epoch=4)

    with pytest.raises(SpecError) as caught:
        resume.choose(prepared, fresh=False)

    said = str(caught.value)
    assert said.startswith("spec.checkpoint.resume: got latest; expected a checkpoint at an epoch")
    assert "--fresh" in said
    assert resume.choose(prepared, fresh=True) == (None, [])


def test_a_checkpoint_that_is_named_is_taken_where_an_earlier_release_left_no_end_of_an_epoch(
    tmp_path: Path,
) -> None:
    named = write_checkpoint(Disk(tmp_path / "elsewhere"), step=10)
    prepared = make_prepared(tmp_path, checkpoint={"resume": str(named)})
    folder = write_checkpoint(make_attempt(prepared, tmp_path), step=14)
    make_earlier(folder, step_in_epoch=4)

    found, refused = resume.choose(prepared, fresh=False)

    assert found == named
    assert "by an earlier release" in refused[0]


def test_rounds_of_boosting_of_an_earlier_release_go_on(tmp_path: Path) -> None:
    prepared = make_prepared(tmp_path)
    folder = write_checkpoint(make_attempt(prepared, tmp_path), step=4)
    make_earlier(folder, step_in_epoch=4)
    text = folder.read(checkpoint.MANIFEST).replace(b'"model.pt"', b'"model.ubj"')
    folder.write(checkpoint.MANIFEST, text)
    folder.write("model.ubj", folder.read("model.pt"))
    folder.delete("model.pt")

    assert resume.choose(prepared, fresh=False) == (folder, [])
