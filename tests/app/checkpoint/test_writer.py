"""Checkpoints are written in a thread; what goes wrong is handed over, not lost."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from typing_extensions import override

from tests.app.builders_checkpoint import Bomb, files_of_at_most, hold, make_manifest
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.writer import Writer
from trainshed.data.sampler.description import Described
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder

SECONDS = 60.0


def write(writer: Writer, step: int, state: object = None) -> torch.Tensor:
    """Begin to write a checkpoint whose weights are its step, once they may be; return them."""
    writer.wait_for_memory()
    weights = torch.full((50_000,), float(step))
    writer.begin(hold({"weight": weights}, {"state": state}), make_manifest(step))
    return weights


def steps_of(writer: Writer) -> list[int]:
    return [done.manifest.position.step for done in writer.finished]


def test_checkpoints_are_finished_in_order(place: Folder) -> None:
    writer = Writer(place, trust_objects=False)
    for step in (10, 20, 30, 40):
        write(writer, step)
    writer.wait()

    assert steps_of(writer) == [10, 20, 30, 40]
    assert [done.error for done in writer.finished] == [None] * 4
    assert [done.folder for done in writer.finished] == [place / name for name in place.names()]
    for done in writer.finished:
        assert done.folder
        assert checkpoint.verify(done.folder).position == done.manifest.position


def test_what_was_written_of_data_is_kept_on_storage_alone(place: Folder) -> None:
    writer = Writer(place, trust_objects=False)
    data = {"train": Described(rows=7, num_files=1, digest="abc", counts=(3, 4))}
    for step in (10, 20):
        writer.wait_for_memory()
        manifest = make_manifest(step).model_copy(update={"data": data})
        writer.begin(hold({"weight": torch.zeros(3)}, {"state": None}), manifest)
    writer.wait()

    assert [done.manifest.data for done in writer.finished] == [None, None]
    for done in writer.finished:
        assert done.folder
        assert checkpoint.verify(done.folder).data == data


def test_waiting_for_nothing_is_no_wait(on_disk: Disk) -> None:
    writer = Writer(on_disk, trust_objects=False)
    writer.wait_for_memory()
    writer.wait()

    assert writer.finished == []


def test_a_full_disk_is_a_result_and_the_next_checkpoint_may_succeed(
    place: Folder, own_temporary: Path
) -> None:
    writer = Writer(place, trust_objects=False)
    with files_of_at_most(10_000):
        write(writer, 10)
        writer.wait()
    write(writer, 20)
    writer.wait()

    failed, written = writer.finished
    assert failed.folder is None
    assert isinstance(failed.error, OSError)
    assert written.folder
    assert place.names() == [written.folder.name]
    assert list(own_temporary.iterdir()) == []


def test_what_cannot_be_written_at_all_is_a_result_too(on_disk: Disk) -> None:
    writer = Writer(on_disk, trust_objects=False)
    write(writer, 10, Bomb())
    writer.wait()

    assert [type(done.error) for done in writer.finished] == [ArithmeticError]


class Leaving:
    """Ends its program where it is to be written."""

    def __reduce__(self) -> str:
        raise SystemExit(3)


def test_what_would_end_the_program_lets_nobody_wait_for_ever(on_disk: Disk) -> None:
    writer = Writer(on_disk, trust_objects=True)
    write(writer, 10, Leaving())
    writer.wait_for_memory()
    write(writer, 20)
    writer.wait()

    assert [type(done.error) for done in writer.finished] == [SystemExit, type(None)]


# ------------------------------------------------------- storage slower than checkpoints come


@dataclass(frozen=True)
class Slow(Disk):
    """Storage that takes a checkpoint only when it is let.

    Args:
        let: a place for each that it may take.
        refused: of its folders, by the step in the name.
    """

    let: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    made: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    under_way: list[Path] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    refused: tuple[str, ...] = ()

    @override
    @contextmanager
    def aside(self, what: str = "a checkpoint") -> Iterator[Path]:
        with super().aside(what) as made:
            self.under_way.append(made)
            self.most.append(len(self.under_way))
            yield made
            self.under_way.remove(made)

    @override
    def adopt(self, made: Path, name: str, last: str) -> Disk:
        self.seen.append(("came", name))
        self.made.release()
        assert self.let.acquire(timeout=SECONDS)
        if any(step in name for step in self.refused):
            self.under_way.remove(made)
            raise OSError(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO), name)
        self.seen.append(("stayed", name))
        return super().adopt(made, name, last)


def test_memory_is_free_again_before_the_storage_has_what_was_in_it(on_disk: Disk) -> None:
    slow = Slow(on_disk.path)
    writer = Writer(slow, trust_objects=False)
    weights = write(writer, 10)
    writer.wait_for_memory()
    weights.fill_(-1.0)
    assert writer.finished == []
    slow.let.release()
    writer.wait()

    [done] = writer.finished
    assert done.folder
    assert done.folder.path
    model = checkpoint.load(done.folder.path, trust_objects=False)["model"]
    assert isinstance(model, dict)
    assert model["weight"].unique().tolist() == [10.0]


def test_two_are_on_their_way_at_most_and_the_third_waits(on_disk: Disk) -> None:
    slow = Slow(on_disk.path)
    writer = Writer(slow, trust_objects=False)
    write(writer, 10)
    write(writer, 20)
    third = threading.Thread(target=write, args=(writer, 30))
    third.start()

    assert slow.made.acquire(timeout=SECONDS), "the first is with the storage"
    third.join(0.2)
    assert third.is_alive()
    assert (len(slow.under_way), writer.finished) == (2, [])

    slow.let.release()
    third.join(SECONDS)
    assert not third.is_alive()
    assert steps_of(writer) == [10]

    for _ in range(2):
        slow.let.release()
    writer.wait()
    assert steps_of(writer) == [10, 20, 30]
    assert max(slow.most) == 2
    names = [name for name in slow.names() for _ in range(2)]
    assert [name for _, name in slow.seen] == names, "none before the one before it is there"


def test_each_checkpoint_has_its_own_error_and_its_place_in_the_order(on_disk: Disk) -> None:
    slow = Slow(on_disk.path, refused=("000000010", "000000030"))
    writer = Writer(slow, trust_objects=False)
    for step, state in ((10, None), (20, Bomb()), (30, None), (40, None)):
        slow.let.release()
        write(writer, step, state)
    writer.wait()

    assert steps_of(writer) == [10, 20, 30, 40]
    errors = [type(done.error) for done in writer.finished]
    assert errors == [OSError, ArithmeticError, OSError, type(None)]
    assert [done.folder is None for done in writer.finished] == [True, True, True, False]
    assert slow.names() == [folder.name for folder in checkpoint.candidates([slow])]


def test_one_that_cannot_be_made_comes_after_the_one_before_that_storage_takes(
    on_disk: Disk,
) -> None:
    slow = Slow(on_disk.path)
    writer = Writer(slow, trust_objects=False)
    write(writer, 10)
    write(writer, 20, Bomb())
    assert slow.made.acquire(timeout=SECONDS)
    assert writer.finished == []
    slow.let.release()
    writer.wait()

    assert steps_of(writer) == [10, 20]
    assert [type(done.error) for done in writer.finished] == [type(None), ArithmeticError]
