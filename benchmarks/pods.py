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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.measure import Figure, Sample, Samples, Target, in_turn, options, publish
from benchmarks.stages import watch_stages
from hack.cluster.failure import ClusterError
from tests.e2e.bundle import prepare_bundle
from tests.e2e.running import ROOT, bring_up, take_down, wait_for
from tests.e2e.runs import STORAGE, Runs, make_run, notes_of
from tests.e2e.times import Times

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

CLUSTER = "benchmark"
RELEASE = "trainshed"
CODE = f"{STORAGE}/code/benchmarks.zip"
PAUSE_SECONDS, EPOCHS = 0.1, 60
STEPS_BEFORE_A_LOSS = 40
PATIENCE_SECONDS = 400
# Median and worst that it should take, in seconds.
LOSSES = {
    "worker": ("worker's Pod killed", 10, 15),
    "head": ("head Pod killed", 28, 40),
    "container": ("head container killed", 28, 40),
}
# A cluster of one's own takes minutes to make and to take away.
OWN_REPEATS = 3
STAGES = {
    "Said": "until `kubectl get` says so",
    "Gone": "until the last Pod that goes is gone",
    "Ready": "until all Pods are ready again",
}
# Each look costs a fifth of a second of a core; when a step was done is in what is looked at.
POLL_SECONDS = 5.0
# Ends a container as the kernel does that runs out of memory: its first process last of all.
KILL_ALL = ("bash", "-c", "kill -KILL -1")
# A Pod that is gone at once, as that of a lost node.
NOW = ("--grace-period=0", "--force", "--wait=false")


class Side(Protocol):
    """A way to run the program on the cluster."""

    def apply(self, runs: Runs, name: str, *, own: bool) -> None:
        """Start it on the shared cluster, or on one of its own."""

    def delete(self, runs: Runs, name: str) -> None:
        """End it."""


class Plain:
    """A RayJob."""

    def apply(self, runs: Runs, name: str, *, own: bool) -> None:
        """Create it; a cluster of its own is like the shared one."""
        words = (
            f"python -m benchmarks.plain.ray_pods --data {STORAGE}/digits/train --name {name}"
            f" --notes {notes_of(name)} --storage {STORAGE}/plain"
            f" --epochs {EPOCHS} --pause {PAUSE_SECONDS}"
        )
        spec: dict[str, JsonValue] = {
            "entrypoint": words,
            "runtimeEnvYAML": json.dumps({"working_dir": f"file://{CODE}"}),
            "submissionMode": "HTTPMode",
            "shutdownAfterJobFinishes": own,
        }
        if own:
            shared = json.loads(runs.bundle.kubectl("get", "raycluster", RELEASE, "-ojson"))
            # KubeRay refuses it where a RayJob makes the cluster.
            shared["spec"].pop("upgradeStrategy", None)
            spec["rayClusterSpec"] = shared["spec"]
        else:
            spec["clusterSelector"] = {"ray.io/cluster": RELEASE}
        runs.apply(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayJob",
                "metadata": {"name": name},
                "spec": spec,
            }
        )

    def delete(self, runs: Runs, name: str) -> None:
        """Delete it, and with it what it runs."""
        runs.bundle.kubectl("delete", "rayjob", name, "--timeout=3m")


class Ours:
    """A TrainingRun."""

    def apply(self, runs: Runs, name: str, *, own: bool) -> None:
        """Create it."""
        read: JsonValue = {"format": "parquet", "path": "digits/train", "columns": ["label"]}
        spec: dict[str, JsonValue] = {
            "train": "benchmarks.ours.pods:train",
            "code": {"workingDir": f"file://{CODE}"},
            "config": {"notes": notes_of(name), "pause": PAUSE_SECONDS},
            "epochs": EPOCHS,
            "batchSize": 64,
            "data": {"cpus": 1, "datasets": {"train": {"read": read}}},
            "workers": {"count": 2, "resources": {"cpu": 1}},
            "checkpoint": {"everySteps": 10},
        }
        if own:
            spec["cluster"] = {"dedicated": {}}
        runs.apply(make_run(name, spec))

    def delete(self, runs: Runs, name: str) -> None:
        """Delete it, and with it what it runs."""
        runs.bundle.kubectl("delete", "trun", name, "--timeout=3m")


@dataclass(frozen=True)
class Step:
    """A line of the program's notes."""

    number: int
    at: float
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
    given = options(__doc__)
    with runs_on(CLUSTER) as runs:
        warm_up(runs)
        sides: dict[str, Side] = {"plain RayJob": Plain(), "ours": Ours()}
        samples = in_turn({n: partial(measure, side, runs) for n, side in sides.items()}, given)
        few = replace(given, repeats=min(given.repeats, OWN_REPEATS))
        own = in_turn({n: partial(measure_own, side, runs) for n, side in sides.items()}, few)
    figures = compare(samples, "first", "apply until the first step, warm shared cluster", 10)
    figures += compare(own, "own", "apply until the first step, cluster of its own", 30)
    for loss, (what, median, worst) in LOSSES.items():
        figures += compare(samples, loss, f"{what} until the next step", median)
        target = Target("worst", "<=", worst)
        figures.append(
            Figure(f"ours: {what}, the worst", "s", samples.of("ours", loss), None, target)
        )
        for side in sides:
            figures += [
                Figure(f"{side}: {what}, {stage}", "s", samples.of(side, f"{loss}{key}"))
                for key, stage in STAGES.items()
                if all(f"{loss}{key}" in sample for sample in samples.by_side[side])
            ]
            redone = samples.of(side, f"{loss}Redone")
            figures.append(Figure(f"{side}: {what}, done again", "steps", redone))
    both = {side: [*samples.by_side[side], *own.by_side[side]] for side in sides}
    publish("pods", figures, Samples(both), given)


def compare(samples: Samples, key: str, name: str, limit: float) -> list[Figure]:
    """Return a line for each side; ours has the limit, and the ratio to the other."""
    theirs, target = samples.of("plain RayJob", key), Target("value", "<=", limit)
    return [
        Figure(f"plain RayJob: {name}", "s", theirs),
        Figure(f"ours: {name}", "s", samples.of("ours", key), ("plain RayJob", theirs), target),
    ]


def warm_up(runs: Runs) -> None:
    """Run once and count nothing: the first job of a node reads all programs from its disk."""
    Plain().apply(runs, "first-of-all", own=False)
    wait_for_step(runs, "first-of-all", 1, after=0.0)
    Plain().delete(runs, "first-of-all")


def measure(side: Side, runs: Runs, _: Path) -> Sample:
    """Run once on the shared cluster, with all losses."""
    name = f"bench-{uuid.uuid4().hex[:6]}"
    applied = time.time()
    side.apply(runs, name, own=False)
    sample = {"first": wait_for_step(runs, name, 1, after=applied).at - applied}
    before = wait_for_step(runs, name, STEPS_BEFORE_A_LOSS, after=applied)
    sample |= lose(runs, name, before.process.partition("/")[0], "worker")
    for what in ("head", "container"):
        resumed = steps_until_now(runs, name)[-1]
        further = resumed.number + STEPS_BEFORE_A_LOSS
        wait_for_step(runs, name, further, after=resumed.at)
        sample |= lose(runs, name, runs.head(), what)
    side.delete(runs, name)
    runs.bundle.wait_for_ray(RELEASE)
    return sample


def measure_own(side: Side, runs: Runs, _: Path) -> Sample:
    """Run once on a cluster of its own, until the first step."""
    name, applied = f"own-{uuid.uuid4().hex[:6]}", time.time()
    side.apply(runs, name, own=True)
    first = wait_for_step(runs, name, 1, after=applied)
    side.delete(runs, name)
    gone = wait_for(lambda: len(runs.clusters()) == 1, PATIENCE_SECONDS)
    assert gone, runs.clusters()
    return {"own": first.at - applied}


def lose(runs: Runs, name: str, pod: str, what: str) -> Sample:
    """Kill a Pod or its container; return the seconds to the next step of new processes, those to
    each stage before it, and the steps redone."""
    known = {step.process for step in steps_until_now(runs, name)}
    with watch_stages(runs, name) as stages:
        pods = stages.ready()
        killed = time.time()
        if what == "container":
            # The command may go with all others.
            with contextlib.suppress(ClusterError):
                runs.bundle.kubectl("exec", pod, "-c", "ray-head", "--", *KILL_ALL)
        else:
            runs.bundle.kubectl("delete", "pod", pod, *NOW)
        following = wait_for_step(runs, name, 1, after=killed, besides=known)
        # With a head all of its workers go.
        goes = frozenset({pod}) if what == "worker" else pods
        told = {
            "Said": lambda: stages.phase_at("Restarting", killed),
            "Gone": lambda: stages.gone_at(goes),
            "Ready": lambda: stages.ready_at(len(goes), pods),
        }
        wait_for(lambda: told["Ready"]() is not None, PATIENCE_SECONDS)
        found = {key: told[key]() for key in STAGES}
        at = {f"{what}{key}": seen - killed for key, seen in found.items() if seen is not None}
    noted = steps_until_now(runs, name)
    last = max(step.number for step in noted if step.at < following.at)
    redone = float(last - following.number + 1)
    return at | {what: following.at - killed, f"{what}Redone": redone}


def wait_for_step(
    runs: Runs,
    name: str,
    number: int,
    *,
    after: float,
    besides: frozenset[str] | set[str] = frozenset(),
) -> Step:
    """Return the first step of that number or a later one, of processes that are none of those."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        for step in read_steps(runs, name):
            if step.number >= number and step.at > after and step.process not in besides:
                return step
        time.sleep(POLL_SECONDS)
    raise AssertionError(
        f"{name} has not done step {number}:\n{runs.bundle.cluster.diagnose(runs.bundle.namespace)}"
    )


def steps_until_now(runs: Runs, name: str) -> list[Step]:
    """Return all that the program has noted; it has noted something, whatever happens just now."""
    found: list[Step] = []

    def is_read() -> bool:
        found[:] = read_steps(runs, name)
        return bool(found)

    assert wait_for(is_read, PATIENCE_SECONDS, pause_seconds=POLL_SECONDS), name
    return found


def read_steps(runs: Runs, name: str) -> list[Step]:
    """Return all that the program has noted; nothing while there is no head to read it."""
    heads = runs.bundle.ready_pods("headgroup", runs.release)
    if not heads:
        return []
    show = ("sh", "-c", f"cat {notes_of(name)}/steps.jsonl 2>/dev/null || true")
    # The head may go while it reads.
    with contextlib.suppress(ClusterError):
        text = runs.bundle.kubectl("exec", heads[0], "-c", "ray-head", "--", *show)
        whole, _, _ = text.rpartition("\n")  # the last line may be half written
        lines = [json.loads(line) for line in whole.splitlines()]
        return [Step(line["step"], line["time"], line["process"]) for line in lines]
    return []


if __name__ == "__main__":
    main()
