"""Runs that fail while they are under way, the data that they fail on, and what is said of each."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pyarrow.parquet as pq
import torch
from pydantic import JsonValue

from tests.app.builders_rows import write_rows
from tests.app.misbehaving import WRONG_AT
from tests.app.ray_run import Output, run_folder
from tests.builders_data import write_pictures
from trainshed_api.names import EXIT_APPLICATION, FAILED
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Started,
    WarningEvent,
    WorkersLost,
)

Spec = dict[str, JsonValue]
EPOCHS, STEPS = 3, 5
KEPT_STEPS = frozenset({2, 4, 6, 8, 10, 12, 14, 15})
# What of the package is no program; the folder of a clone may have the package's name.
RUNTIME = {path.name for path in resources.files("trainshed").iterdir()} - {"programs"}
FRAME = re.compile(r'^  File "(?P<file>.*)", line \d+, in (?P<name>\w+)$', re.MULTILINE)


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


def make_data(path: str = "rows", **dataset: JsonValue) -> Spec:
    """Return the data section with one dataset."""
    read: Spec = {"format": "parquet", "path": path}
    return {"cpus": 1, "datasets": {"train": {"read": read, **dataset}}}


def write_numbers(folder: Path) -> None:
    """Write the rows of 5 steps."""
    write_rows(folder / "rows", 30 * STEPS)


def write_corrupt_numbers(folder: Path) -> None:
    """Damage the last file's last row group."""
    write_numbers(folder)
    damage_last_row_group(folder / "rows" / "part-2.parquet")


def damage_last_row_group(file: Path) -> None:
    """Overwrite a column of a file's last row group; its footer stays as it was."""
    footer = pq.read_metadata(file)
    column = footer.row_group(footer.num_row_groups - 1).column(0)
    content = bytearray(file.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    file.write_bytes(content)


def write_labelled_pictures(folder: Path) -> None:
    """Write pictures of ten classes."""
    write_pictures(folder / "pictures", rows=60, size=8, classes=10, files=1)


@dataclass(frozen=True)
class Case:
    """A run, its data, and what is said when it ends; FOLDER stands for where it lies."""

    spec: Spec
    message: str
    prepare: Callable[[Path], None] = write_numbers
    frames: tuple[str, ...] = ()


# What one worker fails of, whoever reads its data.
CASES: dict[str, Case] = {
    "a best metric that nobody reports, with the names of those reported": Case(
        make_spec(
            checkpoint={"everyEpochs": 1, "best": {"metric": "valid.accuracy", "mode": "max"}}
        ),
        "SpecError: spec.checkpoint.best.metric: got valid.accuracy; expected a reported metric: "
        f"loss, train.loss (worker 0, step {STEPS})",
        frames=("train",),
    ),
    "a loss that is no number, with its step": Case(
        make_spec("nan"),
        f"NonFiniteLossError: the loss is NaN or infinite at step {WRONG_AT} (worker 0, step ",
        frames=("train",),
    ),
    "a worker that exits": Case(
        make_spec("exit"),
        f"SystemExit: 3 (worker 0, step {WRONG_AT - 1})",
        frames=("train", "go_wrong"),
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
            data=make_data(
                path="pictures",
                transforms=[{"use": "trainshed.transforms:decode_image", "options": {"size": 8}}],
            ),
        ),
        'ValueError: dataset "train", column "label": label ',
        write_labelled_pictures,
        frames=("train", "check", "_complain"),
    ),
}
# What is said with processes of Ray's in between.
THROUGH_RAY: dict[str, Case] = {
    "a row group that cannot be read, with its file": Case(
        make_spec(data=make_data(cache="none")),
        "FOLDER/rows/part-2.parquet: row groups",
        write_corrupt_numbers,
        frames=("train",),
    ),
    "an exception of the user's on one of two workers": Case(
        make_spec("raise", workers={"count": 2, "resources": {"cpu": "500m"}}),
        f"KeyError: 'lable' (worker 1, step {WRONG_AT - 1})",
        frames=("train", "go_wrong", "look_up"),
    ),
    "a best metric that nobody reports in a function that is Ray Train's alone": Case(
        make_spec(
            train="tests.app.misbehaving:report_alone",
            checkpoint={"best": {"metric": "valid.accuracy", "mode": "max"}},
        ),
        "spec.checkpoint.best.metric: got valid.accuracy; expected a reported metric: loss",
    ),
}


def assert_failed(output: Output, file: Path, case: Case) -> None:
    """A whole run ended as the case says, in one attempt."""
    assert output.code == EXIT_APPLICATION, output.stderr
    assert output.finished.outcome == FAILED
    assert case.message.replace("FOLDER", str(file.parent)) in output.finished.message
    assert "\n" not in output.finished.message
    assert_users_traceback(own_words(output), case.frames)
    assert len([event for event in output.events if isinstance(event, Started)]) == 1
    assert not [event for event in output.events if isinstance(event, WorkersLost)]
    assert len(list(run_folder(file).glob("attempts/*"))) == 1
    assert (run_folder(file) / "report.html").exists()
    assert_finite_checkpoints(run_folder(file))


def own_words(output: Output) -> str:
    """Return what a driver said on stderr, without what processes of a Ray that it joined said.

    There Ray warns of itself in the coordinator.
    """
    lines = output.stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("(Coordinator pid="))


def assert_users_traceback(text: str, frames: tuple[str, ...]) -> None:
    """The text is the user's traceback and nothing else, no frame of Ray's or the runtime's in it.

    Where no code of the user's is to blame it is one line.
    """
    first, *others = text.strip().splitlines()
    assert first == "Traceback (most recent call last):" if frames else not others, text
    found = [(match["file"], match["name"]) for match in FRAME.finditer(text)]
    assert tuple(name for _, name in found) == frames, text
    for file, _ in found:
        assert "/site-packages/" not in file
        assert not any(f"/trainshed/{name}" in file for name in RUNTIME)


def assert_finite_checkpoints(run: Path) -> None:
    """No checkpoint of a run's folder holds what is no number."""
    for model in run.glob("attempts/*/ray/checkpoint_*/model.pt"):
        weights = torch.load(model, weights_only=True)
        assert all(torch.isfinite(tensor).all() for tensor in weights.values())


def assert_a_full_disk_passed(events: Sequence[AnyEvent], run: Path) -> None:
    """Checkpoints are there but for those that had no room, each with a warning."""
    saved = {event.step for event in events if isinstance(event, CheckpointSaved)}
    lines = [line for line in warnings_of(events) if line.startswith("no checkpoint at step")]
    missed = {int(line.split(":")[0].split()[-1]) for line in lines}
    # That of step 6 was being written when the disk was full, and 12 when there was room again.
    assert (set(KEPT_STEPS) - {6, 8, 10, 12} <= saved, {8, 10} <= missed) == (True, True)
    assert saved | missed == set(KEPT_STEPS)
    assert all("File too large; training continues" in line for line in lines)
    assert list(run.glob("attempts/*/ray/.writing-*")) == []


def damage_the_newest(run: Path) -> Path:
    """Cut the last checkpoint of a run's first attempt; return it."""
    newest = max(run.glob("attempts/1/ray/checkpoint_0*"))
    model = newest / "model.pt"
    model.write_bytes(model.read_bytes()[:1000])
    return newest


def assert_the_one_before_was_taken(events: Sequence[AnyEvent], damaged: Path) -> None:
    """An attempt warned of the damaged checkpoint first, and went on from the one of step 4."""
    assert isinstance(events[0], WarningEvent)
    refused = f"checkpoint refused, trying the one before it: {damaged}: model.pt has 1000 of"
    assert refused in events[0].message
    started = next(event for event in events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.step == 4


def warnings_of(events: Sequence[AnyEvent]) -> list[str]:
    """Return what was warned of."""
    return [event.message for event in events if isinstance(event, WarningEvent)]
