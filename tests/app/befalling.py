"""What befalls a run while it trains, from inside one of its workers; live_faults.py says when."""

import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from io import FileIO
from pathlib import Path

import pyarrow.parquet as pq
import torch.distributed as dist

from tests.app.failing_runs import damage_last_row_group
from trainshed.worker.current import Run
from trainshed.worker.evaluation import SECONDS_BETWEEN_MEETINGS


@dataclass(frozen=True)
class Scene:
    """A run, as a worker of it sees it or the test.

    Args:
        world: what the operating system refuses, and what befalls the run, as files.
        home: of the run and its data.
        folder: of the run.
    """

    world: Path
    home: Path
    folder: Path

    @property
    def file(self) -> Path:
        """Return a data file."""
        return self.home / "rows" / "part-7.parquet"

    @property
    def aside(self) -> Path:
        """Return where that file is kept."""
        return self.world / "part-7"

    @property
    def filler(self) -> Path:
        """Return what takes the room on a disk."""
        return self.home / "filler"

    def refuse(self, *refusals: str) -> None:
        """Have the operating system refuse calls; tests/app/faulty_world says how."""
        for refusal in refusals:
            (self.world / refusal).touch()

    def pass_over(self) -> None:
        """Let a fault pass that lasts until workers start again."""
        for refusal in self.world.glob("*-always"):
            refusal.unlink()
        if self.aside.exists() and not self.file.exists():
            shutil.move(self.aside, self.file)

    def checkpoint(self, step: int) -> Path:
        """Return the checkpoint of a step; waits until it is there."""
        return wait_for(
            lambda: next(self.folder.glob(f"attempts/*/ray/checkpoint_{step:09}*"), None)
        )


def wait_for(look: Callable[[], Path | None], timeout_seconds: float = 300) -> Path:
    """Return what a look finds; waits for it."""
    deadline = time.monotonic() + timeout_seconds
    while (found := look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def refuse_reads_twice(_: Run, scene: Scene) -> None:
    scene.refuse("read-EIO-1", "read-EIO-2")


def lose_the_mount(_: Run, scene: Scene) -> None:
    scene.refuse("open-ESTALE-always")


def take_a_file_away(_: Run, scene: Scene) -> None:
    shutil.move(scene.file, scene.aside)


def damage_a_file(_: Run, scene: Scene) -> None:
    shutil.copy(scene.file, scene.aside)
    damage_last_row_group(scene.file)


def append_to_a_file(_: Run, scene: Scene) -> None:
    """Let a file have a row group more, all at once, as who adds rows should."""
    rows, grown = pq.read_table(scene.file), scene.file.with_name(".grown")
    with pq.ParquetWriter(grown, rows.schema) as writer:
        writer.write_table(rows)
        writer.write_table(rows.slice(0, 5))
    grown.replace(scene.file)


def bring_the_file_back(scene: Scene) -> None:
    shutil.move(scene.aside, scene.file)


def refuse_a_checkpoint(_: Run, scene: Scene) -> None:
    scene.checkpoint(4)
    scene.refuse("fsync-EIO-1")


def refuse_the_last_checkpoint(_: Run, scene: Scene) -> None:
    scene.checkpoint(28)
    scene.refuse("mkdir-ESTALE-1")


def damage_the_newest_checkpoint(_: Run, scene: Scene) -> None:
    model = scene.checkpoint(8) / "model.pt"
    model.write_bytes(model.read_bytes()[:1000])
    kill()


def fill_the_disk(_: Run, scene: Scene) -> None:
    scene.checkpoint(24)
    filler = scene.filler.open("wb", buffering=0)
    _fill(filler)

    def keep_full() -> None:
        while True:  # an older checkpoint that is deleted makes no room
            time.sleep(0.001)
            _fill(filler)

    threading.Thread(target=keep_full, daemon=True).start()


def _fill(filler: FileIO) -> None:
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError as error:
        assert "No space left" in str(error)  # noqa: PT017 - the disk is full, as it should be


def make_room(scene: Scene) -> None:
    scene.filler.unlink()


def die(_: Run, scene: Scene) -> None:
    scene.checkpoint(8)
    kill()


def hang(run: Run, scene: Scene) -> None:
    """Let rank 1 never come, and the other one wait two seconds rather than half an hour."""
    if run.rank:
        time.sleep(600)
    scene.checkpoint(8)
    # Nothing public changes it once a group is there.
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=2), dist.group.WORLD)


def set_clocks_back_and_die(_: Run, scene: Scene) -> None:
    scene.checkpoint(8)
    (scene.world / "late").touch()
    kill()


def stop(run: Run, scene: Scene) -> None:
    """End the driver, and go on once the workers have heard of it and meet after this batch."""
    claims = sorted(scene.folder.glob("attempts/*/claim"))
    os.kill(json.loads(claims[-1].read_text())["pid"], signal.SIGTERM)
    deadline = time.monotonic() + 60
    while not run._loop.wants_stop and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(SECONDS_BETWEEN_MEETINGS)


def hold_until_the_node_is_lost(_: Run, scene: Scene) -> None:
    (scene.world / "holds").touch()
    wait_for(lambda: next(scene.world.glob("goes-on"), None))


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
