"""Files that a run and hack.stops exchange: what was trained, and which phase is reached.

Used in the driver, in tasks that read and in workers. Without FOLDER it does nothing.
"""

import json
import os
import signal
import socket
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from hack.stops.draw import EPOCHS
from trainshed_api.names import ENV_SPEC

FOLDER = "HACK_STOPS_FOLDER"
LIFE = time.time_ns()
# A run should not hang because the tool that holds it was killed.
HELD_SECONDS = 600.0
# Rows from here on are in a separate file: workers wait for them in the middle of an epoch.
FIRST_LATE_ROW = 48
# The driver looks for a stop four times a second: training has to last until workers know it.
STEP_SECONDS = 0.3


@dataclass(frozen=True)
class Plan:
    """Where an attempt is held until its signal was sent; nowhere without a phase."""

    phase: str = ""
    at: int = 0


@cache
def find_folder() -> Path | None:
    """Return where the tool looks, if this process belongs to a run of it.

    The driver of a job in Kubernetes has its run's variables in the spec alone.
    """
    run = json.loads(os.environ.get(ENV_SPEC, "{}"))
    variables = {**run.get("spec", {}).get("env", {}), **os.environ}
    return Path(variables[FOLDER]) if FOLDER in variables else None


@cache
def read_plan() -> Plan:
    """Return the plan of this attempt."""
    folder = find_folder()
    return Plan(**json.loads((folder / "plan.json").read_text())) if folder else Plan()


def hold(phase: str, *, epoch: int | None = None, when: bool = True) -> None:
    """Report that a phase is reached, and wait until the signal was sent.

    Args:
        epoch: in which it is reached, where that decides: the plan stops in one of them.
        when: whether this is the planned time.
    """
    folder, plan = find_folder(), read_plan()
    is_here = epoch is None or epoch == plan.at % EPOCHS
    if not (folder and when and is_here and plan.phase == phase):
        return
    (folder / "reached").touch()
    deadline = time.monotonic() + HELD_SECONDS
    while not (folder / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def hold_row(row: dict[str, object]) -> dict[str, object]:
    """Return a row as it is; the transform that every program's rows go through."""
    folder = find_folder()
    if folder and int(str(row.get("row", FIRST_LATE_ROW))) >= FIRST_LATE_ROW:
        hold("waiting-for-rows" if (folder / "training").exists() else "planning")
    return row


def begin(rank: int) -> None:
    """Note which process of which host has a rank."""
    (_folder() / f"worker-{rank}").write_text(f"{os.getpid()} {socket.gethostname()}")


def begin_batches() -> None:
    """Note that training has its first batch."""
    (_folder() / "training").touch()
    hold("first-batch")


def count_step(rank: int, epoch: int, step: int, rows: Mapping[str, Sequence[int]]) -> None:
    """Log what was trained in a step, then do what the plan wants there."""
    _write({"life": LIFE, "rank": rank, "epoch": epoch, "step": step, "rows": rows})
    plan = read_plan()
    hold("training", when=step >= plan.at)
    hold("second-attempt")
    if plan.phase == "early-loss":
        lost = _folder() / "lost"
        if not lost.exists() and rank == 0 and step > 1:
            lost.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        hold("early-loss", when=lost.exists() and lost.stat().st_mtime_ns < LIFE)
    if plan.phase:
        time.sleep(STEP_SECONDS)


def keep_weights(all_parts: Mapping[str, object], model: Mapping[str, object] | None) -> None:
    """Log digests of what was trained, at the function's end.

    Args:
        all_parts: states of everything that trains.
        model: the state that a checkpoint holds as the model; None where its form differs.
    """
    trained = None if model is None else digest(model)
    _write({"life": LIFE, "weights": digest(all_parts), "trained": trained})


def digest(state: object) -> str:
    """Return a checksum of the arrays in a state, whatever wraps the model whose it is."""
    return f"{zlib.crc32(b''.join(_bytes_of(state))):08x}"


def identify(batch: object) -> list[int]:
    """Return a number for each row of a batch: its column `row`, or a checksum of all it has."""
    if isinstance(batch, Mapping) and "row" in batch:
        return [int(row) for row in batch["row"]]
    columns = [np.asarray(column) for column in _columns_of(batch)]
    # Rows that are padded to the longest of a batch end in zeros.
    cut = [[np.trim_zeros(row.ravel(), "b").tobytes() for row in column] for column in columns]
    return [zlib.crc32(b"".join(cells)) for cells in zip(*cut, strict=True)]


def _columns_of(batch: object) -> Iterator[object]:
    if isinstance(batch, Mapping):
        yield from (batch[name] for name in sorted(batch))
    elif isinstance(batch, tuple):
        yield from batch


def _bytes_of(state: object) -> Iterator[bytes]:
    if isinstance(state, Mapping):
        bare = {str(name).replace("module.", "").replace("_orig_mod.", ""): name for name in state}
        for name in sorted(bare):
            yield name.encode()
            yield from _bytes_of(state[bare[name]])
    elif isinstance(state, bytes | bytearray):
        yield bytes(state)
    else:
        yield np.asarray(state).tobytes()


def _folder() -> Path:
    return Path(os.environ[FOLDER])


def _write(record: Mapping[str, object]) -> None:
    with (_folder() / "log" / f"{LIFE}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())
