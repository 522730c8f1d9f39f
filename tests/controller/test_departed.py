"""Drivers are told which Pods of their workers went: Ray by itself would take half a minute."""

import asyncio
from collections.abc import Mapping

from tests.controller.builders_view import SETTINGS, make_head, make_worker
from trainshed_api.json_object import JsonObject
from trainshed_controller.cache import Cache
from trainshed_controller.cluster import PODS
from trainshed_controller.departed import Departed
from trainshed_controller.handlers import make_followers


def pod(name: str, kind: str = "worker", phase: str = "Running") -> JsonObject:
    labels: JsonObject = {"ray.io/cluster": "trainshed", "ray.io/node-type": kind}
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}", "labels": labels},
        "status": {"phase": phase},
    }


def hear(cache: Cache, *events: Mapping[str, object]) -> None:
    """Take in what a watch of Pods tells."""
    follow = make_followers(cache, lambda _: None, lambda _: None, print)[PODS]

    async def follow_all() -> None:
        for event in events:
            await follow(event)

    asyncio.run(follow_all())


def test_a_worker_s_pod_that_was_deleted_is_gone_and_a_head_s_is_not_told() -> None:
    cache = Cache(SETTINGS)
    there = [pod("w1"), pod("w2"), pod("h", "head")]
    hear(cache, *({"type": "ADDED", "object": raw} for raw in there))
    assert cache.gone("team", "trainshed") == ()

    hear(cache, *({"type": "DELETED", "object": raw} for raw in (pod("w1"), pod("h", "head"))))

    assert cache.gone("team", "trainshed") == ("w1",)
    assert cache.gone("team", "another") == ()


def test_a_worker_s_pod_that_failed_is_gone_before_it_is_deleted() -> None:
    cache = Cache(SETTINGS)

    hear(cache, {"type": "ADDED", "object": pod("w1", phase="Failed")})

    assert cache.gone("team", "trainshed") == ("w1",)


def test_the_last_ones_are_told_and_the_clusters_that_lost_last_are_known() -> None:
    departed = Departed()
    for number in range(100):
        departed.note(make_worker(index=number))
    for number in range(2_000):
        departed.note(make_worker(cluster=f"own-{number}"))

    assert departed.of("team", "trainshed") == ()
    assert departed.of("team", "own-1999") == (make_worker().name,)
    departed = Departed()
    for number in range(100):
        departed.note(make_worker(index=number))
    departed.note(make_head())
    assert departed.of("team", "trainshed") == tuple(
        make_worker(index=number).name for number in range(50, 100)
    )
