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

from benchmarks.measure import Figure, Samples, Target, console, parse_options, publish
from benchmarks.pods import make_trainingrun, runs_on
from benchmarks.processes import busy_cores
from hack.cluster.bare import BareCluster
from hack.cluster.control_plane import answers, apiserver_command
from hack.cluster.failure import ClusterError
from hack.cluster.processes import Launcher
from tests.e2e.running import wait_for

if TYPE_CHECKING:
    from hack.cluster.processes import Started
    from tests.e2e.runs import Runs

CLUSTER, RUN = "busy", "long"
SECONDS, QUICK_SECONDS = 7_200.0, 600.0
SECONDS_BETWEEN = 120.0
DNS = ("--namespace", "kube-system")
# With all cores busy the API server takes half a minute to start.
MAX_STARTS, START_SECONDS = 3, 180.0
# Ray ends its own processes from 95 % on; the rest is page cache, which the kernel reclaims.
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
    """Keep a cluster busy and count."""
    options = parse_options(__doc__)
    with runs_on(CLUSTER) as runs:
        sample = disturb(runs, QUICK_SECONDS if options.quick else SECONDS)
    targets = {
        "ended": ("workers ended", Target("value", "<=", 0)),
        "lost": ("losses that the run reported", Target("value", "<=", 0)),
        "attempts": ("attempts", Target("value", "<=", 1)),
        "troubles": ("disturbances", None),
        "steps": ("steps", None),
    }
    figures = [
        Figure(name, "", [sample[key]], target=target) for key, (name, target) in targets.items()
    ]
    publish("busy", figures, Samples({"ours": [sample]}), options)


def disturb(runs: Runs, seconds: float) -> dict[str, float]:
    """Train for this time with disturbances; return what the run lost."""
    runs.apply(make_trainingrun(RUN, pause=0.5, epochs=10_000, every_steps=100))
    runs.wait_for_step(RUN, 1)
    before, first_step = worker_containers(runs), last_step(runs)
    end, count = time.monotonic() + seconds, 0
    with busy_cores(os.cpu_count() or 1):
        for disturbance in cycle([restart_dns, stop_dns, restart_api_server, fill_head]):
            if time.monotonic() > end:
                break
            disturbance(runs)
            count += 1
            lost = before.items() - worker_containers(runs).items()
            text = (
                f"{count} {disturbance.__name__}: step {last_step(runs)}, {len(lost)} lost {lost}"
            )
            console.print(f"[dim]{time.strftime('%H:%M:%S')} {text}[/dim]")
            time.sleep(SECONDS_BETWEEN)
    events = runs.bundle.kubectl("get", "events", "--field-selector=reason=Restarting", "-oname")
    return {
        "ended": float(len(before.items() - worker_containers(runs).items())),
        "lost": float(len(events.split())),
        "attempts": float(runs.status(RUN).attempt),
        "troubles": float(count),
        "steps": float(last_step(runs) - first_step),
    }


def worker_containers(runs: Runs) -> dict[str, str]:
    """Return the IDs of the containers of each worker Pod, by its name."""
    label = f"-lray.io/cluster={runs.release},ray.io/node-type=worker"
    pods = json.loads(runs.bundle.kubectl("get", "pods", label, "-ojson"))["items"]
    return {
        pod["metadata"]["name"]: str([c["containerID"] for c in pod["status"]["containerStatuses"]])
        for pod in pods
    }


def last_step(runs: Runs) -> int:
    """Return the step of the run."""
    progress = runs.status(RUN).progress
    return (progress.step if progress else None) or 0


def restart_dns(runs: Runs) -> None:
    """Replace the Pods of DNS."""
    runs.bundle.cluster.kubectl(*DNS, "rollout", "restart", "deployment/coredns")
    runs.bundle.cluster.kubectl(*DNS, "rollout", "status", "deployment/coredns")


def stop_dns(runs: Runs) -> None:
    """Stop DNS for a minute."""
    runs.bundle.cluster.kubectl(*DNS, "scale", "deployment/coredns", "--replicas=0")
    time.sleep(60)
    runs.bundle.cluster.kubectl(*DNS, "scale", "deployment/coredns", "--replicas=1")


def restart_api_server(runs: Runs) -> None:
    """Kill the API server and start it again."""
    cluster = runs.bundle.cluster.cluster
    if not isinstance(cluster, BareCluster):
        raise ClusterError("cluster: got one in containers; expected a cluster of processes")
    inside = cluster.enclosure.inside()
    subprocess.run([*inside, "pkill", "-KILL", "kube-apiserver"], check=True)
    launcher = Launcher(cluster.folder / "logs", inside, cluster.enclosure.environment)
    output = ""
    for _ in range(MAX_STARTS):
        server = launcher.start("kube-apiserver-again", apiserver_command(cluster.site))
        # It ends at once while the killed one still has the port.
        wait_for(partial(is_ready_or_ended, cluster, server), START_SECONDS)
        if server.is_running() and answers(cluster.client, "get", "--raw=/readyz"):
            return
        output = server.last_words()
        server.stop()
    raise ClusterError(f"the API server did not start: {output}")


def is_ready_or_ended(cluster: BareCluster, server: Started) -> bool:
    """Return whether an API server is ready or has ended."""
    return not server.is_running() or answers(cluster.client, "get", "--raw=/readyz")


def fill_head(runs: Runs) -> None:
    """Keep the head at its memory limit for a minute."""
    runs.in_head("python", "-c", FILL)
