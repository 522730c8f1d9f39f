"""Whether there is a cluster to join is told by RAY_ADDRESS, unless it is a dashboard's."""

import subprocess
import sys

import pytest

from tests.builders import make_document
from trainshed.ray_train.ray_cluster import in_cluster

ADDRESSES: dict[str, tuple[str | None, bool]] = {
    "none": (None, False),
    "an empty one": ("", False),
    "that of a head": ("10.0.0.1:6379", True),
    "whatever is around": ("auto", True),
    "that of a dashboard": ("http://localhost:8265", False),
    "that of a dashboard behind a proxy": ("https://ray.example.com", False),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_a_run_joins_a_cluster_that_can_be_joined(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, want = ADDRESSES[case]
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)

    assert in_cluster() is want


# A process of its own: what is shown is how it ends.
LEAVES = """
import atexit, threading, time
from trainshed.ray_train.ray_cluster import AT_WORK, leave
atexit.register(print, "in order")
threading.Thread(target=time.sleep, args=(60,), name={name}, daemon=True).start()
print("said")
leave(7)
"""
THREADS = {
    "at once where a thread still asks Ray": ("AT_WORK", ["said"]),
    "in order where none does": ("'other'", ["said", "in order"]),
}


@pytest.mark.parametrize("how", THREADS)
def test_a_driver_leaves_a_cluster(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, want = THREADS[how]
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    left = subprocess.run(
        [sys.executable, "-c", LEAVES.format(name=name)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert (left.returncode, left.stdout.splitlines()) == (7, want)


# Ray's own function starts a process; a whole Ray takes half a minute.
STARTS = """
import os, sys, ray
from ray._private import services
from trainshed.ray_train import ray_cluster
from trainshed_api.v1alpha1 import TrainingRunSpec

def init(**_):
    words = [sys.executable, "-c", "import os; print(os.getpgrp())"]
    services.start_ray_process(words, "raylet", fate_share=True).process.wait(60)

ray.init = init
print(os.getpgrp(), flush=True)
ray_cluster.start(TrainingRunSpec.model_validate({spec}))
"""


def test_a_signal_to_the_group_of_a_run_does_not_reach_its_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    spec = make_document()["spec"]
    started = subprocess.run(
        [sys.executable, "-c", STARTS.format(spec=spec)],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    group, rays = started.stdout.split()
    assert rays != group
