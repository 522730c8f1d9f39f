"""Who may begin on a shared RayCluster, and what the others wait for. Pure.

Strict order: highest priority, then oldest; nobody overtakes. What is counted is what the cluster
was told, not what happens to be idle: a run that is admitted keeps its workers until it ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_controller.model import Place, Room

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from trainshed_api.v1alpha1 import TrainingRun
    from trainshed_controller.model import ClusterView, PodView

# Sums of binary fractions such as 0.1 are not exact.
_HAIR = 1e-9


@dataclass(frozen=True)
class Request:
    """What a run needs: `count` workers of one size, and CPUs for its data."""

    uid: str
    count: int
    worker: Room
    data_cpus: float
    data_group: str
    priority: int = 0
    created: datetime | None = None


def request_of(uid: str, run: TrainingRun, created: datetime | None = None) -> Request:
    """Return what the run needs of a cluster; an entrypoint's data is part of its workers."""
    workers, resources = run.spec.workers, run.spec.workers.resources
    worker = Room(
        workers.group,
        parse_cores(resources.cpu),
        float(resources.gpu),
        float(parse_bytes(resources.memory)) if resources.memory else 0.0,
    )
    reads = run.spec.train is not None and run.spec.data.loader == "ray-data"
    return Request(
        uid,
        workers.count,
        worker,
        float(run.spec.data.cpus) if reads and run.spec.data.datasets else 0.0,
        run.spec.data.placement,
        run.spec.priority,
        created,
    )


def rooms_now(cluster: ClusterView, pods: Sequence[PodView]) -> list[Room]:
    """Return what can be had: ready Pods, or with autoscaling all that there may be."""
    if cluster.autoscaling:
        return rooms_at_most(cluster)
    groups = {group.name: group.room for group in cluster.groups}
    ready = [pod for pod in pods if pod.ready and not pod.deleting and not pod.is_head]
    return [groups[pod.group] for pod in ready if pod.group in groups]


def rooms_at_most(cluster: ClusterView) -> list[Room]:
    """Return what the cluster has when all of it is there."""
    return [group.room for group in cluster.groups for _ in range(group.wanted)]


def admit(
    cluster: ClusterView,
    pods: Sequence[PodView],
    holding: Sequence[Request],
    waiting: Sequence[Request],
    others: Sequence[str] = (),
) -> dict[str, Place]:
    """Return what the queue says of each waiting run, by uid.

    holding: admitted already, in the order of their admission. others: RayJobs of somebody else on
    the cluster, which nobody can count; they are named to those who wait.
    """
    free = rooms_now(cluster, pods)
    for request in holding:
        free = pack(free, request) or free
    places: dict[str, Place] = {}
    position = 0
    for request in sorted(waiting, key=_order):
        if pack(rooms_at_most(cluster), request) is None:
            # It would wait for ever; those behind it need not.
            reason = f"can never fit: {_explain(rooms_at_most(cluster), request, 'in all')}"
            places[request.uid] = Place(
                admitted=False, reason=f"{reason} on {cluster.name}", exceeds=True
            )
            continue
        packed = pack(free, request) if position == 0 else None
        if packed is not None:
            free = packed
            places[request.uid] = Place(admitted=True)
            continue
        position += 1
        reason = f"{_explain(free, request, 'free')} on {cluster.name}"
        if position > 1:
            reason = f"{position - 1} before it; {reason}"
        if others:
            reason += f"; beside it run: {', '.join(sorted(others)[:5])}"
        places[request.uid] = Place(admitted=False, position=position, reason=reason)
    return places


def pack(rooms: Sequence[Room], request: Request) -> list[Room] | None:
    """Return what is left when the workers and the data are placed; None where they do not fit."""
    left = list(rooms)
    usable = _indices(left, request.worker.group)
    # The fullest Pods first, and those without GPUs for workers that need none: what is whole
    # stays whole for whoever needs it.
    usable.sort(key=lambda i: (left[i].gpu, left[i].cpu, left[i].memory, i))
    missing = request.count
    for i in usable:
        while missing and _fits(left[i], request.worker):
            left[i] = _take(left[i], request.worker)
            missing -= 1
    if missing:
        return None
    needed = request.data_cpus
    for i in sorted(_indices(left, request.data_group), key=lambda i: (left[i].gpu, i)):
        taken = min(needed, math.floor(left[i].cpu + _HAIR))
        left[i] = replace(left[i], cpu=left[i].cpu - taken)
        needed -= taken
    return None if needed > _HAIR else left


def _order(request: Request) -> tuple[int, float, str]:
    age = request.created.timestamp() if request.created else 0.0
    return (-request.priority, age, request.uid)


def _indices(rooms: Sequence[Room], group: str) -> list[int]:
    """Return which Pods are of the group; all of them where no Pod has such a label."""
    found = [i for i, room in enumerate(rooms) if room.group == group]
    return found or list(range(len(rooms)))


def _fits(room: Room, worker: Room) -> bool:
    return (
        room.cpu + _HAIR >= worker.cpu
        and room.gpu + _HAIR >= worker.gpu
        and room.memory + _HAIR >= worker.memory
    )


def _take(room: Room, worker: Room) -> Room:
    return Room(
        room.group, room.cpu - worker.cpu, room.gpu - worker.gpu, room.memory - worker.memory
    )


def _explain(rooms: Sequence[Room], request: Request, word: str) -> str:
    """Return the arithmetic: what is needed and what there is."""
    usable = [rooms[i] for i in _indices(rooms, request.worker.group)]
    data = [rooms[i] for i in _indices(rooms, request.data_group)]
    group = request.worker.group
    place = f" of group {group}" if group and all(r.group == group for r in usable) else ""
    needs = (
        ("GPUs", request.worker.gpu * request.count, sum(r.gpu for r in usable)),
        ("CPUs", request.worker.cpu * request.count, sum(r.cpu for r in usable)),
        ("bytes of memory", request.worker.memory * request.count, sum(r.memory for r in usable)),
    )
    short = [
        f"needs {need:g} {what}{place}, {have:g} {word}"
        for what, need, have in needs
        if need > have + _HAIR
    ]
    if not short and pack(rooms, replace(request, data_cpus=0.0)) is None:
        w = request.worker
        size = f"{w.cpu:g} CPUs" + (f" and {w.gpu:g} GPUs" if w.gpu else "")
        short.append(
            f"needs {request.count} times {size}{place}, each inside one Pod; that is {word} by "
            "sum but not by Pod"
        )
    if not short:
        have = sum(math.floor(room.cpu + _HAIR) for room in data)
        short.append(f"needs {request.data_cpus:g} CPUs for data, {have:g} {word} beside workers")
    return ", ".join(short)
