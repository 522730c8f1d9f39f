"""TrainingRuns on a cluster: how tests make them, watch them and look at what they left."""

import base64
import io
import json
import re
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from pydantic import JsonValue

from tests.e2e.bundle import Bundle
from tests.e2e.running import wait_for
from trainshed_api.records import ResultRecord
from trainshed_api.status import TrainingRunStatus

USER_CODE = Path(__file__).parent / "user_code"
STORAGE = "/mnt/trainshed"
CODE = f"{STORAGE}/code/user_code.zip"
NOTES = f"{STORAGE}/notes"
# Of the digits, with the batch size of make_counting.
STEPS_IN_EPOCH = 22
# One worker on the Pod with a GPU: its data is read on another one.
ON_GPU_GROUP: JsonValue = {"count": 1, "resources": {"cpu": 1}, "group": "gpu"}
_FRACTION = re.compile(r"\b(\d+)/(\d+)\b")
_UNPACK = "import base64, io, sys, tarfile; " + (
    "tarfile.open(fileobj=io.BytesIO(base64.b64decode(sys.stdin.read()))).extractall(sys.argv[1])"
)
_WRITE = "import base64, pathlib, sys; p = pathlib.Path(sys.argv[1]); " + (
    "p.parent.mkdir(exist_ok=True); p.write_bytes(base64.b64decode(sys.stdin.read()))"
)


def make_counting(
    name: str, *, epochs: int, seconds_per_step: float, fails_at: int = 0, **spec: JsonValue
) -> dict[str, JsonValue]:
    """Return a run of the user's own function, slow enough to look at."""
    config: JsonValue = {
        "secondsPerStep": seconds_per_step,
        "failsAt": fails_at,
        "notes": notes_of(name),
    }
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["label"]}
    whole: dict[str, JsonValue] = {
        "train": "counting:train",
        "code": {"workingDir": f"file://{CODE}"},
        "config": config,
        "epochs": epochs,
        "batchSize": 64,
        "data": {"cpus": 1, "datasets": {"train": {"read": read, "cache": "workers"}}},
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"everySteps": 10},
    }
    return make_run(name, {**whole, **spec})


def make_run(name: str, spec: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a TrainingRun."""
    return {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": {"name": name},
        "spec": spec,
    }


def notes_of(name: str) -> str:
    """Return the folder where a run of make_counting notes times."""
    return f"{NOTES}/{name}"


@dataclass(frozen=True)
class Runs:
    """TrainingRuns of an installed bundle."""

    bundle: Bundle
    release: str

    def give_code(self, root: Path, files: Iterable[Path], to: str = CODE) -> None:
        """Put files of a folder on the storage, as a .zip."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as writer:
            for file in sorted(files):
                # Ray takes a .zip whose only entry is one folder.
                writer.write(file, f"code/{file.relative_to(root)}")
        text = base64.b64encode(archive.getvalue()).decode()
        self.in_head("python", "-c", _WRITE, to, stdin=text)

    def give_folder(self, folder: Path, name: str) -> None:
        """Put a folder on the storage under a name that specs take for it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as writer:
            writer.add(folder, name)
        text = base64.b64encode(packed.getvalue()).decode()
        self.in_head("python", "-c", _UNPACK, STORAGE, stdin=text)

    def apply(self, run: dict[str, JsonValue]) -> None:
        """Apply a run."""
        self.bundle.kubectl("apply", "-f", "-", stdin=json.dumps(run))

    def forget_all(self) -> None:
        """Delete all runs, and what those of make_counting noted."""
        self.bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
        self.in_head("rm", "-rf", NOTES)

    def status(self, name: str) -> TrainingRunStatus:
        """Return how a run does."""
        found = json.loads(self.bundle.kubectl("get", "trun", name, "-ojson"))
        return TrainingRunStatus.model_validate(found.get("status") or {})

    def patch(self, name: str, **spec: JsonValue) -> None:
        """Change fields of a run's spec."""
        patch = json.dumps({"spec": spec})
        self.bundle.kubectl("patch", "trun", name, "--type=merge", f"--patch={patch}")

    def wait_for(self, condition: str, name: str, minutes: int = 5) -> None:
        """Wait as users do."""
        self.bundle.kubectl(
            "wait", f"--for=condition={condition}", f"trun/{name}", f"--timeout={minutes}m"
        )

    def wait_for_step(self, name: str, step: int, seconds: float = 180) -> None:
        """Wait until a run has a checkpoint of that step or a later one."""

        def is_there() -> bool:
            kept = self.status(name).checkpoint
            return kept is not None and (kept.step or 0) >= step

        assert wait_for(is_there, seconds), self.status(name).model_dump_json(indent=1)

    def in_head(self, *command: str, stdin: str | None = None) -> str:
        """Return what a command printed in the head of the shared cluster."""
        flags = ("-i",) if stdin else ()
        to = ("exec", *flags, self.head(), "-c", "ray-head", "--")
        return self.bundle.kubectl(*to, *command, stdin=stdin)

    def read(self, path: str) -> str:
        """Return a file of the storage."""
        return self.in_head("cat", path)

    def result(self, name: str) -> ResultRecord:
        """Return what a finished run left."""
        result = self.status(name).result
        assert result, f"{name} has no result"
        return ResultRecord.model_validate_json(self.read(result.path))

    def claims(self, name: str) -> list[str]:
        """Return the attempts of a finished run that had a driver, each claimed by one alone."""
        result = self.status(name).result
        assert result, f"{name} has no result"
        folder = result.path.rpartition("/")[0]
        listed = self.in_head("find", f"{folder}/attempts", "-name", "claim").split()
        return sorted(path.split("/")[-2] for path in listed)

    def clusters(self) -> list[str]:
        """Return the names of all RayClusters."""
        listed = self.bundle.kubectl("get", "raycluster", "-oname").split()
        return [name.partition("/")[2] for name in listed]

    def starts(self, name: str) -> list[int]:
        """Return the steps that were done when a function of make_counting began, each time."""
        return [int(line) for line in self.read(f"{notes_of(name)}/starts").split()]

    def head(self) -> str:
        """Return the name of the head Pod of the shared cluster."""
        return self.bundle.ready_pod("headgroup", self.release)

    def kill_pod(self, name: str) -> None:
        """Have a Pod end at once, without a word to what runs in it."""
        now = ("--grace-period=0", "--force", "--wait=false")
        self.bundle.kubectl("delete", "pod", name, *now)

    def scale_controller(self, replicas: int) -> None:
        """Send the controller away, or bring it back."""
        deployment = f"deployment/{self.release}-controller"
        self.bundle.kubectl("scale", deployment, f"--replicas={replicas}")
        self.bundle.kubectl("rollout", "status", deployment, "--timeout=3m")
        if not replicas:
            gone = ("--for=delete", "-lapp.kubernetes.io/component=controller")
            self.bundle.kubectl("wait", "pod", *gone, "--timeout=3m")

    @contextmanager
    def watch(self, name: str) -> Iterator["Watch"]:
        """Run `kubectl get trun NAME -w` and keep its lines."""
        words = ("--namespace", self.bundle.namespace, "get", "trun", name, "-w")
        with self.bundle.cluster.start("kubectl", *words) as process:
            assert process.stdout
            watch = Watch()
            reader = threading.Thread(target=watch.read, args=(process.stdout,))
            reader.start()
            try:
                yield watch
            finally:
                process.terminate()
                reader.join()


@dataclass
class Watch:
    """Lines of a kubectl that goes on, and when each came, seconds since 1970."""

    lines: list[tuple[float, str]] = field(default_factory=list)

    def read(self, stream: IO[str]) -> None:
        """Read to the end."""
        for line in stream:
            self.lines.append((time.time(), line.rstrip()))

    def steps(self) -> list[tuple[float, int]]:
        """Return each new value of the column STEP, the second fraction of a line."""
        seen: list[tuple[float, int]] = []
        for at, line in self.lines:
            fractions = _FRACTION.findall(line)
            if len(fractions) < 2:
                continue
            step = int(fractions[1][0])
            if not seen or seen[-1][1] != step:
                seen.append((at, step))
        return seen
