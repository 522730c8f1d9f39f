"""Checkpoints are written in a thread; what goes wrong is handed over, not lost."""

from pathlib import Path

import torch

from tests.app.builders_checkpoint import Bomb, files_of_at_most, hold, make_manifest
from trainshed.checkpoint import files as checkpoint
from trainshed.checkpoint.writer import Writer


def write(writer: Writer, step: int, state: object = None) -> None:
    writer.wait()
    content = hold({"weight": torch.zeros(50_000)}, {"state": state})
    writer.begin(content, make_manifest(step))


def test_checkpoints_are_finished_in_order(tmp_path: Path) -> None:
    writer = Writer(tmp_path, trust_objects=False)
    write(writer, 10)
    write(writer, 20)
    writer.wait()

    assert [done.manifest.position.step for done in writer.finished] == [10, 20]
    assert [done.error for done in writer.finished] == [None, None]
    assert [done.folder for done in writer.finished] == sorted(tmp_path.iterdir())
    assert all(checkpoint.verify(folder) for folder in tmp_path.iterdir())


def test_waiting_for_nothing_is_no_wait(tmp_path: Path) -> None:
    Writer(tmp_path, trust_objects=False).wait()


def test_a_full_disk_is_a_result_and_the_next_checkpoint_may_succeed(tmp_path: Path) -> None:
    writer = Writer(tmp_path, trust_objects=False)
    with files_of_at_most(10_000):
        write(writer, 10)
        writer.wait()
    write(writer, 20)
    writer.wait()

    failed, written = writer.finished
    assert failed.folder is None
    assert isinstance(failed.error, OSError)
    assert written.folder
    assert list(tmp_path.iterdir()) == [written.folder]


def test_what_cannot_be_written_at_all_is_a_result_too(tmp_path: Path) -> None:
    writer = Writer(tmp_path, trust_objects=False)
    write(writer, 10, Bomb())
    writer.wait()

    assert [type(done.error) for done in writer.finished] == [ArithmeticError]
