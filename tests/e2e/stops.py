"""Stops of TrainingRuns on a node: programs, draw and oracle are those of hack.stops."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hack.stops.draw import KILLS, Stop
from hack.stops.judge import End, Trace, judge, judge_epochs
from hack.stops.marks import FOLDER, Plan
from hack.stops.trial import REACH_SECONDS, Result, make_result, read
from tests.e2e.running import ROOT, wait_for
from tests.e2e.runs import STORAGE, Runs, make_run, notes_of
from trainshed_api import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from hack.stops.catalogue import Program
    from trainshed_api.status import AttemptStatus, TrainingRunStatus

CODE = f"{STORAGE}/code/stops.zip"
CODE_FILES = (
    *(ROOT / "examples" / name for name in ("ragged_rows.py", "adopt/after.py")),
    *(ROOT / "hack" / "stops" / f"{name}.py" for name in ("draw", "marks", "observed", "programs")),
)
# What a driver needs to hear of a stop that the status has: it asks every five seconds.
HEARD_SECONDS = 6.0
# How long a run has no controller.
CUT_SECONDS = 20.0
# A controller that is cut is everybody's.
CUT = threading.Lock()
# The status of an attempt has no exit code where Ray could not tell it.
CODES = {"Succeeded": names.EXIT_SUCCEEDED, "Stopped": names.EXIT_TERMINATED} | {
    "Infrastructure": names.EXIT_TRY_AGAIN
}
ENDS_PODS = ("delete-head-pod", "delete-worker-pod")
# What the status says of an attempt that was stopped so, and did not succeed.
REASONS = {
    "suspend": ("Suspended",),
    # With a new checkpoint, and without one.
    "terminate": ("Terminated", "DriverKilled"),
    "kill-driver": ("DriverKilled",),
    "kill-coordinator": ("InfrastructureFailed",),
    "delete-head-pod": ("HeadLost",),
    "delete-rayjob": ("RayJobDeleted",),
}
_KILL = """
import os, sys
from pathlib import Path
number, program, mark = sys.argv[1:]
found = []
for entry in Path("/proc").glob("[0-9]*"):
    try:
        words = (entry / "cmdline").read_bytes().replace(b"\\0", b" ").decode()
        if words.startswith(program) and mark.encode() in (entry / "environ").read_bytes():
            found.append(int(entry.name))
    except OSError:
        pass
assert len(found) == 1, found
os.kill(found[0], int(number))
"""


@dataclass(frozen=True)
class Sent:
    """A signal, and when it was sent, seconds since 1970."""

    signal: str
    at: float


class StoppedRun:
    """A TrainingRun that is held where its plan says, and stopped there.

    Args:
        program: what it runs.
        stop: how it is stopped; one that ends Pods has a cluster that no other run uses.
    """

    def __init__(self, runs: Runs, name: str, program: Program, stop: Stop | None = None) -> None:
        self._runs, self._name, self._folder = runs, name, notes_of(name)
        changes: dict[str, JsonValue] = {
            "code": {"workingDir": f"file://{CODE}"},
            "env": {FOLDER: self._folder},
        }
        if stop and (stop.phase == "cluster-start" or stop.signal in ENDS_PODS):
            changes["cluster"] = {"dedicated": {}}
        self._manifest = make_run(name, program.spec | changes)
        self._is_applied = False
        self.sent: dict[int, Sent] = {}

    def begin(self, plan: Plan) -> None:
        """Start the run with a plan, or resume it after a suspension."""
        script = (
            f"mkdir -p {self._folder}/log && cd {self._folder}"
            " && rm -f reached go training worker-* && cat > plan.json"
        )
        self._runs.in_head("sh", "-c", script, stdin=json.dumps(asdict(plan)))
        if self._is_applied:
            self._runs.patch(self._name, suspend=False)
        else:
            self._runs.apply(self._manifest)
        self._is_applied = True

    def stop(self, plan: Plan, signal: str) -> None:
        """Wait until the run is held, send the signal, and let the run go on."""
        self._wait_until_held(plan.phase)
        number = self._runs.status(self._name).attempt or 1
        self.sent[number] = Sent(signal, time.time())
        self._send(signal, plan)
        # Rows stay blocked, as those of a slow source; a function that computes continues.
        if plan.phase != "waiting-for-rows" or signal in KILLS:
            self._release()
        if signal == "suspend":
            self._runs.wait_for("Suspended", self._name)
        elif signal == "terminate":
            self._wait_for_end(number)
        self._release()

    def finish(self) -> TrainingRunStatus:
        """Resume the run if it is suspended; return its status once it has ended."""
        if self._runs.status(self._name).phase == "Suspended":
            self._runs.patch(self._name, suspend=False)
        over = ("--for=jsonpath={.status.completionTime}", "--timeout=15m")
        self._runs.bundle.kubectl("wait", *over, f"trun/{self._name}")
        return self._runs.status(self._name)

    def trace(self, status: TrainingRunStatus, folder: Path) -> Trace:
        """Return what the workers of all attempts trained, and the last checkpoint.

        Args:
            folder: to which the files are copied.
        """
        assert status.result, status.model_dump_json(indent=1)
        of_run = status.result.path.rpartition("/")[0]
        script = f"tar -cz -C {self._folder} log -C {of_run} attempts | base64"
        packed = base64.b64decode(self._runs.in_head("sh", "-c", script))
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        return read(folder)

    def misreported(self, status: TrainingRunStatus) -> Iterator[str]:
        """Yield what status, claims and report tell wrongly."""
        for attempt in status.attempts:
            signal = self.sent.get(attempt.number, Sent("", 0.0)).signal
            is_over = attempt.outcome == "Succeeded"
            expected = ("Succeeded",) if is_over else REASONS.get(signal, ("no end",))
            if attempt.reason not in expected:
                wanted = " or ".join(expected)
                yield f"attempt {attempt.number} is {attempt.reason}; expected {wanted}"
        if not status.result:
            yield f"{status.phase}, and no result"
            return
        report = self._runs.read(status.result.report)
        for number in self._runs.claims(self._name):
            if f"attempt {number}" not in report.lower():
                yield f"the report does not name attempt {number}"

    def _wait_until_held(self, phase: str) -> None:
        if phase == "cluster-start":
            assert wait_for(lambda: bool(self._head_pod()), REACH_SECONDS)
            return
        until = f"until [ -e {self._folder}/reached ]; do sleep 0.2; done"
        self._runs.in_head("timeout", f"{REACH_SECONDS:.0f}", "sh", "-c", until)
        if phase == "waiting-for-rows":
            time.sleep(3)  # workers train on rows that were read before

    def _send(self, signal: str, plan: Plan) -> None:
        match signal:
            case "suspend":
                self._runs.patch(self._name, suspend=True)
                time.sleep(HEARD_SECONDS)
            case "terminate":
                self._kill(15, names.JOB_ENTRYPOINT)
            case "kill-driver":
                self._kill(9, names.JOB_ENTRYPOINT)
            case "kill-coordinator":
                self._kill(9, "ray::Coordinator")
            case "kill-worker":
                process, pod = self._worker(plan)
                self._exec(pod, "sh", "-c", f"kill -9 {process}")
            case "delete-worker-pod":
                self._runs.bundle.kubectl("delete", "pod", self._worker(plan)[1], "--wait=false")
            case "delete-head-pod":
                self._runs.kill_pod(self._head_pod())
            case "delete-rayjob":
                job = self._runs.status(self._name).attempts[-1].ray_job
                self._runs.bundle.kubectl("delete", "rayjob", job, "--wait=false")
            case "cut-controller":
                with CUT:
                    self._runs.scale_controller(0)
                    self._release()
                    time.sleep(CUT_SECONDS)
                    self._runs.scale_controller(1)

    def _release(self) -> None:
        self._runs.in_head("touch", f"{self._folder}/go")

    def _wait_for_end(self, number: int) -> None:
        def is_over() -> bool:
            return self._runs.status(self._name).attempts[number - 1].end_time is not None

        assert wait_for(is_over, REACH_SECONDS, pause_seconds=2)

    def _worker(self, plan: Plan) -> tuple[str, str]:
        """Return number and Pod of the worker process that is stopped."""
        process, pod = self._runs.read(f"{self._folder}/worker-{plan.at % 2}").split()
        return process, pod

    def _head_pod(self) -> str:
        """Return the head Pod of the run's cluster, or nothing."""
        attempts = self._runs.status(self._name).attempts
        if not attempts or not attempts[-1].ray_cluster:
            return ""
        label = f"-lray.io/node-type=head,ray.io/cluster={attempts[-1].ray_cluster}"
        return self._runs.bundle.kubectl("get", "pod", label, "-oname").strip().rpartition("/")[2]

    def _kill(self, number: int, program: str) -> None:
        self._exec(self._head_pod(), "python", "-c", _KILL, str(number), program, self._folder)

    def _exec(self, pod: str, *command: str) -> None:
        self._runs.bundle.kubectl("exec", pod, "--", *command)


def train_unstopped(run: StoppedRun, program: Program, folder: Path) -> Trace:
    """Return what a program trains that nobody stops."""
    run.begin(Plan())
    trace = run.trace(run.finish(), folder)
    assert list(judge_epochs(program.rows, trace)) == []
    return trace


def try_stop(
    stop: Stop, run: StoppedRun, program: Program, reference: Trace, folder: Path
) -> Result:
    """Stop a TrainingRun, wait until it has ended, and judge it."""
    began = time.monotonic()
    plans = [(Plan(stop.phase, stop.at), stop.signal)]
    if stop.phase == "second-attempt":
        plans.insert(0, (Plan("training", stop.at // 2), "suspend"))
    for plan, signal in plans:
        run.begin(plan)
        run.stop(plan, signal)
    status = run.finish()
    ends = list(_ends_of(status.attempts, run.sent))
    faults = list(run.misreported(status))
    if status.result:
        seen = run.trace(status, folder)
        faults += judge(stop, reference, seen, ends, keeps_steps=program.keeps_steps)
    stopped = next(end for end in reversed(ends) if end.signal)
    return make_result(stop, stopped, ends, time.monotonic() - began, faults)


def _ends_of(attempts: Sequence[AttemptStatus], sent: Mapping[int, Sent]) -> Iterator[End]:
    for attempt in attempts:
        code = attempt.exit_code
        if code is None:
            code = CODES.get(attempt.outcome or "", 1)
        # As a shell shows the end by a signal.
        code = code if code >= 0 else 128 - code
        stopped = sent.get(attempt.number)
        if stopped and attempt.end_time:
            seconds = attempt.end_time.timestamp() - stopped.at
            yield End(code, stopped.signal, seconds)
        else:
            yield End(code)
