"""Runs are held against the nodes of the cluster that they join."""

from dataclasses import dataclass, field

import pytest
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_run
from trainshed.planning.cluster_capacity import (
    ClusterNodes,
    Node,
    check_capacity,
    cluster_memory,
    group_label,
    worker_label,
)
from trainshed_api.data import DataSpec
from trainshed_api.errors import SpecError
from trainshed_api.names import NODE_GROUP_LABEL

GIB = 2**30


def make_node(group: str = "", free: float | None = None, **total: float) -> Node:
    """Return a node, all of it free unless `free` says how many of its CPUs."""
    labels = {NODE_GROUP_LABEL: group} if group else {}
    return Node(labels, total, total if free is None else {**total, "CPU": free})


HEAD = make_node(CPU=0, memory=8 * GIB)
CPUS = make_node("cpu", CPU=4, memory=8 * GIB, object_store_memory=2 * GIB)
GPUS = make_node("gpu", CPU=8, GPU=2, memory=32 * GIB, object_store_memory=8 * GIB)
LAPTOP = make_node(CPU=4, memory=8 * GIB)


@dataclass(frozen=True)
class Case:
    """A cluster, workers for it, and what is said of them."""

    nodes: list[Node]
    workers: dict[str, JsonValue]
    data_cpus: int = 2
    want_refused: str = ""
    want_notes: list[str] = field(default_factory=list)


CASES: dict[str, Case] = {
    "workers and data on groups of their own": Case(
        [HEAD, CPUS, GPUS], {"count": 2, "group": "gpu", "resources": {"cpu": 4, "gpu": 1}}
    ),
    "more GPUs than the group has": Case(
        [HEAD, CPUS, GPUS],
        {"count": 4, "group": "gpu", "resources": {"gpu": 1}},
        want_refused="spec.workers: got 4 x (1 CPUs, 1 GPUs); expected what fits: group gpu has "
        "8 CPUs, 2 GPUs on 1 nodes, enough for 2",
    ),
    "enough in all but not on one node": Case(
        [GPUS, GPUS],
        {"count": 1, "group": "gpu", "resources": {"gpu": 3}},
        want_refused="spec.workers: got 1 x (1 CPUs, 3 GPUs); expected what fits: group gpu has "
        "16 CPUs, 4 GPUs on 2 nodes, enough for 0",
    ),
    "GPUs where there are none": Case(
        [LAPTOP],
        {"count": 1, "resources": {"gpu": 1}},
        want_refused="spec.workers: got 1 x (1 CPUs, 1 GPUs); expected what fits: the cluster has "
        "4 CPUs, 0 GPUs on 1 nodes, enough for 0; --cpu trains without GPUs",
    ),
    "more memory than a node has": Case(
        [CPUS],
        {"count": 1, "resources": {"memory": "9Gi"}},
        want_refused="spec.workers: got 1 x (1 CPUs, 9Gi); expected what fits: the cluster has "
        "4 CPUs, 8Gi on 1 nodes, enough for 0",
    ),
    "a group that is not there": Case(
        [CPUS, GPUS],
        {"count": 1, "group": "gpus"},
        want_refused="spec.workers.group: got gpus; expected one of: cpu, gpu",
    ),
    "a group where no node says its own": Case([LAPTOP], {"count": 1, "group": "gpu"}),
    "others have the place now": Case(
        [make_node("gpu", free=1, CPU=4), CPUS],
        {"count": 2, "group": "gpu"},
        want_notes=["waiting for capacity: 2 x (1 CPUs) are needed, group gpu can take 1 of 4"],
    ),
    "workers that leave the data no CPU": Case(
        [LAPTOP],
        {"count": 4},
        want_refused="spec.data.cpus: got 2; expected at least one CPU that no worker takes: "
        "4 CPUs less 4 workers x 1 leaves 0",
    ),
    "workers that leave the data less than it asks for": Case(
        [LAPTOP],
        {"count": 3},
        want_notes=["spec.data.cpus: 2 are asked for, 4 CPUs less 3 workers x 1 leaves 1"],
    ),
    "workers that fit beside the data's group": Case(
        [CPUS, make_node("spare", CPU=4)], {"count": 7}, 1
    ),
    "halves of CPUs": Case([LAPTOP], {"count": 4, "resources": {"cpu": "500m"}}),
    "tenths of CPUs, which are no exact numbers": Case(
        [LAPTOP], {"count": 30, "resources": {"cpu": "100m"}}, 1
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_fits_or_waits_or_is_refused_with_the_arithmetic(case: Case) -> None:
    run = make_run(workers=case.workers, data=make_data(cpus=case.data_cpus))
    cluster = ClusterNodes(case.nodes)
    if not case.want_refused:
        assert check_capacity(run.spec, cluster) == case.want_notes
        return
    with pytest.raises(SpecError) as caught:
        check_capacity(run.spec, cluster)

    assert str(caught.value) == case.want_refused


def test_a_cluster_that_may_grow_is_waited_for() -> None:
    run = make_run(workers={"count": 4, "group": "gpu", "resources": {"gpu": 1}})

    assert check_capacity(run.spec, ClusterNodes([HEAD, CPUS], waits=True)) == [
        "waiting for nodes: 4 x (1 CPUs, 1 GPUs) are needed, group gpu has 0 CPUs, 0 GPUs on "
        "0 nodes, enough for 0; --cpu trains without GPUs"
    ]


HAS = "no node of the data has that: they have at most"
TASKS: dict[str, tuple[JsonValue, str]] = {
    "more CPUs than a node has": (
        {"cpus": 5},
        f"got 5 CPUs; expected what one node has that reads: {HAS} 4 CPUs",
    ),
    "more memory than a node has": (
        {"memory": "9Gi"},
        f"got 1 CPUs, 9Gi; expected what one node has that reads: {HAS} 4 CPUs, 8Gi",
    ),
}


@pytest.mark.parametrize(("task", "want"), TASKS.values(), ids=TASKS)
def test_a_task_that_fits_no_node_of_the_data_is_refused(task: JsonValue, want: str) -> None:
    run = make_run(data=make_data(make_dataset(task=task), cpus=8))

    with pytest.raises(SpecError) as caught:
        check_capacity(run.spec, ClusterNodes([CPUS, CPUS, GPUS]))

    assert str(caught.value) == f"spec.data.datasets.train.task: {want}"


BESIDE = "no node of the data has that beside workers"
BESIDE_WORKERS: dict[str, tuple[list[Node], dict[str, JsonValue], JsonValue, str]] = {
    "memory that a worker takes": (
        [make_node(CPU=8, memory=16 * GIB)],
        {"count": 1, "resources": {"memory": "12Gi"}},
        {"memory": "8Gi"},
        f"got 1 CPUs, 8Gi; expected what one node has that reads: {BESIDE}: 7 CPUs, 4Gi are left "
        "at most",
    ),
    "CPUs that no node has after its worker": (
        [LAPTOP, LAPTOP],
        {"count": 2, "resources": {"cpu": 3}},
        {"cpus": 2},
        f"got 2 CPUs; expected what one node has that reads: {BESIDE}: 1 CPUs are left at most",
    ),
    "a node without workers": (
        [LAPTOP, LAPTOP],
        {"count": 1, "resources": {"cpu": 3}},
        {"cpus": 4},
        "",
    ),
    "workers that go to another group": (
        [CPUS, GPUS],
        {"count": 2, "group": "gpu", "resources": {"cpu": 4}},
        {"cpus": 4},
        "",
    ),
}


@pytest.mark.parametrize(
    ("nodes", "workers", "task", "want"), BESIDE_WORKERS.values(), ids=BESIDE_WORKERS
)
def test_a_task_has_to_fit_beside_the_workers(
    nodes: list[Node], workers: dict[str, JsonValue], task: JsonValue, want: str
) -> None:
    cpus: JsonValue = task.get("cpus", 1) if isinstance(task, dict) else 1
    run = make_run(workers=workers, data=make_data(make_dataset(task=task), cpus=cpus))

    if not want:
        assert check_capacity(run.spec, ClusterNodes(nodes)) == []
        return
    with pytest.raises(SpecError) as caught:
        check_capacity(run.spec, ClusterNodes(nodes))
    assert str(caught.value) == f"spec.data.datasets.train.task: {want}"


def test_a_task_that_fits_is_not_spoken_of_and_one_that_may_is_waited_for() -> None:
    data = make_data(make_dataset(task={"cpus": 4, "memory": "8Gi"}), cpus=4)
    run = make_run(data=data, workers={"group": "gpu"})
    small = make_node("cpu", CPU=4, memory=2 * GIB)

    assert check_capacity(run.spec, ClusterNodes([CPUS, GPUS])) == []
    assert check_capacity(run.spec, ClusterNodes([small, GPUS], waits=True)) == [
        f"spec.data.datasets.train.task: waiting for a node with 4 CPUs, 8Gi: {HAS} 4 CPUs, 2Gi"
    ]


def test_programs_without_datasets_leave_the_data_nothing() -> None:
    run = make_run(entrypoint=["python", "train.py"], workers={"count": 4})

    assert check_capacity(run.spec, ClusterNodes([LAPTOP])) == []


def test_work_is_kept_in_a_group_that_is_there() -> None:
    assert group_label("gpu", ClusterNodes([CPUS, GPUS])) == ({NODE_GROUP_LABEL: "gpu"}, None)
    assert group_label("", ClusterNodes([CPUS, GPUS])) == ({}, None)


def test_a_group_that_no_node_has_is_ignored_with_a_note() -> None:
    note = "ignored, because no node has the label trainshed.dev/group=big"

    assert group_label("big", ClusterNodes([LAPTOP])) == ({}, note)
    assert group_label("big", ClusterNodes([GPUS])) == ({}, note)


def test_the_default_group_is_ignored_without_a_note_where_no_node_has_it() -> None:
    assert group_label(DataSpec().placement, ClusterNodes([LAPTOP])) == ({}, None)
    assert group_label(DataSpec().placement, ClusterNodes([GPUS])) == ({}, None)


def test_a_group_that_may_come_is_kept() -> None:
    assert group_label("gpu", ClusterNodes([CPUS], waits=True)) == ({NODE_GROUP_LABEL: "gpu"}, None)


def test_workers_leave_the_datas_group_alone_though_no_other_nodes_have_come_yet() -> None:
    run = make_run(workers={"count": 3}, data=make_data())

    back = ClusterNodes([HEAD, CPUS], waits=True, coming=[CPUS, GPUS])

    assert worker_label(run.spec, back) == {NODE_GROUP_LABEL: "!cpu"}
    assert check_capacity(run.spec, back) == []
    assert worker_label(run.spec, ClusterNodes([HEAD, CPUS], waits=True, coming=[CPUS])) == {}


PLACES: dict[str, tuple[list[Node], dict[str, JsonValue], dict[str, str]]] = {
    "in their group": ([CPUS, GPUS], {"group": "gpu"}, {NODE_GROUP_LABEL: "gpu"}),
    "anywhere where the data has CPUs enough": ([CPUS, GPUS], {"count": 2}, {}),
    "not where they would take the data's last CPUs": (
        [CPUS, GPUS],
        {"count": 3},
        {NODE_GROUP_LABEL: "!cpu"},
    ),
    "anywhere where there is no other place": ([CPUS, CPUS], {"count": 6}, {}),
    "anywhere where no node says its group": ([LAPTOP], {"count": 2}, {}),
}


@pytest.mark.parametrize("case", PLACES)
def test_workers_belong(case: str) -> None:
    nodes, workers, want = PLACES[case]
    run = make_run(workers=workers, data=make_data())

    assert worker_label(run.spec, ClusterNodes(nodes)) == want


def test_caches_count_on_the_memory_of_the_groups() -> None:
    cluster = ClusterNodes([HEAD, CPUS, CPUS, GPUS])
    workers: dict[str, JsonValue] = {"count": 2, "group": "gpu", "resources": {"gpu": 1}}

    shared = cluster_memory(make_run(workers=workers).spec, cluster)

    assert (shared.worker, shared.object_store) == (16 * GIB, 4 * GIB)
    workers["resources"] = {"gpu": 1, "memory": "3Gi"}
    assert cluster_memory(make_run(workers=workers).spec, cluster).worker == 3 * GIB
