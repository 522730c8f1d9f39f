"""Ctrl-C and SIGTERM ask for a stop, then for an end at once; the third time they end us."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.attempt.signals import FENCED, Stop, StopRequestedError, on_stop
from trainshed_api.names import EXIT_INTERRUPTED, EXIT_TERMINATED, EXIT_TRY_AGAIN

THRICE = """
import os, signal, sys, time
from trainshed.attempt.signals import Stop, on_stop
stop = Stop()
with on_stop(stop):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    print("asked", stop.reason, stop.at_once, flush=True)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    print("asked", stop.reason, stop.at_once, flush=True)
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "reason"), [(signal.SIGINT, "Interrupted"), (signal.SIGTERM, "Terminated")]
)
def test_a_signal_is_a_reason_to_stop(number: signal.Signals, reason: str) -> None:
    stop = Stop()
    before = signal.getsignal(number)
    with on_stop(stop):
        assert not stop.asked.is_set()
        os.kill(os.getpid(), number)
        assert stop.asked.wait(30)

    assert stop.reason == reason
    assert signal.getsignal(number) == before


def test_handlers_are_put_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="mine"), on_stop(Stop()):
        raise ValueError("mine")

    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("first", "second", "code"),
    [("SIGINT", "SIGINT", 130), ("SIGTERM", "SIGTERM", 143), ("SIGTERM", "SIGINT", 130)],
)
def test_the_second_signal_ends_the_run_and_the_third_the_process(
    first: str, second: str, code: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", THRICE, first, second],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    reason = "Interrupted" if first == "SIGINT" else "Terminated"
    assert done.stdout.splitlines() == [f"asked {reason} False", f"asked {reason} True"]
    assert done.returncode == code


def test_the_controller_s_order_is_a_reason_too_and_a_signal_after_it_is_the_first() -> None:
    stop = Stop()
    stop.order("Suspended", 30)
    stop.order("Deadline", 5)
    stop.ask(signal.SIGTERM)

    assert stop.asked.is_set()
    assert (stop.reason, stop.grace_seconds, stop.signalled) == ("Suspended", 30, True)


def test_a_signal_ends_what_only_starts_the_run() -> None:
    stop = Stop()
    done = []

    def start() -> None:
        with on_stop(stop), stop.interrupting():
            done.append("before")
            signal.raise_signal(signal.SIGTERM)
            done.append("after")

    with pytest.raises(StopRequestedError):
        start()

    assert (done, stop.reason, stop.at_once) == (["before"], "Terminated", False)


def test_nothing_is_started_once_a_stop_was_requested() -> None:
    stop = Stop()
    stop.order("Suspended", 30)
    done = []
    with pytest.raises(StopRequestedError), stop.interrupting():
        done.append("started")

    assert done == []


def test_the_controllers_order_takes_effect_when_the_start_is_over() -> None:
    stop = Stop()
    with pytest.raises(StopRequestedError), stop.interrupting():
        stop.order("Suspended", 30)


def test_what_fails_while_it_starts_fails_whether_or_not_it_is_to_stop() -> None:
    stop = Stop()

    def start() -> None:
        with stop.interrupting():
            stop.order("Suspended", 30)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        start()


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Interrupted", EXIT_INTERRUPTED),
        ("Terminated", EXIT_TERMINATED),
        ("Suspended", EXIT_TERMINATED),
        (FENCED, EXIT_TRY_AGAIN),
    ],
)
def test_an_exit_code_says_what_asked(reason: str, code: int) -> None:
    stop = Stop()
    stop.order(reason, 0)

    assert stop.exit_code == code


def test_whoever_is_fenced_while_stopping_is_fenced() -> None:
    stop = Stop()
    stop.ask(signal.SIGTERM)
    stop.order(FENCED, 0)

    assert (stop.reason, stop.grace_seconds) == (FENCED, 0)


SIGNALS_ITSELF = "import os, time; os.kill(os.getpid(), int(os.environ['NUMBER'])); time.sleep(60)"


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGINT, "Interrupted\n"), (signal.SIGTERM, "Terminated\n")]
)
def test_a_signal_during_the_imports_ends_the_process_in_one_line(
    number: signal.Signals, said: str, tmp_path: Path
) -> None:
    (tmp_path / "click.py").write_text(SIGNALS_ITSELF)

    # A process of its own: the commands are imported here already.
    done = subprocess.run(
        [sys.executable, "-m", "trainshed", "--version"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
            "NUMBER": str(int(number)),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", said)
