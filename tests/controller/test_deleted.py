"""Drivers are told which Pods of their workers went: Ray by itself would take half a minute."""

from tests.controller.builders_view import SETTINGS, make_worker
from trainshed_api.json_object import JsonObject
from trainshed_controller.cache import Cache
from trainshed_controller.connection import PODS
from trainshed_controller.deleted import DeletedPods
from trainshed_controller.handlers import make_handlers


def pod(name: str, kind: str = "worker", phase: str = "Running") -> JsonObject:
    labels: JsonObject = {"ray.io/cluster": "trainshed", "ray.io/node-type": kind}
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}", "labels": labels},
        "status": {"phase": phase},
    }


def hear(cache: Cache, *pods: JsonObject, are_deleted: bool = False) -> None:
    """Take in what a watch of Pods reports."""
    handler = make_handlers(cache, lambda _: None, lambda _: None, print)[PODS]
    for raw in pods:
        handler.remove(raw) if are_deleted else handler.take(raw)


def gone(cache: Cache, cluster: str = "trainshed") -> list[str]:
    return [pod.name for pod in cache.gone("team", cluster)]


def test_a_pod_that_was_deleted_is_gone_from_its_cluster() -> None:
    cache = Cache(SETTINGS)
    there = [pod("w1"), pod("w2"), pod("h", "head")]
    hear(cache, *there)
    assert gone(cache) == []

    hear(cache, pod("w1"), pod("h", "head"), are_deleted=True)

    assert gone(cache) == ["w1", "h"]
    assert gone(cache, "another") == []


def test_a_pod_that_failed_is_gone_before_it_is_deleted() -> None:
    cache = Cache(SETTINGS)

    hear(cache, pod("w1", phase="Failed"))

    assert gone(cache) == ["w1"]


def test_the_last_ones_of_a_cluster_are_known() -> None:
    deleted, pods = (
        DeletedPods(lambda: 0.0),
        [make_worker(index=number) for number in range(1_000)],
    )
    for one in pods:
        deleted.record(one)

    assert deleted.of("team", "trainshed") == tuple(pods[500:])


def test_who_went_long_ago_is_nobody_that_was_lost_just_now() -> None:
    now, early, late = [0.0], make_worker(index=1), make_worker(index=2)
    deleted = DeletedPods(lambda: now[0])
    deleted.record(early)
    now[0] = 200.0
    deleted.record(late)

    now[0] = 400.0

    assert deleted.of("team", "trainshed") == (late,)


def test_the_clusters_that_lost_pods_last_are_known() -> None:
    deleted = DeletedPods(lambda: 0.0)
    pods = [make_worker(cluster=f"own-{number}") for number in range(2_000)]
    for one in pods:
        deleted.record(one)

    assert deleted.of("team", "own-0") == ()
    assert deleted.of("team", "own-1999") == (pods[-1],)
