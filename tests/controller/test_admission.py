"""Who may begin on a shared cluster: strict order, packed into Pods, never oversubscribed."""

from dataclasses import dataclass, field
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.builders_view import NOW, later, make_cluster, make_view, make_worker
from trainshed_api.status import ResourceRequest
from trainshed_controller.admission import QueueEntry, admit, capacity_now, request_of
from trainshed_controller.model import ClusterView, GroupView, PodView, Room
from trainshed_controller.packing import pack

TWO_GPU_PODS = make_cluster(
    GroupView("gpu", Room("gpu", 4, 1, 16e9), 2), GroupView("cpu", Room("cpu", 4, 0, 8e9), 1)
)
PODS = (make_worker("gpu", 0), make_worker("gpu", 1), make_worker("cpu"))


ONE_WORKER = ResourceRequest(count=1, group="gpu", cpu=1, gpu=1, data_cpus=1, data_group="cpu")


def make_entry(
    uid: str = "a", *, since: datetime = NOW, priority: int = 0, **fields: object
) -> QueueEntry:
    """Return an entry of one worker with a GPU, such as make_entry(count=2)."""
    return QueueEntry(uid, "", ONE_WORKER.model_copy(update=fields), since, priority)


SMALL = make_cluster(
    GroupView("gpu", Room("gpu", 2, 1, 16e9), 1), GroupView("cpu", Room("cpu", 2, 0, 8e9), 1)
)


@dataclass(frozen=True)
class Case:
    waiting: tuple[QueueEntry, ...]
    want: dict[str, tuple[bool, int, str]]
    holding: tuple[QueueEntry, ...] = ()
    pods: tuple[PodView, ...] = PODS
    cluster: ClusterView = TWO_GPU_PODS
    others: tuple[str, ...] = field(default=())


CASES = {
    "what fits is admitted": Case((make_entry(),), {"a": (True, 0, "")}),
    "workers that belong nowhere leave the data's Pods to it": Case(
        (make_entry(count=2, group="", gpu=0.0),),
        {"a": (True, 0, "")},
        pods=(make_worker("gpu"), make_worker("cpu")),
        cluster=SMALL,
    ),
    "the oldest goes first": Case(
        (
            make_entry("b", count=2, since=later(5)),
            make_entry("a", count=2, since=later(1)),
        ),
        {
            "a": (True, 0, ""),
            "b": (False, 1, "needs 2 GPUs of group gpu, 0 free on trainshed"),
        },
    ),
    "priority goes before age": Case(
        (
            make_entry("a", count=2, since=later(1)),
            make_entry("b", count=2, since=later(5), priority=1),
        ),
        {
            "b": (True, 0, ""),
            "a": (False, 1, "needs 2 GPUs of group gpu, 0 free on trainshed"),
        },
    ),
    "nobody overtakes who waits": Case(
        (make_entry("a", count=2, since=later(1)), make_entry("b", since=later(2))),
        {
            "a": (False, 1, "needs 2 GPUs of group gpu, 1 free on trainshed"),
            "b": (False, 2, "1 before it; "),
        },
        holding=(make_entry("h"),),
    ),
    "what fits by sum has to fit into Pods": Case(
        (make_entry(cpu=5.0, gpu=0.0, data_cpus=0.0),),
        {
            "a": (
                False,
                0,
                "can never fit: needs 1 times 5 CPUs of group gpu, each inside one Pod; that is "
                "in all by sum but not by Pod on trainshed",
            )
        },
    ),
    "what can never fit does not keep the others": Case(
        (make_entry("a", count=8, since=later(1)), make_entry("b", since=later(2))),
        {
            "a": (False, 0, "can never fit: needs 8 GPUs of group gpu, 2 in all on trainshed"),
            "b": (True, 0, ""),
        },
    ),
    "the data's CPUs count": Case(
        (make_entry(data_cpus=4.0),),
        {"a": (False, 1, "needs 4 CPUs for data, 3 free beside workers on trainshed")},
        holding=(make_entry("h"),),
    ),
    "only Pods that are ready count": Case(
        (make_entry(),),
        {"a": (False, 1, "needs 1 GPUs of group gpu, 0 free")},
        pods=(make_worker("gpu", 0, ready=False), make_worker("gpu", 1, deleting=True)),
    ),
    "with autoscaling all Pods count that there may be": Case(
        (make_entry(count=2),),
        {"a": (True, 0, "")},
        pods=(),
        cluster=make_cluster(*TWO_GPU_PODS.groups, autoscaling=True),
    ),
    "RayJobs of others are named to who waits": Case(
        (make_entry(count=2),),
        {
            "a": (
                False,
                1,
                "needs 2 GPUs of group gpu, 1 free on trainshed; also running: x, y",
            )
        },
        holding=(make_entry("h"),),
        others=("y", "x"),
    ),
    "a group that no node has is no condition": Case(
        (make_entry(group="none", gpu=0.0),), {"a": (True, 0, "")}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_queue_says(name: str) -> None:
    case = CASES[name]

    places = admit(case.cluster, case.pods, case.holding, case.waiting, case.others)

    for uid, (admitted, position, reason) in case.want.items():
        place = places[uid]
        assert (place.admitted, place.queue.position) == (admitted, position)
        assert place.queue.reason.startswith(reason)


def test_a_run_asks_for_its_workers_and_its_datas_cpus() -> None:
    workers = {"count": 3, "group": "gpu", "resources": {"cpu": "500m", "gpu": 1, "memory": "1Gi"}}
    data = {"cpus": 3, "datasets": {"train": {"read": {"format": "parquet", "path": "x"}}}}
    view = make_view(workers=workers, data=data)  # type: ignore[arg-type]  # JSON values
    assert view.run

    assert request_of(view.run) == ResourceRequest(
        count=3, group="gpu", cpu=0.5, gpu=1.0, memory=2.0**30, data_cpus=3.0, data_group="cpu"
    )


REQUESTS = st.builds(
    ResourceRequest,
    count=st.integers(1, 4),
    group=st.sampled_from(["", "gpu", "cpu"]),
    cpu=st.sampled_from([0.5, 1.0, 3.0]),
    gpu=st.sampled_from([0.0, 1.0]),
    memory=st.sampled_from([0.0, 5e9]),
    data_cpus=st.sampled_from([0.0, 1.0, 2.0]),
    data_group=st.just("cpu"),
)
ENTRIES = st.builds(
    QueueEntry,
    uid=st.uuids().map(str),
    name=st.just(""),
    request=REQUESTS,
    since=st.just(NOW),
    priority=st.integers(-1, 1),
)


@given(st.lists(ENTRIES, max_size=8, unique_by=lambda entry: entry.uid))
def test_what_is_admitted_together_fits_together(entries: list[QueueEntry]) -> None:
    places = admit(TWO_GPU_PODS, PODS, (), entries)

    free = capacity_now(TWO_GPU_PODS, PODS)
    for entry in sorted(entries, key=lambda e: (-e.priority, e.uid)):
        if places[entry.uid].admitted:
            left = pack(free, entry.request)
            assert left is not None
            free = left
    assert all(min(room.cpu, room.gpu, room.memory) > -1e-6 for room in free)


@given(st.lists(ENTRIES, min_size=2, max_size=8, unique_by=lambda entry: entry.uid))
def test_positions_are_those_of_the_queue(entries: list[QueueEntry]) -> None:
    places = admit(TWO_GPU_PODS, PODS, (), entries)

    waiting = [p.queue.position for p in places.values() if not p.admitted and not p.exceeds]
    assert sorted(waiting) == list(range(1, len(waiting) + 1))
