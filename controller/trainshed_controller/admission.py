"""Who may begin on a shared RayCluster, and what the others wait for. Pure.

Strict order: highest priority, then oldest; nobody overtakes. What is counted is what the cluster
was told, not what happens to be idle: a run that is admitted keeps its workers until it ends.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_controller.model import Place, Room
from trainshed_controller.pod_trouble import worst_trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from trainshed_api.v1alpha1 import TrainingRun
    from trainshed_controller.model import ClusterView, PodView

# Sums of binary fractions such as 0.1 are not exact.
_HAIR = 1e-9

# Pods of workers, by what each has free.
Rooms = Counter[Room]


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


def rooms_now(cluster: ClusterView, pods: Sequence[PodView]) -> Rooms:
    """Return what can be had: ready Pods, or with autoscaling all that there may be."""
    if cluster.autoscaling:
        return rooms_at_most(cluster)
    return _rooms_of(cluster, [pod for pod in pods if pod.ready and not pod.deleting])


def _rooms_of(cluster: ClusterView, pods: Sequence[PodView]) -> Rooms:
    groups = {group.name: group.room for group in cluster.groups}
    workers = [pod for pod in pods if not pod.is_head]
    return Counter(groups[pod.group] for pod in workers if pod.group in groups)


def rooms_at_most(cluster: ClusterView) -> Rooms:
    """Return what the cluster has when all of it is there."""
    rooms: Rooms = Counter()
    for group in cluster.groups:
        rooms[group.room] += group.wanted
    return rooms


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
    free, whole = rooms_now(cluster, pods), rooms_at_most(cluster)
    trouble = worst_trouble(pods, cluster)
    pending = [pod for pod in pods if not (pod.ready or pod.deleting or pod.is_over)]
    # Pods that the API server refuses exist nowhere.
    to_come = whole - free if cluster.trouble else _rooms_of(cluster, pending)
    for request in holding:
        free = pack(free, request) or free
    places: dict[str, Place] = {}
    position = 0
    for request in sorted(waiting, key=_order):
        if pack(whole, request) is None:
            # It would wait for ever; those behind it need not.
            reason = f"can never fit: {_explain(whole, request, 'in all')}"
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
            reason += f"; also running: {', '.join(sorted(others)[:5])}"
        lacks_pods = trouble if trouble and pack(free + to_come, request) else None
        if lacks_pods:
            reason += f"; {lacks_pods.message}"
        places[request.uid] = Place(
            admitted=False, position=position, reason=reason, trouble=lacks_pods
        )
    return places


def pack(rooms: Rooms, request: Request) -> Rooms | None:
    """Return the remaining capacity after workers and data are placed; None if they do not fit."""
    left = Counter(rooms)
    if not _place_workers(left, request) and not _place_data(left, request):
        return left
    # As drivers do: workers that belong nowhere leave the data's Pods to it where there are others.
    left = Counter(rooms)
    if not _place_data(left, request) and not _place_workers(left, request):
        return left
    return None


def _place_workers(left: Rooms, request: Request) -> int:
    """Subtract the workers from the nodes; return how many do not fit."""
    # The fullest Pods first, and those without GPUs for workers that need none: what is whole
    # stays whole for whoever needs it.
    kinds = _of_group(left, request.worker.group)
    by_size = sorted(kinds, key=lambda room: (room.gpu, room.cpu, room.memory))
    return _place(left, by_size, request.count, request.worker)


def _place_data(left: Rooms, request: Request) -> int:
    """Subtract the CPUs of the data from the nodes; return how many do not fit."""
    by_gpu = sorted(_of_group(left, request.data_group), key=lambda room: (room.gpu, room.cpu))
    return _place(left, by_gpu, math.ceil(request.data_cpus), Room("", 1.0, 0.0, 0.0))


def _place(
    left: Rooms,
    order: Sequence[Room],
    count: int,
    piece: Room,
) -> int:
    """Subtract pieces from the nodes in this order; return how many do not fit.

    Rooms that are alike are taken together: a cluster has few kinds of them, and many of each.
    """
    for room in order:
        each = _most_workers(room, piece)
        if not count or not each:
            continue
        whole = min(left[room], count // each)
        left[room] -= whole
        left[_take(room, piece, each)] += whole
        count -= whole * each
        if count and left[room]:
            rest = min(count, each)
            left[room] -= 1
            left[_take(room, piece, rest)] += 1
            count -= rest
    return count


def _order(request: Request) -> tuple[int, float, str]:
    age = request.created.timestamp() if request.created else 0.0
    return (-request.priority, age, request.uid)


def _of_group(rooms: Rooms, group: str) -> list[Room]:
    """Return the kinds of Pods of the group; all of them where no Pod has such a label."""
    there = [room for room, count in rooms.items() if count]
    return [room for room in there if room.group == group] or there


def _most_workers(room: Room, worker: Room) -> int:
    """Return how many workers of this size fit on one node."""
    fits = [
        math.floor(have / need + _HAIR)
        for have, need in (
            (room.cpu, worker.cpu),
            (room.gpu, worker.gpu),
            (room.memory, worker.memory),
        )
        if need and not math.isinf(have)
    ]
    return min(fits, default=0)


def _take(room: Room, piece: Room, count: int) -> Room:
    # Rounded, so that nodes with the same requests compare equal.
    return Room(
        room.group,
        round(room.cpu - piece.cpu * count, 6),
        round(room.gpu - piece.gpu * count, 6),
        room.memory - piece.memory * count,
    )


def _sum(rooms: Rooms, kinds: Sequence[Room], of: Callable[[Room], float]) -> float:
    return sum(of(room) * rooms[room] for room in kinds)


def _explain(rooms: Rooms, request: Request, word: str) -> str:
    """Return the arithmetic: what is needed and what there is."""
    usable = _of_group(rooms, request.worker.group)
    data = _of_group(rooms, request.data_group)
    group = request.worker.group
    place = f" of group {group}" if group and all(r.group == group for r in usable) else ""
    needs = (
        ("GPUs", request.worker.gpu * request.count, _sum(rooms, usable, lambda r: r.gpu)),
        ("CPUs", request.worker.cpu * request.count, _sum(rooms, usable, lambda r: r.cpu)),
        (
            "bytes of memory",
            request.worker.memory * request.count,
            _sum(rooms, usable, lambda r: r.memory),
        ),
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
        have = _sum(rooms, data, lambda r: math.floor(r.cpu + _HAIR))
        short.append(f"needs {request.data_cpus:g} CPUs for data, {have:g} {word} beside workers")
    return ", ".join(short)
