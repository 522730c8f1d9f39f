"""A cluster that is busy for two hours: counts the workers that are ended without a reason.

All cores are kept busy. Every two minutes a disturbance happens that must end no worker: DNS
restarts, DNS stops for a minute, the API server restarts, or the head is at its memory limit for a
minute. A TrainingRun with two workers trains. Needs a cluster of processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

from benchmarks.measure import Figure, Samples, Target, console, options, publish
from benchmarks.pods import CODE, runs_on
from benchmarks.processes import busy_cores
from hack.cluster.bare import BareCluster
from hack.cluster.control_plane import answers, apiserver_command
from hack.cluster.failure import ClusterError
from hack.cluster.processes import Launcher, Started
from tests.e2e.running import RunningCluster, wait_for
from tests.e2e.runs import Runs, make_run, notes_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

CLUSTER, RUN = "busy", "long"
SECONDS, QUICK_SECONDS = 7_200.0, 600.0
SECONDS_BETWEEN = 120.0
# With both cores busy it takes half a minute to come up.
MOST_STARTS, SECONDS_TO_ANSWER = 3, 180.0
# Ray ends its own from 95 % on; what is written fills the rest, which the kernel takes back.
FILL = """
import pathlib, time
def read(*names):
    for name in names:
        file = pathlib.Path("/sys/fs/cgroup", name)
        if file.exists():
            return int(file.read_text())
limit = read("memory.max", "memory/memory.limit_in_bytes")
used = read("memory.current", "memory/memory.usage_in_bytes")
taken = bytearray(max(0, int(0.93 * limit) - used))
taken[::4096] = b"x" * len(taken[::4096])
with open("/tmp/fill", "wb") as file:
    for _ in range(512):
        file.write(bytes(1 << 20))
time.sleep(60)
pathlib.Path("/tmp/fill").unlink()
"""


def main() -> None:
    """Keep a cluster busy, and count."""
    given = options(__doc__)
    with runs_on(CLUSTER) as runs:
        sample = keep_busy(runs, QUICK_SECONDS if given.quick else SECONDS)
    figures = [
        Figure("workers ended", "", [sample["ended"]], target=Target("value", "<=", 0)),
        Figure(
            "losses that the run told of", "", [sample["lost"]], target=Target("value", "<=", 0)
        ),
        Figure("attempts", "", [sample["attempts"]], target=Target("value", "<=", 1)),
        Figure("troubles", "", [sample["troubles"]]),
        Figure("steps meanwhile", "", [sample["steps"]]),
    ]
    publish("busy", figures, Samples({"ours": [sample]}), given)


def keep_busy(runs: Runs, seconds: float) -> dict[str, float]:
    """Have a run train for so long while things go wrong; return what it lost."""
    runs.apply(long_run())
    runs.wait_for_step(RUN, 1)
    before, begun = containers(runs), step_of(runs)
    troubles: list[Callable[[Runs], None]] = [
        restart_dns, take_dns_away, restart_api_server, fill_head
    ]  # fmt: skip
    end, count = time.monotonic() + seconds, 0
    with busy_cores(os.cpu_count() or 1):
        for trouble in cycle(troubles):
            if time.monotonic() > end:
                break
            trouble(runs)
            count += 1
            left = before.items() - containers(runs).items()
            told = f"{count} {trouble.__name__}: step {step_of(runs)}, {len(left)} are gone {left}"
            console.print(f"[dim]{time.strftime('%H:%M:%S')} {told}[/dim]")
            time.sleep(SECONDS_BETWEEN)
    status = runs.status(RUN)
    warned = runs.bundle.kubectl("get", "events", "--field-selector=reason=Restarting", "-oname")
    return {
        "ended": float(len(before.items() - containers(runs).items())),
        "lost": float(len(warned.split())),
        "attempts": float(status.attempt),
        "troubles": float(count),
        "steps": float(step_of(runs) - begun),
    }


def long_run() -> dict[str, JsonValue]:
    """Return a run of two workers that ends by no means within the time."""
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.pods:train",
        "code": {"workingDir": f"file://{CODE}"},
        "config": {"notes": notes_of(RUN), "pause": 0.5},
        "epochs": 10_000,
        "batchSize": 64,
        "data": {
            "cpus": 1,
            "datasets": {
                "train": {
                    "read": {"format": "parquet", "path": "digits/train", "columns": ["label"]}
                }
            },
        },
        "workers": {"count": 2, "resources": {"cpu": 1}},
        "checkpoint": {"everySteps": 100},
    }
    return make_run(RUN, spec)


def containers(runs: Runs) -> dict[str, str]:
    """Return the worker Pods of the cluster, and what tells one container of each from the next."""
    label = f"-lray.io/cluster={runs.release},ray.io/node-type=worker"
    pods = json.loads(runs.bundle.kubectl("get", "pods", label, "-ojson"))["items"]
    return {
        pod["metadata"]["name"]: str([c["containerID"] for c in pod["status"]["containerStatuses"]])
        for pod in pods
    }


def step_of(runs: Runs) -> int:
    """Return how far the run is."""
    progress = runs.status(RUN).progress
    return (progress.step if progress else None) or 0


def restart_dns(runs: Runs) -> None:
    """Have another Pod answer for names."""
    system = ("--namespace", "kube-system")
    runs.bundle.cluster.kubectl(*system, "rollout", "restart", "deployment/coredns")
    runs.bundle.cluster.kubectl(*system, "rollout", "status", "deployment/coredns")


def take_dns_away(runs: Runs) -> None:
    """Have nobody answer for names for a minute."""
    scale = ("--namespace", "kube-system", "scale", "deployment/coredns")
    runs.bundle.cluster.kubectl(*scale, "--replicas=0")
    time.sleep(60)
    runs.bundle.cluster.kubectl(*scale, "--replicas=1")


def restart_api_server(runs: Runs) -> None:
    """Kill it and start it again."""
    cluster = runs.bundle.cluster
    held = held_by(cluster)
    inside = held.enclosure.inside()
    subprocess.run([*inside, "pkill", "-KILL", "kube-apiserver"], check=True)
    launcher = Launcher(held.folder / "logs", inside, held.enclosure.environment)
    said = ""
    for _ in range(MOST_STARTS):
        server = launcher.start("kube-apiserver-again", apiserver_command(held.site))
        # One that starts while the other one still lets go of the port ends at once.
        wait_for(partial(is_decided, held, server), SECONDS_TO_ANSWER)
        if server.is_running() and answers(held.client, "get", "--raw=/readyz"):
            return
        said = server.last_words()
        server.stop()
    raise ClusterError(f"the API server did not come back: {said}")


def is_decided(held: BareCluster, server: Started) -> bool:
    """Say whether an API server answers, or never will."""
    return not server.is_running() or answers(held.client, "get", "--raw=/readyz")


def held_by(cluster: RunningCluster) -> BareCluster:
    """Return the cluster as processes."""
    if not isinstance(cluster.cluster, BareCluster):
        raise ClusterError("the API server is restarted on a cluster of processes alone")
    return cluster.cluster


def fill_head(runs: Runs) -> None:
    """Keep the head at its memory limit for a minute."""
    runs.in_head("python", "-c", FILL)


if __name__ == "__main__":
    main()
