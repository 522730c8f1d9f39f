"""Who may begin on a shared cluster: strict order, packed into Pods, never oversubscribed."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controller.builders_view import later, make_cluster, make_view, make_worker
from trainshed_controller.admission import admit, capacity_now, request_of
from trainshed_controller.model import ClusterView, GroupView, PodView, Room
from trainshed_controller.packing import Request, pack

TWO_GPU_PODS = make_cluster(
    GroupView("gpu", Room("gpu", 4, 1, 16e9), 2), GroupView("cpu", Room("cpu", 4, 0, 8e9), 1)
)
PODS = (make_worker("gpu", 0), make_worker("gpu", 1), make_worker("cpu"))


def make_request(uid: str = "a", **fields: object) -> Request:
    """Return a request for one worker with a GPU, such as make_request(count=2)."""
    given: dict[str, object] = {"count": 1, "worker": Room("gpu", 1, 1, 0), "data_cpus": 1.0}
    return Request(uid, **{**given, "data_group": "cpu", **fields})  # type: ignore[arg-type]  # a builder


SMALL = make_cluster(
    GroupView("gpu", Room("gpu", 2, 1, 16e9), 1), GroupView("cpu", Room("cpu", 2, 0, 8e9), 1)
)


@dataclass(frozen=True)
class Case:
    waiting: tuple[Request, ...]
    want: dict[str, tuple[bool, int, str]]
    holding: tuple[Request, ...] = ()
    pods: tuple[PodView, ...] = PODS
    cluster: ClusterView = TWO_GPU_PODS
    others: tuple[str, ...] = field(default=())


CASES = {
    "what fits is admitted": Case((make_request(),), {"a": (True, 0, "")}),
    "workers that belong nowhere leave the data's Pods to it": Case(
        (make_request(count=2, worker=Room("", 1, 0, 0)),),
        {"a": (True, 0, "")},
        pods=(make_worker("gpu"), make_worker("cpu")),
        cluster=SMALL,
    ),
    "the oldest goes first": Case(
        (
            make_request("b", count=2, created=later(5)),
            make_request("a", count=2, created=later(1)),
        ),
        {
            "a": (True, 0, ""),
            "b": (False, 1, "needs 2 GPUs of group gpu, 0 free on trainshed"),
        },
    ),
    "priority goes before age": Case(
        (
            make_request("a", count=2, created=later(1)),
            make_request("b", count=2, created=later(5), priority=1),
        ),
        {
            "b": (True, 0, ""),
            "a": (False, 1, "needs 2 GPUs of group gpu, 0 free on trainshed"),
        },
    ),
    "nobody overtakes who waits": Case(
        (make_request("a", count=2, created=later(1)), make_request("b", created=later(2))),
        {
            "a": (False, 1, "needs 2 GPUs of group gpu, 1 free on trainshed"),
            "b": (False, 2, "1 before it; "),
        },
        holding=(make_request("h"),),
    ),
    "what fits by sum has to fit into Pods": Case(
        (make_request(worker=Room("gpu", 5, 0, 0), data_cpus=0.0),),
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
        (make_request("a", count=8, created=later(1)), make_request("b", created=later(2))),
        {
            "a": (False, 0, "can never fit: needs 8 GPUs of group gpu, 2 in all on trainshed"),
            "b": (True, 0, ""),
        },
    ),
    "the data's CPUs count": Case(
        (make_request(data_cpus=4.0),),
        {"a": (False, 1, "needs 4 CPUs for data, 3 free beside workers on trainshed")},
        holding=(make_request("h"),),
    ),
    "only Pods that are ready count": Case(
        (make_request(),),
        {"a": (False, 1, "needs 1 GPUs of group gpu, 0 free")},
        pods=(make_worker("gpu", 0, ready=False), make_worker("gpu", 1, deleting=True)),
    ),
    "with autoscaling all Pods count that there may be": Case(
        (make_request(count=2),),
        {"a": (True, 0, "")},
        pods=(),
        cluster=make_cluster(*TWO_GPU_PODS.groups, autoscaling=True),
    ),
    "RayJobs of others are named to who waits": Case(
        (make_request(count=2),),
        {
            "a": (
                False,
                1,
                "needs 2 GPUs of group gpu, 1 free on trainshed; also running: x, y",
            )
        },
        holding=(make_request("h"),),
        others=("y", "x"),
    ),
    "a group that no node has is no condition": Case(
        (make_request(worker=Room("none", 1, 0, 0)),), {"a": (True, 0, "")}
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_queue_says(name: str) -> None:
    case = CASES[name]

    places = admit(case.cluster, case.pods, case.holding, case.waiting, case.others)

    for uid, (admitted, position, reason) in case.want.items():
        place = places[uid]
        assert (place.admitted, place.position) == (admitted, position)
        assert place.reason.startswith(reason)


def test_a_run_asks_for_its_workers_and_its_datas_cpus() -> None:
    workers = {"count": 3, "group": "gpu", "resources": {"cpu": "500m", "gpu": 1, "memory": "1Gi"}}
    data = {"cpus": 3, "datasets": {"train": {"read": {"format": "parquet", "path": "x"}}}}
    view = make_view(workers=workers, data=data)  # type: ignore[arg-type]  # JSON values
    assert view.run

    request = request_of("u", view.run)

    assert (request.count, request.worker) == (3, Room("gpu", 0.5, 1.0, 2.0**30))
    assert (request.data_cpus, request.data_group) == (3.0, "cpu")


REQUESTS = st.builds(
    Request,
    uid=st.uuids().map(str),
    count=st.integers(1, 4),
    worker=st.builds(
        Room,
        group=st.sampled_from(["", "gpu", "cpu"]),
        cpu=st.sampled_from([0.5, 1.0, 3.0]),
        gpu=st.sampled_from([0.0, 1.0]),
        memory=st.sampled_from([0.0, 5e9]),
    ),
    data_cpus=st.sampled_from([0.0, 1.0, 2.0]),
    data_group=st.just("cpu"),
    priority=st.integers(-1, 1),
)


@given(st.lists(REQUESTS, max_size=8, unique_by=lambda request: request.uid))
def test_what_is_admitted_together_fits_together(requests: list[Request]) -> None:
    places = admit(TWO_GPU_PODS, PODS, (), requests)

    free = capacity_now(TWO_GPU_PODS, PODS)
    for request in sorted(requests, key=lambda r: (-r.priority, r.uid)):
        if places[request.uid].admitted:
            left = pack(free, request)
            assert left is not None
            free = left
    assert all(min(room.cpu, room.gpu, room.memory) > -1e-6 for room in free)


@given(st.lists(REQUESTS, min_size=2, max_size=8, unique_by=lambda request: request.uid))
def test_positions_are_those_of_the_queue(requests: list[Request]) -> None:
    places = admit(TWO_GPU_PODS, PODS, (), requests)

    waiting = [p.position for p in places.values() if not p.admitted and not p.exceeds]
    assert sorted(waiting) == list(range(1, len(waiting) + 1))
