"""Starts a program, stops it where its plan holds it, starts it again, and judges the run."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from hack.stops.catalogue import ROOT, ROWS, Program
from hack.stops.draw import KILLS, Stop
from hack.stops.judge import End, Trace, judge, judge_epochs, read_trace
from hack.stops.marks import FOLDER, Plan, digest
from hack.stops.suspended import Controlled, control
from tests.app.builders_rows import write_rows
from tests.app.processes import Mark
from tests.app.ray_head import SECONDS_TO_START
from tests.app.ray_run import end_group, import_path
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed_api.names import API_VERSION, ENV_HOME, EXIT_SUCCEEDED, KIND

# A machine that does other things takes its time to start a Ray.
REACH_SECONDS, END_SECONDS, LEFT_SECONDS = 400.0, 600.0, 120.0
# A driver asks its controller every five seconds, once it has begun.
SUSPEND_SECONDS = 10.0
MOST_ATTEMPTS = 5
# Where a busy machine does not start Ray in time, the command says to run it again.
MOST_STARTS, LATE_START = 3, "Ray did not start on this machine in time"


@dataclass(frozen=True)
class Result:
    """The line of a stop in the table, and what went wrong."""

    line: str
    faults: list[str]


class Runner:
    """Runs one program in a new folder.

    Args:
        program: what to run.
        data: holds the folders that programs read.
        folder: for this run; what was there is deleted.
        controlled: where the run is suspended; None for runs that start their own Ray.
    """

    def __init__(
        self, program: Program, data: Path, folder: Path, controlled: Controlled | None = None
    ) -> None:
        self.folder = folder
        self._controlled = controlled
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "log").mkdir(parents=True)
        for part in data.iterdir():
            (folder / part.name).symlink_to(part)
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "run"}}
        text = yaml.safe_dump({**document, "spec": program.spec})
        (folder / "run.yaml").write_text(text, encoding="utf-8")
        self._mark = Mark()
        self._number = 0

    def run(self, plan: Plan, name: str | None = None) -> End:
        """Run the command; send a signal where the plan holds it, if one is named."""
        for _ in range(MOST_STARTS):
            end = self._run_once(plan, name)
            if LATE_START not in self._output.read_text(encoding="utf-8"):
                break
        return end

    def _run_once(self, plan: Plan, name: str | None) -> End:
        for file in ("reached", "go", "training", *(f"worker-{rank}" for rank in range(2))):
            (self.folder / file).unlink(missing_ok=True)
        (self.folder / "plan.json").write_text(json.dumps(asdict(plan)))
        if self._controlled:
            self._controlled.order(suspends=False)
        process = self._start()
        is_sent = name is not None and self._reaches(plan, process)
        began = time.monotonic()
        if name and is_sent:
            self._send(name, process, plan)
            # Rows stay blocked, as those of a slow source; a function that computes continues.
            if plan.phase != "waiting-for-rows" or name in KILLS:
                (self.folder / "go").touch()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        seconds = time.monotonic() - began
        (self.folder / "go").touch()
        left = self._mark.left_over(LEFT_SECONDS)
        end_group(process)
        self._mark.kill()
        # As a shell shows the end by a signal.
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        short = [" ".join(command.split()[:3]) for command in left]
        return End(code, name if is_sent else None, seconds, short)

    @property
    def _output(self) -> Path:
        return self.folder / f"output-{self._number}.txt"

    def _start(self) -> subprocess.Popen[str]:
        self._number += 1
        clean = {name: value for name, value in os.environ.items() if name != ENV_HOME}
        clean |= environment_for(self.folder) | self._mark.environment
        words = [str(self.folder / "run.yaml")]
        if self._controlled:
            clean |= self._controlled.driver_environment(Path(words.pop()), self._number)
        with self._output.open("w") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "trainshed", "run", *words],
                cwd=ROOT,
                env=clean,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )

    def _reaches(self, plan: Plan, process: subprocess.Popen[str]) -> bool:
        """Wait for a phase; return whether it was reached before the command ended."""
        if plan.phase == "cluster-start":
            return _wait(lambda: bool(self._find("raylet")), process)
        reached = _wait((self.folder / "reached").exists, process)
        if reached and plan.phase == "waiting-for-rows":
            time.sleep(3)  # workers train on rows that were read before
        return reached

    def _send(self, name: str, process: subprocess.Popen[str], plan: Plan) -> None:
        match name:
            case "interrupt":  # as a terminal does
                os.killpg(process.pid, signal.SIGINT)
            case "terminate":
                process.terminate()
            case "terminate-group":
                os.killpg(process.pid, signal.SIGTERM)
            case "kill-driver":
                process.kill()
            case "kill-worker":
                worker = (self.folder / f"worker-{plan.at % 2}").read_text().split()
                os.kill(int(worker[0]), signal.SIGKILL)
            case "kill-coordinator":
                for number in self._find("ray::Coordinator"):
                    os.kill(number, signal.SIGKILL)
            case "suspend":
                assert self._controlled
                self._controlled.order(suspends=True).wait(SUSPEND_SECONDS)

    def _find(self, program: str) -> list[int]:
        """Return the processes of the run whose command begins with a program."""
        running = self._mark.commands().items()
        return [number for number, words in running if program in words.partition(" ")[0]]


def environment_for(folder: Path) -> dict[str, str]:
    """Return the environment of processes that note in a folder what they train."""
    return {
        FOLDER: str(folder),
        "PYTHONPATH": import_path(),
        # Ray's defaults make a busy machine slower (a niceness of 15), and fail a start on it.
        "RAY_worker_niceness": "0",
        "RAY_raylet_start_wait_time_s": str(SECONDS_TO_START),
        # Each epoch reads again; by default Ray has ended the process that read by then.
        "RAY_idle_worker_killing_time_threshold_ms": "60000",
    }


def read(folder: Path) -> Trace:
    """Return what the workers of all attempts of a run wrote, and its last checkpoint."""
    import torch

    logs = sorted((folder / "log").iterdir())
    found = folder.glob("**/ray/checkpoint_*/manifest.json")
    newest = max(found, key=lambda path: path.parent.name, default=None)
    model = find_model(newest) if newest else None
    saved = digest(torch.load(model, weights_only=True)) if model else None
    return read_trace([log.read_text(encoding="utf-8") for log in logs], saved)


def find_model(manifest: Path) -> Path | None:
    """Return the first model's file of a checkpoint; None for one that PyTorch does not read."""
    objects = json.loads(manifest.read_bytes())["objects"]
    models = (each["files"][0] for each in objects.values() if each["kind"] == "model")
    return next((manifest.with_name(name) for name in models if name.endswith(".pt")), None)


def _wait(is_reached: Callable[[], bool], process: subprocess.Popen[str]) -> bool:
    deadline = time.monotonic() + REACH_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if is_reached():
            return True
        time.sleep(0.1)
    return is_reached()


def try_stop(stop: Stop, program: Program, folder: Path) -> Result:
    """Stop a run, run it again to its end, and judge it.

    Args:
        folder: of all stops: data, runs that nobody stops, and the runs that failed.
    """
    with _alone(folder):
        data = write_data(folder / "data")
        reference, faults = _train_unstopped(program, data, folder / "references")
    if faults:
        return make_result(stop, End(0), [], 0.0, [f"unstopped: {'; '.join(faults)}"])
    began = time.monotonic()
    own = folder / "runs" / stop.name.replace("/", "-")
    is_controlled = stop.signal == "suspend"
    around = control(own, environment_for(own)) if is_controlled else nullcontext()
    with around as controlled:
        stopped, ends = _run(stop, Runner(program, data, own, controlled))
    faults = [f"{stop.phase} was not reached"]
    if stopped.signal:
        faults = judge(stop, reference, read(own), ends, keeps_steps=program.keeps_steps)
    if not faults:
        shutil.rmtree(own)
    return make_result(stop, stopped, ends, time.monotonic() - began, faults)


def make_result(
    stop: Stop, stopped: End, ends: list[End], seconds: float, faults: list[str]
) -> Result:
    """Return the line of a stop.

    Args:
        stopped: how the attempt ended that was stopped.
        seconds: of all attempts.
    """
    codes = " ".join(str(end.code) for end in ends)
    names = (stop.program, stop.phase, stop.signal)
    times = (f"{stopped.seconds:.0f}", f"{seconds:.0f}")
    verdict = "; ".join(faults) or "ok"
    return Result(f"| {' | '.join((*names, *times, codes, verdict))} |", faults)


def _run(stop: Stop, runner: Runner) -> tuple[End, list[End]]:
    """Return how the attempt that was stopped ended, and how each of the run's attempts did."""
    ends: list[End] = []
    if stop.phase == "second-attempt":
        ends.append(runner.run(Plan("training", stop.at // 2), "terminate"))
    stopped = runner.run(Plan(stop.phase, stop.at), stop.signal)
    ends.append(stopped)
    while stopped.signal and ends[-1].code != EXIT_SUCCEEDED and len(ends) < MOST_ATTEMPTS:
        ends.append(runner.run(Plan()))
    return stopped, ends


def _train_unstopped(program: Program, data: Path, folder: Path) -> tuple[Trace, list[str]]:
    """Return what a program does that nobody stops, and its faults; it runs once for each spec."""
    files = [ROOT / "hack" / "stops" / name for name in ("programs.py", "frameworks.py")]
    source = b"".join(file.read_bytes() for file in files)
    text = json.dumps(program.spec, sort_keys=True).encode()
    own = folder / f"{program.name}-{hashlib.sha256(source + text).hexdigest()[:8]}"
    if not (own / "done").exists():
        end = Runner(program, data, own).run(Plan())
        if end.code != EXIT_SUCCEEDED:
            return Trace([]), [f"code {end.code}, see {own}"]
        (own / "done").touch()
    trace = read(own)
    return trace, list(judge_epochs(program.rows, trace))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other shards out: what is in the folder is made once, for all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def write_data(folder: Path) -> Path:
    """Write what programs read, unless it exists; return the folder."""
    folder.mkdir(exist_ok=True)
    write_digits(Disk(folder))
    if not (folder / "rows").exists():  # files that change would fail the runs that read them
        write_rows(folder / "rows", ROWS, row_group_size=12)
    return folder
