"""On real Pods: a TrainingRun and a plain RayJob, from their start through the loss of Pods.

Two workers, steps of 0.1 s on the digits, on a cluster of one node (docs/cluster.md). The plain
side is Ray Train and Ray Data as in their guides, with a checkpoint after each epoch of 22 steps;
ours writes one every 10 steps. The programs record the time of each step.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import uuid
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.measure import (
    Figure,
    Options,
    Sample,
    Samples,
    Target,
    parse_options,
    publish,
    run_sides,
)
from hack.cluster.failure import ClusterError
from tests.e2e.bundle import prepare_bundle
from tests.e2e.running import ROOT, bring_up, take_down, wait_for
from tests.e2e.runs import STORAGE, Runs, make_run, notes_of
from tests.e2e.times import Times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pydantic import JsonValue

    Cluster = Literal["shared", "dedicated"]
    # Returns a RayJob or a TrainingRun with this name.
    Side = Callable[[str, Cluster], dict[str, JsonValue]]

CLUSTER = "benchmark"
RELEASE = "trainshed"
CODE = f"{STORAGE}/code/benchmarks.zip"
PAUSE_SECONDS, EPOCHS = 0.1, 60
STEPS_BEFORE_LOSS = 40
TIMEOUT_SECONDS = 400
# Label, and targets of the median and the worst in seconds.
LOSSES = {
    "worker": ("worker's Pod killed", 10, 15),
    "head": ("head Pod killed", 28, 40),
    "container": ("head container killed", 28, 40),
}
# A dedicated cluster takes minutes to start and to delete.
DEDICATED_REPEATS = 3
# Reading the steps takes a fifth of a second of a core; they have their own times.
POLL_SECONDS = 5.0
# Ends a container as the kernel does when it is out of memory: its first process last.
KILL_ALL = ("bash", "-c", "kill -KILL -1")
# Deletes a Pod at once, like that of a lost node.
NOW = ("--grace-period=0", "--force", "--wait=false")


def make_rayjob(runs: Runs, name: str, cluster: Cluster) -> dict[str, JsonValue]:
    """Return a RayJob; its dedicated cluster is a copy of the shared one."""
    spec: dict[str, JsonValue] = {
        "entrypoint": (
            f"python -m benchmarks.plain.ray_pods --data {STORAGE}/digits/train --name {name}"
            f" --notes {notes_of(name)} --storage {STORAGE}/plain"
            f" --epochs {EPOCHS} --pause {PAUSE_SECONDS}"
        ),
        "runtimeEnvYAML": json.dumps({"working_dir": f"file://{CODE}"}),
        "submissionMode": "HTTPMode",
        "shutdownAfterJobFinishes": cluster == "dedicated",
    }
    if cluster == "dedicated":
        shared = json.loads(runs.bundle.kubectl("get", "raycluster", RELEASE, "-ojson"))["spec"]
        shared.pop("upgradeStrategy", None)  # KubeRay rejects it in a RayJob
        spec["rayClusterSpec"] = shared
    else:
        spec["clusterSelector"] = {"ray.io/cluster": RELEASE}
    return make_run(name, spec) | {"apiVersion": "ray.io/v1", "kind": "RayJob"}


def make_trainingrun(
    name: str,
    cluster: Cluster = "shared",
    *,
    pause: float = PAUSE_SECONDS,
    epochs: int = EPOCHS,
    every_steps: int = 10,
) -> dict[str, JsonValue]:
    """Return a TrainingRun."""
    read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["label"]}
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.pods:train",
        "code": {"workingDir": f"file://{CODE}"},
        "config": {"notes": notes_of(name), "pause": pause},
        "epochs": epochs,
        "batchSize": 64,
        "data": {"cpus": 1, "datasets": {"train": {"read": read}}},
        "workers": {"count": 2, "resources": {"cpu": 1}},
        "checkpoint": {"everySteps": every_steps},
    }
    return make_run(name, spec | ({"cluster": {"dedicated": {}}} if cluster == "dedicated" else {}))


@dataclass(frozen=True)
class Step:
    """A step that a program recorded; `time` is in seconds since 1970."""

    step: int
    time: float
    process: str


@contextlib.contextmanager
def runs_on(name: str) -> Iterator[Runs]:
    """Start a cluster with the chart and the code of the benchmarks; delete it at the end."""
    cluster = bring_up(name)
    try:
        with tempfile.TemporaryDirectory() as folder:
            bundle = prepare_bundle(cluster, name, Path(folder), Times())
            bundle.install(RELEASE)
            bundle.wait_for_ray(RELEASE)
            bundle.wait_for_digits()
            runs = Runs(bundle, RELEASE)
            root = ROOT / "benchmarks"
            runs.give_code(ROOT, [*root.glob("*.py"), *root.glob("*/*.py")], CODE)
            yield runs
    finally:
        take_down(name)


def main() -> None:
    """Measure both sides."""
    options = parse_options(__doc__)
    few = Options(**vars(options) | {"repeats": min(options.repeats, DEDICATED_REPEATS)})
    with runs_on(CLUSTER) as runs:
        warm_up(runs)
        sides: dict[str, Side] = {
            "plain RayJob": partial(make_rayjob, runs),
            "ours": make_trainingrun,
        }
        samples = run_sides(
            {name: partial(measure, side, runs) for name, side in sides.items()}, options
        )
        dedicated = run_sides(
            {name: partial(measure_dedicated, side, runs) for name, side in sides.items()}, few
        )
    figures = compare(samples, "first", "apply until the first step, warm shared cluster", 10)
    figures += compare(dedicated, "own", "apply until the first step, dedicated cluster", 30)
    for loss in LOSSES:
        figures += compare_loss(samples, loss)
    both = {side: [*samples.by_side[side], *dedicated.by_side[side]] for side in sides}
    publish("pods", figures, Samples(both), options)


def compare(samples: Samples, key: str, name: str, limit: float) -> list[Figure]:
    """Return a figure of each side; ours has a limit, and the ratio to the other."""
    plain, target = samples.of("plain RayJob", key), Target("value", "<=", limit)
    return [
        Figure(f"plain RayJob: {name}", "s", plain),
        Figure(f"ours: {name}", "s", samples.of("ours", key), ("plain RayJob", plain), target),
    ]


def compare_loss(samples: Samples, loss: str) -> list[Figure]:
    """Return the figures of a loss, with the repeated steps."""
    name, median, worst = LOSSES[loss]
    figures = compare(samples, loss, f"{name} until the next step", median)
    target = Target("worst", "<=", worst)
    figures.append(Figure(f"ours: {name}, worst", "s", samples.of("ours", loss), None, target))
    figures += [
        Figure(f"{side}: {name}, repeated", "steps", samples.of(side, f"{loss}Redone"))
        for side in samples.by_side
    ]
    return figures


def warm_up(runs: Runs) -> None:
    """Run once: the first job of a node reads all programs from its disk."""
    job = make_rayjob(runs, "warm-up", "shared")
    runs.apply(job)
    wait_for_steps(runs, "warm-up", 1)
    delete(runs, job)


def measure(side: Side, runs: Runs, _: Path) -> Sample:
    """Run once on the shared cluster, with all losses."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    applied = time.time()
    run = side(name, "shared")
    runs.apply(run)
    first = wait_for_steps(runs, name, 1, after=applied)[0]
    before = wait_for_steps(runs, name, STEPS_BEFORE_LOSS, after=applied)[0]
    sample = {"first": first.time - applied}
    sample |= lose(runs, name, before.process.partition("/")[0], "worker")
    for loss in ("head", "container"):
        resumed = wait_for_steps(runs, name)[-1]
        wait_for_steps(runs, name, resumed.step + STEPS_BEFORE_LOSS, after=resumed.time)
        sample |= lose(runs, name, runs.head(), loss)
    delete(runs, run)
    runs.bundle.wait_for_ray(RELEASE)
    return sample


def measure_dedicated(side: Side, runs: Runs, _: Path) -> Sample:
    """Run once on a dedicated cluster, until the first step."""
    name, applied = f"own-{uuid.uuid4().hex[:6]}", time.time()
    run = side(name, "dedicated")
    runs.apply(run)
    first = wait_for_steps(runs, name, 1, after=applied)[0]
    delete(runs, run)
    assert wait_for(lambda: len(runs.clusters()) == 1, TIMEOUT_SECONDS), runs.clusters()
    return {"own": first.time - applied}


def delete(runs: Runs, run: dict[str, JsonValue]) -> None:
    """Delete a RayJob or a TrainingRun, and wait until it has stopped."""
    runs.bundle.kubectl("delete", "-f", "-", "--timeout=3m", stdin=json.dumps(run))


def lose(runs: Runs, name: str, pod: str, loss: str) -> Sample:
    """Kill a Pod or its container; return the seconds until the next step of a new process, and the
    number of repeated steps."""
    known = {step.process for step in wait_for_steps(runs, name)}
    ready = count_ready_pods(runs)
    killed = time.time()
    if loss == "container":
        with contextlib.suppress(ClusterError):  # this command may be killed too
            runs.bundle.kubectl("exec", pod, "-c", "ray-head", "--", *KILL_ALL)
    else:
        runs.bundle.kubectl("delete", "pod", pod, *NOW)
    following = wait_for_steps(runs, name, 1, after=killed, besides=known)[0]
    wait_for(lambda: count_ready_pods(runs) >= ready, TIMEOUT_SECONDS)
    last = max(s.step for s in wait_for_steps(runs, name) if s.time < following.time)
    repeated = last - following.step + 1
    return {loss: following.time - killed, f"{loss}Redone": float(repeated)}


def count_ready_pods(runs: Runs) -> int:
    """Return the number of ready Pods of the shared cluster."""
    ready = '-ojsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
    return runs.bundle.kubectl("get", "pods", f"-lray.io/cluster={RELEASE}", ready).count("True")


def wait_for_steps(
    runs: Runs, name: str, number: int = 0, *, after: float = 0.0, besides: Collection[str] = ()
) -> list[Step]:
    """Return the steps from `number` on, after a time, of processes not in `besides`, once there
    is one."""
    found: list[Step] = []

    def has_steps() -> bool:
        found[:] = [
            step
            for step in read_steps(runs, name)
            if step.step >= number and step.time > after and step.process not in besides
        ]
        return bool(found)

    assert wait_for(has_steps, TIMEOUT_SECONDS, pause_seconds=POLL_SECONDS), (
        f"{name} has not reached step {number}:\n"
        f"{runs.bundle.cluster.diagnose(runs.bundle.namespace)}"
    )
    return found


def read_steps(runs: Runs, name: str) -> list[Step]:
    """Return all recorded steps; none while the head, which reads them, is not ready."""
    heads = runs.bundle.ready_pods("headgroup", runs.release)
    if not heads:
        return []
    show = ("sh", "-c", f"cat {notes_of(name)}/steps.jsonl 2>/dev/null || true")
    with contextlib.suppress(ClusterError):  # the head may be deleted now
        text = runs.bundle.kubectl("exec", heads[0], "-c", "ray-head", "--", *show)
        complete, _, _ = text.rpartition("\n")  # the last line may be incomplete
        return [Step(**json.loads(line)) for line in complete.splitlines()]
    return []
