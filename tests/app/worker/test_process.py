"""Whose mistake an exception in a worker is, and how it is told."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainshed.data.sources.errors import DataError, RemoteTracebackError
from trainshed.programs.vision import build_model
from trainshed.worker.process import summary, users_traceback

USERS_CODE = """
import ray
import torch
from torch import nn

from trainshed.worker.phase_timer import ThroughputMeter


def in_my_code():
    raise ValueError("mine")


def through_torch():
    nn.Linear(2, 2)(torch.zeros(3, 3))


def through_ray():
    ray.remote(5)


def through_trainshed():
    ThroughputMeter(clock=in_my_code).step(1)


def from_another():
    try:
        in_my_code()
    except ValueError as error:
        raise KeyError("second") from error


def while_handling():
    try:
        nn.Linear(2, 2)(torch.zeros(3, 3))
    except RuntimeError:
        in_my_code()
"""


def load(folder: Path) -> Callable[[str], Exception]:
    """Write the user's module into a folder; return what calls a function and its exception."""
    file = folder / "my_code.py"
    file.parent.mkdir(parents=True)
    file.write_text(USERS_CODE)
    spec = importlib.util.spec_from_file_location("my_code", file)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def call(name: str) -> Exception:
        try:
            getattr(module, name)()
        except Exception as error:
            return error
        raise AssertionError(f"{name} raised nothing")

    return call


# In Ray's own images people's home is called ray; a folder may be called torch too.
@pytest.mark.parametrize("home", ["project", "ray", "torch/ray"])
@pytest.mark.parametrize(
    ("function", "frames", "last"),
    [
        ("in_my_code", ["in_my_code"], "ValueError: mine"),
        ("through_torch", ["through_torch"], "RuntimeError: "),
        ("through_ray", ["through_ray"], "AssertionError: "),
        ("through_trainshed", ["through_trainshed", "in_my_code"], "ValueError: mine"),
        ("from_another", ["from_another", "in_my_code", "from_another"], "KeyError: 'second'"),
        ("while_handling", ["while_handling", "while_handling", "in_my_code"], "ValueError: mine"),
    ],
)
def test_a_traceback_holds_the_users_frames_only(
    tmp_path: Path, home: str, function: str, frames: list[str], last: str
) -> None:
    text = users_traceback(load(tmp_path / home)(function))
    files = [line for line in text.splitlines() if line.startswith("  File ")]
    theirs = [line for line in files if __file__ not in line]  # besides what this test adds

    assert all("my_code.py" in line for line in theirs)
    assert [line.rpartition(" in ")[2] for line in theirs] == frames
    assert text.strip().splitlines()[-1].startswith(last)


def test_a_traceback_of_another_process_comes_first_and_our_names_are_short() -> None:
    remote = 'Traceback (most recent call last):\n  File "x.py", line 1, in f\nValueError: mine\n'
    try:
        raise DataError("x.parquet: unreadable") from RemoteTracebackError(remote)
    except DataError as error:
        text = users_traceback(error)

    assert text.startswith(remote)
    assert text.strip().splitlines()[-1] == "DataError: x.parquet: unreadable"


def test_without_a_frame_of_the_users_there_is_only_what_is_wrong() -> None:
    assert (
        users_traceback(DataError("x.parquet: unreadable")) == "DataError: x.parquet: unreadable\n"
    )


def test_a_built_in_program_is_shown_as_a_users_function_would_be() -> None:
    with pytest.raises(ValueError, match="resnet") as caught:
        build_model({"model": "resnet"})

    assert "programs/vision.py" in users_traceback(caught.value)


@pytest.mark.parametrize(
    ("error", "want"),
    [
        (ValueError("one\ntwo\nthree"), "ValueError: one"),
        (KeyError("label"), "KeyError: 'label'"),
        (RuntimeError(), "RuntimeError"),
        (torch.OutOfMemoryError("CUDA is full"), "OutOfMemoryError: CUDA is full"),
    ],
)
def test_a_summary_is_one_line(error: Exception, want: str) -> None:
    assert summary(error) == want


def test_a_summary_leaves_notes_out() -> None:
    error = ValueError("the cause")
    error.add_note("a note")

    assert summary(error) == "ValueError: the cause"
