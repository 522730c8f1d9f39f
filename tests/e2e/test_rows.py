"""Rows on Pods: each comes once an epoch whatever is killed, made where data belongs."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.data import sample_functions
from tests.app.data.losses import ROWS, Way, undisturbed
from tests.e2e.bundle import RELEASE
from tests.e2e.numbered_runs import (
    WIDENED,
    give_rows,
    make_numbered,
    read_lines,
    read_of,
    steps_of,
    that_count,
)
from tests.e2e.ran import nodes_of, tasks_of
from tests.e2e.runs import Runs

# The first test waits for the node and for the images on it.
pytestmark = pytest.mark.timeout(1800)
FORMATS = ("webdataset", "parquet", "json", "tfrecords", "numpy")
# Of one CPU: reading an epoch takes a little longer than the training on it.
SECONDS_PER_STEP, SECONDS_PER_ROW = 0.7, 0.025
# Steps that lie behind a checkpoint when a Pod is killed.
STEPS_KEPT = 5


def worker(runs: Runs) -> str:
    return runs.bundle.ready_pod("gpu", RELEASE)


def head(runs: Runs) -> str:
    return runs.head()


def reader(runs: Runs) -> str:
    return runs.bundle.ready_pod("cpu", RELEASE)


@dataclass(frozen=True)
class Kill:
    """Whose Pod is killed, in the first epoch of which data, and what that costs.

    Args:
        victim: finds the Pod.
        way: of the data.
        outcomes: of the run's attempts.
        made_after: whether rows are made after the kill, of the first epoch where they are
            streamed, of both where they are kept; None where it hangs on how many of them were at
            the workers' node by then.
    """

    victim: Callable[[Runs], str]
    way: Way
    outcomes: tuple[str, ...] = ("Succeeded",)
    made_after: bool | None = True


AN_ATTEMPT = ("Infrastructure", "Succeeded")
# What workers and the head lose of streamed rows is in test_stops.py.
KILLS = {
    "worker-webdataset": Kill(worker, Way("webdataset", "none", "disk"), made_after=False),
    "head-parquet": Kill(head, Way("parquet", "blocks", "disk"), AN_ATTEMPT, made_after=False),
    "reader-tfrecords": Kill(reader, Way("tfrecords", "files", "objects")),
    "reader-numpy": Kill(reader, Way("numpy", "global", "streamed"), made_after=None),
}


@pytest.fixture(scope="module")
def folder(runs: Runs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbered rows of each format, in a folder here and on the storage."""
    folder = tmp_path_factory.mktemp("rows")
    give_rows(runs, folder, FORMATS)
    return folder


@pytest.mark.parametrize("name", KILLS)
def test_each_row_comes_once_an_epoch_whatever_pod_is_killed(
    runs: Runs, folder: Path, name: str
) -> None:
    kill = KILLS[name]
    runs.apply(
        make_numbered(
            name, kill.way, seconds_per_step=SECONDS_PER_STEP, seconds_per_row=SECONDS_PER_ROW
        )
    )
    runs.wait_for_step(name, STEPS_KEPT, seconds=400)
    with runs.bundle.times.measure(f"{name} killed, until Complete"):
        victim = kill.victim(runs)
        runs.kill_pod(victim)
        killed = time.time()
        runs.wait_for("Complete", name, minutes=10)

    noted = read_lines(runs, name)
    lines = that_count(noted)
    for epoch in (0, 1):
        steps = steps_of(lines, epoch)
        assert sorted(number for step in steps for number, _ in step) == list(range(ROWS))
        assert steps == [sorted(step) for step in undisturbed(kill.way, folder, epoch, seed=0)]
    first = [line for line in lines if line.epoch == 0]
    assert first[-1].at > killed, "it was killed too late: nothing was shown"
    # What is streamed is made once an epoch in any case, and what is kept is once.
    once = first if kill.way.cache == "streamed" else lines
    made = max(at for line in once for at in line.made)
    assert kill.made_after in (made > killed, None)
    # Whoever trains begins again at a checkpoint, or is left alone.
    assert (max(line.done for line in lines) >= STEPS_KEPT) == (kill.victim is not reader)
    status = runs.status(name)
    assert tuple(attempt.outcome for attempt in status.attempts) == kill.outcomes
    assert runs.claims(name) == [str(number) for number, _ in enumerate(kill.outcomes, 1)]
    assert victim not in (*runs.bundle.ready_pods("gpu"), *runs.bundle.ready_pods("cpu"))


# Rows that go into groups of others, which are made by tasks of their own.
GROUPED: JsonValue = {
    "read": read_of("parquet"),
    "transforms": [
        WIDENED,
        {"use": f"{sample_functions.__name__}:with_users", "options": {"as_text": False}},
        {
            "use": f"{sample_functions.__name__}:crumbled",
            "kind": "groups",
            "by": ["user"],
            "orderBy": ["when"],
        },
    ],
    "cache": "objects",
}


def test_nodes_of_the_data_s_group_alone_read_transform_group_and_sort(
    runs: Runs, folder: Path
) -> None:
    sorted_rows = Way("json", "global", "streamed")
    runs.apply(
        make_numbered("placed", sorted_rows, seconds_per_step=0, seconds_per_row=0, grouped=GROUPED)
    )
    runs.wait_for("Complete", "placed")
    (attempt,) = runs.status("placed").attempts
    with runs.bundle.dashboard(RELEASE) as dashboard:
        nodes, ran = nodes_of(dashboard), tasks_of(dashboard, attempt.job_id)
    lines = read_lines(runs, "placed")
    assert {nodes.group_of(number) for line in lines for number in line.node} == {"cpu"}
    tasks = {(task.name, task.group) for task in ran if task.kind == "NORMAL_TASK"}
    assert {group for _, group in tasks} == {"cpu"}, ran
    # What reads, transforms and deals out; what groups and sorts.
    assert {name for name, _ in tasks} == {"_map_task", "_shuffle_map_task", "_shuffle_reduce_task"}
    workers = {task.group for task in ran if task.name.startswith("RayTrainWorker.")}
    assert workers == {"gpu"}
