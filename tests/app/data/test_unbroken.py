"""What is made for the first time is whole before an interrupt is heard, where tasks are run."""

import _thread
import importlib
import signal
from pathlib import Path

import pytest

from trainshed.data.sources.defer_interrupts import DeferInterrupts


def make_task_process() -> DeferInterrupts:
    """Return what holds interrupts back in a process that runs tasks."""
    unbroken = DeferInterrupts()
    unbroken.begin()
    return unbroken


class Interrupted:
    """Is interrupted before it is whole."""

    def __init__(self) -> None:
        self.is_whole = False

    def __call__(self) -> str:
        _thread.interrupt_main()
        self.is_whole = "whole".islower()  # Python looks for signals before a call is over
        return "made"


def test_what_is_imported_for_the_first_time_is_whole_when_its_task_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, unbroken = f"{tmp_path.name}_module", make_task_process()
    # As torch, it can be imported once.
    text = f"import _thread, os; os.mkdir({str(tmp_path / 'once')!r}); _thread.interrupt_main()"
    (tmp_path / f"{name}.py").write_text(f"{text}\nrows = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(KeyboardInterrupt):
        unbroken.first(name, lambda: importlib.import_module(name))

    assert importlib.import_module(name).rows == 3


def test_what_is_made_again_is_interrupted_at_once() -> None:
    unbroken, again = make_task_process(), Interrupted()
    unbroken.first("rows", lambda: "made")

    with pytest.raises(KeyboardInterrupt):
        unbroken.first("rows", again)

    assert not again.is_whole


def test_who_runs_no_tasks_hears_ctrl_c_at_once() -> None:
    made = Interrupted()

    with pytest.raises(KeyboardInterrupt):
        DeferInterrupts().first("rows", made)

    assert not made.is_whole


def test_who_puts_back_the_handler_that_he_found_leaves_a_process_that_hears() -> None:
    """With Ray's own means it heard nothing any more."""
    unbroken, before = make_task_process(), signal.getsignal(signal.SIGINT)

    def has_its_own() -> None:
        found = signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGINT, found)

    unbroken.first("rows", has_its_own)

    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_within_another_one_is_heard_at_the_end_of_both() -> None:
    unbroken, inner = make_task_process(), Interrupted()

    with pytest.raises(KeyboardInterrupt):
        unbroken.first("outer", lambda: unbroken.first("inner", inner))

    assert inner.is_whole
