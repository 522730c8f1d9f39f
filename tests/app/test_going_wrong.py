"""What goes wrong while a run is under way ends it with one clear word, or does not end it."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.misbehaving import WRONG_AT
from tests.app.ray_run import Output, run_folder, trainshed, write_run
from tests.builders_data import write_pictures
from trainshed_api.names import EXIT_APPLICATION, EXIT_SUCCEEDED, FAILED
from trainshed_api.progress import CheckpointSaved, Evaluated, Started, WarningEvent, WorkersLost

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

Spec = dict[str, JsonValue]
EPOCHS, STEPS = 3, 5


def make_spec(how: str = "", **changes: JsonValue) -> Spec:
    """Return 3 epochs of 5 steps on one worker with a checkpoint after each 2."""
    return {
        "train": "tests.app.misbehaving:train",
        "config": {"how": how},
        "epochs": EPOCHS,
        "batchSize": 30,
        "workers": {"count": 1, "resources": {"cpu": "500m"}},
        "checkpoint": {"everyEpochs": 0, "everySteps": 2, "keep": 10},
        "data": make_data(),
        **changes,
    }


def make_data(**dataset: JsonValue) -> Spec:
    """Return the data section with the columns of `write_rows`."""
    read: Spec = {"format": "parquet", "path": "rows"}
    return {"cpus": 1, "datasets": {"train": {"read": read, **dataset}}}


def write_numbers(folder: Path) -> None:
    write_rows(folder / "rows", 30 * STEPS)


def write_corrupt_numbers(folder: Path) -> None:
    """Damage the last file's last row group; its footer stays as it was."""
    write_numbers(folder)
    file = folder / "rows" / "part-2.parquet"
    footer = pq.read_metadata(file)
    column = footer.row_group(footer.num_row_groups - 1).column(0)
    content = bytearray(file.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    file.write_bytes(content)


def write_labelled_pictures(folder: Path) -> None:
    write_pictures(folder / "pictures", rows=60, size=8, classes=10, files=1)


# --------------------------------------------------------- what ends a run


@dataclass(frozen=True)
class Case:
    """A run, its data, and what is said when it ends; FOLDER stands for where it lies."""

    spec: Spec
    message: str
    prepare: Callable[[Path], None] = write_numbers
    frames: tuple[str, ...] = ()


CASES: dict[str, Case] = {
    "a best metric that nobody reports, with the names of those reported": Case(
        make_spec(
            checkpoint={"everyEpochs": 1, "best": {"metric": "valid.accuracy", "mode": "max"}}
        ),
        "SpecError: spec.checkpoint.best.metric: got valid.accuracy, want a reported metric: loss, "
        f"train.loss (worker 0, step {STEPS})",
        frames=("train",),
    ),
    "the same in a function that is Ray Train's alone": Case(
        make_spec(
            train="tests.app.misbehaving:report_alone",
            checkpoint={"best": {"metric": "valid.accuracy", "mode": "max"}},
        ),
        "spec.checkpoint.best.metric: got valid.accuracy, want a reported metric: loss",
    ),
    "a loss that is no number, with its step": Case(
        make_spec("nan"),
        f"NonFiniteLossError: the loss is NaN or infinite at step {WRONG_AT} (worker 0, step ",
        frames=("train",),
    ),
    "an exception of the user's on one of two workers": Case(
        make_spec("raise", workers={"count": 2, "resources": {"cpu": "500m"}}),
        f"KeyError: 'lable' (worker 1, step {WRONG_AT - 1})",
        frames=("train", "go_wrong", "look_up"),
    ),
    "a worker that exits": Case(
        make_spec("exit"),
        f"SystemExit: 3 (worker 0, step {WRONG_AT - 1})",
        frames=("train", "go_wrong"),
    ),
    "a row group that cannot be read, with its file": Case(
        make_spec(data=make_data(cache="none")),
        "FOLDER/rows/part-2.parquet: row groups",
        write_corrupt_numbers,
        frames=("train",),
    ),
    "a transform that fails on later rows": Case(
        make_spec(
            data=make_data(
                transforms=[{"use": "tests.app.misbehaving:halve", "batchSize": 30}],
                cache="objects",
            )
        ),
        "LookupError: no half of a row",
        frames=("halve", "train"),
    ),
    "a disk that is still full when training is done": Case(
        make_spec("fill the disk"),
        "LastCheckpointError: training is done but its checkpoint is not: step 15: [Errno 27] File "
        "too large (worker 0, step 15)",
    ),
    "a label that is no class, with its column": Case(
        make_spec(
            train="trainshed.programs.vision:train",
            config={"imageSize": 8, "width": 8, "classes": 5},
            data={
                "cpus": 1,
                "datasets": {
                    "train": {
                        "read": {"format": "parquet", "path": "pictures"},
                        "transforms": [
                            {"use": "trainshed.transforms:decode_image", "options": {"size": 8}}
                        ],
                    }
                },
            },
        ),
        'ValueError: dataset "train", column "label": label ',
        write_labelled_pictures,
        frames=("train", "check", "_complain"),
    ),
}
FRAME = re.compile(r'^  File "(?P<file>.*)", line \d+, in (?P<name>\w+)$', re.MULTILINE)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_fails_says_why_and_is_not_tried_again(tmp_path: Path, case: Case) -> None:
    case.prepare(tmp_path)
    file = write_run(tmp_path, "test", **case.spec)
    output = trainshed("run", str(file))

    assert output.code == EXIT_APPLICATION, output.stderr
    assert output.finished.outcome == FAILED
    message = case.message.replace("FOLDER", str(tmp_path))
    assert message in output.finished.message
    assert "\n" not in output.finished.message
    assert_users_traceback(output, case.frames)
    assert len([event for event in output.events if isinstance(event, Started)]) == 1
    assert not [event for event in output.events if isinstance(event, WorkersLost)]
    assert len(list(run_folder(file).glob("attempts/*"))) == 1
    assert (run_folder(file) / "report.html").exists()
    assert_finite_checkpoints(file)


def assert_users_traceback(output: Output, frames: tuple[str, ...]) -> None:
    """Stderr is the user's traceback and nothing else, no frame of Ray's or the runtime's in it.

    Where no code of the user's is to blame it is one line.
    """
    first, *others = output.stderr.strip().splitlines()
    assert first == "Traceback (most recent call last):" if frames else not others, output.stderr
    found = [(match["file"], match["name"]) for match in FRAME.finditer(output.stderr)]
    assert tuple(name for _, name in found) == frames, output.stderr
    for file, _ in found:
        assert "/site-packages/" not in file
        assert "trainshed/" not in file or "trainshed/programs/" in file


def assert_finite_checkpoints(file: Path) -> None:
    """No checkpoint holds what is no number."""
    for model in run_folder(file).glob("attempts/*/ray/checkpoint_*/model.pt"):
        weights = torch.load(model, weights_only=True)
        assert all(torch.isfinite(tensor).all() for tensor in weights.values())


# ----------------------------------------------------- what does not end a run


def warnings_of(output: Output) -> list[str]:
    return [event.message for event in output.events if isinstance(event, WarningEvent)]


def test_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec("fill the disk for a while"))
    output = trainshed("run", str(file))

    assert output.code == EXIT_SUCCEEDED, output.stderr
    saved = {event.step for event in output.events if isinstance(event, CheckpointSaved)}
    lines = [line for line in warnings_of(output) if line.startswith("no checkpoint at step")]
    missed = {int(line.split(":")[0].split()[-1]) for line in lines}
    # That of step 6 was being written when the disk was full, and 12 when there was room again.
    assert ({2, 4, 14, 15} <= saved, {8, 10} <= missed) == (True, True)
    assert saved | missed == {2, 4, 6, 8, 10, 12, 14, 15}
    assert all("File too large; training goes on" in line for line in lines)
    assert list(run_folder(file).glob("attempts/1/ray/.writing-*")) == []
    assert output.stderr == ""


def test_the_checkpoint_before_a_damaged_one_is_taken_and_a_fresh_start_takes_none(
    tmp_path: Path,
) -> None:
    write_numbers(tmp_path)
    file = write_run(tmp_path, "test", **make_spec(epochs=1))
    assert trainshed("run", str(file)).code == EXIT_SUCCEEDED
    newest = max(run_folder(file).glob("attempts/1/ray/checkpoint_0*"))
    model = newest / "model.pt"
    model.write_bytes(model.read_bytes()[:1000])

    # More epochs than the finished run had: it goes on.
    longer = trainshed("run", str(file), "--set", "spec.epochs=2")
    assert longer.code == EXIT_SUCCEEDED, longer.stderr
    assert longer.events[0] == next(e for e in longer.events if isinstance(e, WarningEvent))
    assert (
        f"checkpoint refused, taking the one before: {newest}: model.pt has 1000 of"
        in (warnings_of(longer)[0])
    )
    assert started(longer).resumed_from
    assert started(longer).resumed_from.step == 4  # type: ignore[union-attr]  # seen above
    assert [e.step for e in longer.events if isinstance(e, Evaluated)] == [5, 10]

    fresh = trainshed("run", str(file), "--fresh")
    assert fresh.code == EXIT_SUCCEEDED, fresh.stderr
    assert (started(fresh).attempt, started(fresh).resumed_from) == (3, None)
    assert model.stat().st_size == 1000
    assert sorted(path.name for path in run_folder(file).glob("attempts/*")) == ["1", "2", "3"]


def started(output: Output) -> Started:
    return next(event for event in output.events if isinstance(event, Started))
