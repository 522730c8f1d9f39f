"""Ray Train's own checkpoint manager takes an earlier attempt's checkpoint, and never harms it."""

import asyncio
import errno
import json
import os
from dataclasses import dataclass

import pytest
from pydantic import JsonValue
from ray.train import Checkpoint, CheckpointConfig
from ray.train.v2._internal.execution.checkpoint.checkpoint_manager import CheckpointManager
from ray.train.v2._internal.execution.storage import StorageContext
from ray.train.v2._internal.execution.training_report import _TrainingReport
from typing_extensions import override

from trainshed.checkpoint import pass_counter, ray_snapshot
from trainshed.failures import InfrastructureError
from trainshed.storage.arrow_filesystem import as_ray_has_it
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder


def make_attempt(folder: Folder, name: str = "checkpoint_7", **metrics: JsonValue) -> Folder:
    """Write what Ray Train leaves of an attempt; return its last checkpoint."""
    checkpoint = folder / name
    checkpoint.write("model.pt", b"weights")
    (checkpoint / "inner").write("state.pt", b"state")
    result = {"checkpoint_dir_name": name, "metrics": metrics}
    snapshot = {"checkpoint_results": [result], "latest_checkpoint_result": result}
    folder.write(ray_snapshot.SNAPSHOT, json.dumps(snapshot).encode())
    return checkpoint


def content_of(checkpoint: Folder) -> dict[str, bytes]:
    """Return what lies in a checkpoint, by name."""
    return {file.name: checkpoint.read(file.name) for file in checkpoint.tree()}


WRITTEN = {"inner/state.pt": b"state", "model.pt": b"weights"}


def make_manager(folder: Folder, keep: int) -> CheckpointManager:
    """Return Ray Train's manager of the checkpoints below a folder, as a new attempt makes it."""
    filesystem, path = as_ray_has_it(folder.parent)
    storage = StorageContext(path, folder.name, filesystem)
    return CheckpointManager(CheckpointConfig(num_to_keep=keep), storage)


def register(folder: Folder, keep: int, *names: str) -> str:
    """Let a new attempt's manager take in checkpoints; return the path of the one that it started
    with.
    """

    async def run() -> str:
        manager = make_manager(folder, keep)
        first = manager.latest_checkpoint_result
        assert first
        assert first.checkpoint
        for name in names:
            (folder / name).write("model.pt", b"newer")
            filesystem, path = as_ray_has_it(folder / name)
            report = _TrainingReport(
                checkpoint=Checkpoint(path, filesystem), metrics={}, validation=False
            )
            manager.register_checkpoint(report)
        return str(first.checkpoint.path)

    return asyncio.run(run())


def test_the_latest_checkpoint_of_an_attempt_is_found(place: Folder) -> None:
    checkpoint = make_attempt(place)

    assert ray_snapshot.latest(place) == checkpoint


@pytest.mark.parametrize(
    "text",
    [None, "", '{"latest_checkpoint_result": ', "[]", "{}", '{"latest_checkpoint_result": null}'],
)
def test_without_a_readable_snapshot_there_is_no_checkpoint(
    on_disk: Disk, text: str | None
) -> None:
    if text is not None:
        on_disk.write(ray_snapshot.SNAPSHOT, text.encode())

    assert ray_snapshot.latest(on_disk) is None


def test_where_nothing_was_written_there_is_no_checkpoint(place: Folder) -> None:
    assert ray_snapshot.latest(place) is None


@dataclass(frozen=True)
class Withholding(Disk):
    """A disk that does not give the snapshot."""

    number: int

    @override
    def read(self, name: str) -> bytes:
        if name == ray_snapshot.SNAPSHOT:
            raise OSError(self.number, os.strerror(self.number))
        return super().read(name)


def test_a_snapshot_that_storage_withholds_is_not_taken_for_none(on_disk: Disk) -> None:
    make_attempt(on_disk)

    with pytest.raises(InfrastructureError, match=r"snapshot.*Permission denied") as caught:
        ray_snapshot.latest(Withholding(on_disk.path, errno.EACCES))
    assert caught.value.kind == "storage"


def test_a_registered_checkpoint_that_is_gone_is_none(place: Folder) -> None:
    make_attempt(place).remove(first="model.pt")

    assert ray_snapshot.latest(place) is None


def test_ray_train_starts_with_the_earlier_checkpoint(place: Folder) -> None:
    earlier = make_attempt(place / "1", loss=0.25)
    ray_snapshot.seed(place / "2", earlier)
    seen = register(place / "2", 3)

    linked = place / "2" / "resumed_from"
    assert seen == as_ray_has_it(linked)[1]
    assert content_of(linked) == WRITTEN


def test_rays_clean_up_does_not_touch_the_earlier_attempt(place: Folder) -> None:
    earlier = make_attempt(place / "1")
    ray_snapshot.seed(place / "2", earlier)
    register(place / "2", 1, "checkpoint_a", "checkpoint_b")

    folders = {file.name.split("/")[0] for file in (place / "2").tree() if "/" in file.name}
    assert folders == {"checkpoint_b"}
    assert content_of(earlier) == WRITTEN


def test_metrics_that_came_with_a_checkpoint_are_known_again(place: Folder) -> None:
    earlier = make_attempt(place / "1", epoch=2, loss=0.25, note="text")
    ray_snapshot.seed(place / "2", earlier)

    for checkpoint in (earlier, place / "2" / "resumed_from"):
        known = ray_snapshot.reported_at(checkpoint)
        assert (known.epoch, known.step, known.metrics) == (2, None, {"loss": 0.25})
        assert known.checkpoint == (str(checkpoint), 2, None)


def test_passes_survive_attempts_that_report_nothing(place: Folder) -> None:
    checkpoint = make_attempt(place / "1")
    pass_counter.write(checkpoint, {"train": 2})
    ray_snapshot.seed(place / "2", checkpoint)
    ray_snapshot.seed(place / "3", place / "2" / ray_snapshot.LINKED)
    assert pass_counter.read(place / "3" / ray_snapshot.LINKED) == {"train": 2}


def test_seeding_twice_is_once(place: Folder) -> None:
    earlier = make_attempt(place / "1")
    ray_snapshot.seed(place / "2", earlier)
    register(place / "2", 3, "checkpoint_a")
    ray_snapshot.seed(place / "2", earlier)

    assert ray_snapshot.latest(place / "2") == place / "2" / "checkpoint_a"


def test_what_an_attempt_began_with_outlives_the_attempt_that_wrote_it(place: Folder) -> None:
    earlier = make_attempt(place / "1")
    ray_snapshot.seed(place / "2", earlier)
    earlier.remove(first="model.pt")

    linked = ray_snapshot.latest(place / "2")
    assert linked
    assert content_of(linked) == WRITTEN
