"""Who writes checkpoints is killed at any moment: what is taken is whole, what is half is known."""

import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from tests.app.builders_checkpoint import hold, make_manifest
from tests.app.checkpoint.beside import beside, credentials
from tests.app.marks import unfinished
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.store import MANIFEST, BadCheckpointError
from trainshed.checkpoint.writer import Writer
from trainshed.storage.folder import Folder

SECONDS = 60.0
# Of four bytes: in an instant, in a moment, in parts that are sent side by side.
SIZES = (1_000, 1_000_000, 6_000_000)
KEEP = 2
# About how long two checkpoints of a size take: kills fall into all that is done for one.
UP_TO_SECONDS = 0.3


class Told(NamedTuple):
    """What the killed process had said before: its words are true at any moment.

    Args:
        written: steps whose checkpoints were on storage.
        going: steps whose checkpoints it began to delete.
    """

    written: set[int]
    going: set[int]


def train(
    place: Folder, step: int, size: int, environment: Mapping[str, str], said: Connection
) -> None:
    """Write checkpoints and delete older ones, until killed."""
    tempfile.tempdir = environment["TMPDIR"]
    os.environ.update(environment)
    writer, num_told = Writer(place, trust_objects=False), 0
    kept: list[tuple[int, Folder]] = []
    said.send(("begun", 0))
    while True:
        writer.wait_for_memory()
        weights = torch.full((size,), float(step))
        writer.begin(hold({"weight": weights}, {"step": step}), make_manifest(step))
        step += 1
        for done in writer.finished[num_told:]:
            assert done.folder, done.error
            num_told += 1
            kept.append((done.manifest.position.step, done.folder))
            said.send(("written", kept[-1][0]))
        while len(kept) > KEEP:
            oldest, folder = kept.pop(0)
            said.send(("going", oldest))
            folder.remove(first=MANIFEST)


def words_of(said: Connection) -> Iterator[tuple[str, int]]:
    """Yield what was said, to the last whole word."""
    while True:
        try:
            yield said.recv()
        except (EOFError, OSError):
            return


def train_and_kill(place: Folder, step: int, temporary: Path, choose: random.Random) -> Told:
    """Have a process train from a step on, and kill it at a random moment."""
    temporary.mkdir()
    heard, said = Pipe(duplex=False)
    environment = {**credentials(), "TMPDIR": str(temporary)}
    process = beside(train, place, step, choose.choice(SIZES), environment, said)
    said.close()
    assert heard.poll(SECONDS)
    heard.recv()
    time.sleep(choose.uniform(0, UP_TO_SECONDS))
    process.kill()
    process.join()
    words = list(words_of(heard))
    shutil.rmtree(temporary)  # as a container's goes with it
    return Told(*({step for word, step in words if word == kind} for kind in Told._fields))


def whole_steps(place: Folder) -> dict[int, Folder]:
    """Return the checkpoints that are taken, each read to its last byte, by step."""
    whole: dict[int, Folder] = {}
    for folder in checkpoint.candidates([place]):
        manifest = checkpoint.verify(folder)
        step = manifest.position.step
        with local_checkpoint(folder, manifest) as here:
            saved = checkpoint.load(here, trust_objects=False)
        model = saved["model"]
        assert isinstance(model, dict)
        assert (model["weight"].unique().tolist(), saved["step"]) == ([float(step)], step)
        whole[step] = folder
    return whole


# Starts processes, and waits a random while: to be killed at any moment is what this is about.
@pytest.mark.parametrize(
    "num_kills",
    [24, pytest.param(1000, marks=[pytest.mark.e2e, pytest.mark.timeout(3600)])],
)
def test_a_killed_writer_leaves_whole_checkpoints_and_what_is_known_as_half(
    num_kills: int, place: Folder, own_temporary: Path
) -> None:
    choose, step, num_half = random.Random(num_kills), 1, 0
    for _ in range(num_kills):
        told = train_and_kill(place, step, own_temporary / "of-the-killed", choose)

        whole = whole_steps(place)
        assert told.written - told.going <= set(whole), "what was said to be written is there"
        found, manifest, refused = checkpoint.newest([place])
        assert refused == []
        assert (manifest.position.step if manifest else 0) == max(whole, default=0)
        assert found == (whole[max(whole)] if whole else None)

        half = checkpoint.half_written([place])
        num_half += len(half)
        for folder in half:
            assert folder not in whole.values()
            if not folder.path:  # on a disk it is the name that says it
                with pytest.raises(BadCheckpointError):
                    checkpoint.verify(folder)
        assert {folder.name for folder in half} <= {folder.name for folder in unfinished(place)}
        if choose.random() < 0.5:  # else the next one finds it there
            for folder in [*half, *(whole.pop(old) for old in sorted(whole)[:-KEEP])]:
                folder.remove(first=MANIFEST)
            assert checkpoint.half_written([place]) == []
            assert whole_steps(place) == whole
        step = max(whole, default=step) + 1
    assert num_half, "no kill came while anything was half"
