"""Programs that are stopped in this process, judged by rows and weights that they note themselves.

They start no Ray; tests/e2e/test_stops.py stops whole runs.
"""

import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from hack.stops import marks
from hack.stops.catalogue import Program, make_programs
from hack.stops.draw import Stop as DrawnStop
from hack.stops.judge import End, Trace, judge, judge_epochs
from hack.stops.marks import Plan
from hack.stops.trial import read, write_data
from tests.app.alone import train_alone
from trainshed.attempt.signals import Stop
from trainshed.worker.active_run import running
from trainshed_api.names import EXIT_SUCCEEDED, EXIT_TERMINATED, STOPPED

PROGRAMS = {program.name: program for program in make_programs()}
STOPS = [
    DrawnStop("own-loop", "evaluation", "terminate", 8),
    DrawnStop("two-models", "training", "terminate", 6),
    DrawnStop("zip", "second-attempt", "terminate", 10),
    DrawnStop("moving-average", "epoch-end", "terminate", 4),
    DrawnStop("two-models", "checkpoint", "terminate", 6),
]
SECONDS = 60.0


@pytest.mark.parametrize("drawn", STOPS, ids=lambda stop: stop.name)
def test_a_stopped_program_trains_what_one_does_that_nobody_stops(
    drawn: DrawnStop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = PROGRAMS[drawn.program]
    reference = Alone(program, tmp_path / "reference", monkeypatch)
    reference.attempt(Plan())
    stopped = Alone(program, tmp_path / "stopped", monkeypatch)
    ends = []
    if drawn.phase == "second-attempt":
        ends.append(stopped.attempt(Plan("training", drawn.at // 2), stops=True))
    ends += [stopped.attempt(Plan(drawn.phase, drawn.at), stops=True), stopped.attempt(Plan())]

    unstopped = reference.trace()
    assert list(judge_epochs(program.rows, unstopped)) == []
    assert judge(drawn, unstopped, stopped.trace(), ends, keeps_steps=program.keeps_steps) == []


class Alone:
    """One run of a program on one worker.

    Args:
        program: what to run.
        folder: for this run and its data.
        patch: undone after the test.
    """

    def __init__(self, program: Program, folder: Path, patch: pytest.MonkeyPatch) -> None:
        folder.mkdir()
        write_data(folder)
        (folder / "log").mkdir()
        self._spec = program.spec | {"workers": {"count": 1, "resources": {"cpu": "500m"}}}
        self._folder, self._patch = folder, patch
        self._lives = itertools.count(1)

    def attempt(self, plan: Plan, *, stops: bool = False) -> End:
        """Train until the end, or until a stop where the plan holds the function."""
        (self._folder / "plan.json").write_text(json.dumps(asdict(plan)))
        for name in ("reached", "go"):
            (self._folder / name).unlink(missing_ok=True)
        self._patch.setenv(marks.FOLDER, str(self._folder))
        self._patch.setattr(marks, "LIFE", next(self._lives))
        self._patch.setattr(marks, "STEP_SECONDS", 0.1)
        marks.find_folder.cache_clear()
        marks.read_plan.cache_clear()
        stop = Stop()
        if stops:
            threading.Thread(target=self._stop, args=(stop,), daemon=True).start()
        left = train_alone(self._folder, self._spec, stop=stop)
        if left.error:
            raise left.error
        code = EXIT_TERMINATED if left.verdict.outcome == STOPPED else EXIT_SUCCEEDED
        return End(code, "terminate" if stop.reason else None)

    def trace(self) -> Trace:
        """Return what all attempts trained, and the last checkpoint."""
        return read(self._folder)

    def _stop(self, stop: Stop) -> None:
        wait_until((self._folder / "reached").exists)
        stop.order("Terminated", SECONDS)
        wait_until(lambda: (run := running()) is not None and run._loop.wants_stop)
        (self._folder / "go").touch()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)
