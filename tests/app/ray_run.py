"""Runs `trainshed` as a user would: a process of its own, its output read afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from tests.builders import make_document
from trainshed_api.progress import AnyEvent, Finished, parse_event
from trainshed_api.records import ResultRecord

ROOT = Path(__file__).parents[2]
PROGRAM = "from trainshed.cli.main import main; main()"


@dataclass(frozen=True)
class Output:
    """What a finished `trainshed` process left."""

    code: int
    events: list[AnyEvent]
    stdout: str
    stderr: str

    @property
    def finished(self) -> Finished:
        """Return the last event."""
        last = self.events[-1]
        assert isinstance(last, Finished), self.stderr
        return last


def write_run(folder: Path, name: str = "test", **spec: JsonValue) -> Path:
    """Write a TrainingRun file whose relative paths lie under `folder`; return the file."""
    document = make_document(**spec)
    document["metadata"] = {"name": name}
    file = folder / f"{name}.yaml"
    # JSON is YAML; PyYAML would write a column `y` unquoted, which is true to kubectl and to us
    file.write_text(json.dumps(document), encoding="utf-8")
    return file


def run_folder(file: Path) -> Path:
    """Return the folder of a file's run in the default storage."""
    return file.parent / "runs" / "local" / file.stem


def read_result(file: Path) -> ResultRecord:
    """Return a run's result.json."""
    text = (run_folder(file) / "result.json").read_text(encoding="utf-8")
    return ResultRecord.model_validate_json(text)


def start(
    *words: str, environment: dict[str, str] | None = None, program: str = PROGRAM
) -> subprocess.Popen[str]:
    """Start `trainshed WORDS` from the repository's root."""
    clean = {name: value for name, value in os.environ.items() if name != "TRAINSHED_HOME"}
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        cwd=ROOT,
        env=clean | {"PYTHONPATH": import_path()} | (environment or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], timeout_seconds: float = 400) -> Output:
    """Wait for a process and read what it left; nothing of it stays behind."""
    try:
        stdout, stderr = process.communicate(timeout=timeout_seconds)
    finally:
        end_group(process)
    return read_output(process.returncode, stdout, stderr)


def read_output(code: int, stdout: str, stderr: str) -> Output:
    """Return what a command left, with its events."""
    events = [parse_event(line) for line in stdout.splitlines() if line.startswith("{")]
    return Output(code, events, stdout, stderr)


def trainshed(
    *words: str,
    environment: dict[str, str] | None = None,
    program: str = PROGRAM,
    timeout_seconds: float = 400,
) -> Output:
    """Run `trainshed WORDS` to its end."""
    return finish(start(*words, environment=environment, program=program), timeout_seconds)


def wait_for_step(file: Path, step: int, attempt: int = 1, timeout_seconds: float = 300) -> None:
    """Wait until a run's metrics.jsonl shows a step."""
    folder = run_folder(file) / "attempts" / str(attempt)
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        # In a bucket a text that grows is several objects.
        texts = sorted([*folder.glob("metrics.jsonl"), *folder.glob("metrics.jsonl.parts/*")])
        lines = "".join(text.read_text(encoding="utf-8") for text in texts).splitlines()
        steps = [json.loads(line).get("step", 0) for line in lines if line.endswith("}")]
        if max(steps, default=0) >= step:
            return
        time.sleep(0.1)
    raise AssertionError(f"no step {step} in {folder} within {timeout_seconds} s")


def import_path() -> str:
    """Return where processes of tests import from; what `make test-tensorflow` adds comes last."""
    paths = [str(ROOT / path) for path in ("api", "app", ".")]
    return os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])


def end_group(process: subprocess.Popen[str]) -> None:
    """Kill what is left of a process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
