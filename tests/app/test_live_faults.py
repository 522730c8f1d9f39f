"""Whatever of the world befalls a run, it ends with the very weights of one that was left alone.

Whole runs on one Ray, minutes in all. What each fault comes to is in live_faults.py. Lost workers
and drivers are in test_recovery.py.
"""

import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.app.befalling import Scene, wait_for
from tests.app.builders_rows import write_rows
from tests.app.failing_runs import warnings_of
from tests.app.live_faults import BATCH, FAULTS, FILES, NODE_LOST, ROWS, WIDTH, Fault
from tests.app.mounts import mount_disk, own_mounts
from tests.app.processes import Mark, end_with_us
from tests.app.ray_head import Head, start_cluster, start_node, words_of
from tests.app.ray_run import ROOT, Output, finish, run_folder, start, trainshed, write_run
from tests.app.recovery import assert_same_weights, last_weights
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import Evaluated, Started, WorkersLost

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(2700)]

# Seconds that a run may take on a busy machine; most take less than a minute.
PATIENCE = 800
DISK_BYTES = 32 * 2**20
TABLE = {name: fault for name, fault in FAULTS.items() if name != NODE_LOST}


@dataclass(frozen=True)
class Stage:
    """Where all runs of this file train.

    Args:
        head: of the cluster, with the workers' node; `data` holds what is read.
        data: what marks the processes of the data's node.
        folder: for nodes; the paths of their sockets must not be long.
        world: what befalls runs.
        disk: a small one; None where nobody may mount it.
    """

    head: Head
    data: Mark
    folder: Path
    world: Path
    disk: Path | None

    def start_data_node(self) -> None:
        """Add the node for data, whose processes have a mark of their own."""
        own = tempfile.mkdtemp(dir=self.folder)
        words = ("--address", self.head.gcs, "--temp-dir", own, *words_of("cpu", 2))
        start_node(replace(self.head, mark=self.data), *words)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path | None]:
    """A small disk that Ray's processes see, too; None where only root may have one."""
    try:
        with own_mounts():
            folder = tmp_path_factory.mktemp("disk")
            mount_disk(folder, DISK_BYTES)
            yield folder
    except PermissionError:
        yield None


@pytest.fixture(scope="module")
def stage(disk: Path | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A Ray with a node for workers and one for data, in a world that may refuse calls."""
    world = tmp_path_factory.mktemp("world")
    folders = [ROOT / "tests" / "app" / "faulty_world", ROOT / "api", ROOT / "app", ROOT]
    path = os.pathsep.join(str(folder) for folder in folders)
    environment = {"PYTHONPATH": path, "TRAINSHED_TEST_WORLD": str(world)}
    home, data = tmp_path_factory.mktemp("home"), Mark()
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        start_cluster(home, {"gpu": 2}, environment) as head,
        end_with_us(data),
    ):
        made = Stage(head, data, Path(folder), world, disk)
        made.start_data_node()
        yield made


@dataclass(frozen=True)
class Left:
    """What a run that was left alone came to."""

    weights: dict[str, torch.Tensor]
    scores: dict[int | None, dict[str, float | None]]


@pytest.fixture(scope="module")
def undisturbed(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What nothing befell."""
    file = write_beset(tmp_path_factory.mktemp("undisturbed"), "", cache="none")
    output = run(stage, file)
    assert output.code == EXIT_SUCCEEDED, output.stderr
    return Left(last_weights(file), scores_of([output]))


def write_beset(home: Path, fault: str, *, cache: str) -> Path:
    """Write the run of a fault: 3 epochs of 10 steps, a checkpoint after each 4."""
    write_rows(home / "rows", ROWS, files=FILES, width=WIDTH)
    write_rows(home / "few", 15, files=1, width=WIDTH)
    config: dict[str, JsonValue] = {"fault": fault, "home": str(home)}
    config["run"] = str(run_folder(home / "test.yaml"))
    train: JsonValue = {
        "read": {"format": "parquet", "path": "rows", "columns": ["x", "y"]},
        "shuffle": {"mode": "blocks"},
        "cache": cache,
    }
    valid: JsonValue = {"read": {"format": "parquet", "path": "few"}}
    return write_run(
        home,
        train="tests.app.live_faults:run_beset",
        config=config,
        epochs=3,
        batchSize=BATCH,
        seed=3,
        reproducible=True,
        workers={"count": 2, "group": "gpu", "resources": {"cpu": "500m"}},
        checkpoint={"everyEpochs": 0, "everySteps": 4},
        data={"cpus": 1, "datasets": {"train": train, "valid": valid}},
    )


def run(stage: Stage, file: Path) -> Output:
    """Make an attempt at a run."""
    return trainshed("run", str(file), environment=stage.head.joining, timeout_seconds=PATIENCE)


def arm(world: Path, fault: Fault) -> None:
    """Have a fault befall the next run, and nothing that is left of the last one."""
    for left in world.iterdir():
        left.unlink()
    for rank in fault.ranks:
        for time in range(fault.times):
            (world / f"befall-{rank}-{time}").touch()


def scores_of(outputs: list[Output]) -> dict[int | None, dict[str, float | None]]:
    """Return what was scored, by step."""
    events = [event for output in outputs for event in output.events]
    return {event.step: event.metrics for event in events if isinstance(event, Evaluated)}


def starts_of(output: Output) -> tuple[int | None, ...]:
    """Return the steps at which groups of workers began."""
    begun = [event.resumed_from for event in output.events if isinstance(event, Started)]
    return tuple(point.step if point else 0 for point in begun)


@pytest.mark.parametrize("name", TABLE)
def test_what_befalls_a_run_changes_no_bit(
    tmp_path: Path, stage: Stage, undisturbed: Left, name: str
) -> None:
    fault, home = FAULTS[name], tmp_path
    if "disk" in name:
        if stage.disk is None:
            pytest.skip("nobody here may mount a disk (root may)")
        home = stage.disk
    file = write_beset(home, name, cache="none")
    scene = Scene(stage.world, home, run_folder(file))
    arm(stage.world, fault)
    outputs = [run(stage, file)]
    fault.mend(scene)
    outputs += [run(stage, file) for _ in fault.starts[1:]]

    first, last = outputs[0], outputs[-1]
    assert (first.code, last.code) == (fault.code, EXIT_SUCCEEDED), first.stderr + last.stderr
    assert re.match(fault.message, first.finished.message)
    lost = [event.message for event in first.events if isinstance(event, WorkersLost)]
    assert len(lost) == len(fault.starts[0]) - 1
    assert all(re.search(fault.lost, message) for message in lost), lost
    assert re.search(fault.warned, "\n".join(warnings_of(first.events)))
    assert tuple(starts_of(output) for output in outputs) == fault.starts
    assert fault.cut not in scores_of([first])
    assert scores_of(outputs) == undisturbed.scores
    assert_same_weights(undisturbed.weights, last_weights(file))


def test_a_lost_node_with_cached_blocks_changes_no_bit(
    tmp_path: Path, stage: Stage, undisturbed: Left
) -> None:
    fault = FAULTS[NODE_LOST]
    file = write_beset(tmp_path, NODE_LOST, cache="objects")
    arm(stage.world, fault)
    process = start("run", str(file), environment=stage.head.joining)
    wait_for(lambda: next(stage.world.glob("holds"), None))
    opened = (stage.world / "opened").read_text(encoding="utf-8").count("/rows/")
    stage.data.kill()
    stage.start_data_node()
    (stage.world / "goes-on").touch()
    output = finish(process, PATIENCE)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert starts_of(output) == (0,)
    again = (stage.world / "opened").read_text(encoding="utf-8").count("/rows/") - opened
    assert 0 < again < 3 * FILES
    assert scores_of([output]) == undisturbed.scores
    assert_same_weights(undisturbed.weights, last_weights(file))
