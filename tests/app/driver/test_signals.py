"""Ctrl-C and SIGTERM are heard once; the second time they end the process."""

import os
import signal
import subprocess
import sys

import pytest

from trainshed.driver.signals import FENCED, Stop, on_stop

TWICE = """
import os, signal, sys, time
from trainshed.driver.signals import Stop, on_stop
stop = Stop()
with on_stop(stop):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    print("asked", stop.reason, flush=True)
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
def test_the_second_signal_ends_the_process_at_once(first: str, second: str, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, first, second],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.stdout.split() == [
        "asked",
        "Interrupted" if first == "SIGINT" else "Terminated",
    ]
    assert done.returncode == code


def test_the_controller_s_order_is_a_reason_too_and_a_signal_after_it_is_the_first() -> None:
    stop = Stop()
    stop.order("Suspended", 30)
    stop.order("Deadline", 5)
    stop.ask(signal.SIGTERM)

    assert stop.asked.is_set()
    assert (stop.reason, stop.grace_seconds, stop.signalled) == ("Suspended", 30, True)


def test_whoever_is_fenced_while_stopping_is_fenced() -> None:
    stop = Stop()
    stop.ask(signal.SIGTERM)
    stop.order(FENCED, 0)

    assert (stop.reason, stop.grace_seconds) == (FENCED, 0)
