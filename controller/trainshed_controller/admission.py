"""Who may begin on a shared RayCluster, and what the others wait for. Pure.

Strict order: highest priority, then oldest; nobody overtakes who could begin. What is counted is
what the cluster was told, not what happens to be idle: an attempt keeps its workers until its end.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_api.status import Reservation
from trainshed_controller.model import Place, Room, worst_trouble
from trainshed_controller.packing import (
    HAIR,
    Capacity,
    Request,
    capacity_of,
    of_group,
    pack,
    place_data,
    place_workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from trainshed_api.v1alpha1 import TrainingRunResource
    from trainshed_controller.model import ClusterView, GroupView, PodView

# After that a run that waits for Pods lets others begin that fit into those that are ready.
PASSED_SECONDS = 300.0
_MOST_NAMED = 5


def request_of(uid: str, run: TrainingRunResource, created: datetime | None = None) -> Request:
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
        run.metadata.name or "",
    )


def reservation_of(request: Request, grace_seconds: int, now: datetime) -> Reservation:
    """Return what an attempt holds from now on."""
    worker = request.worker
    return Reservation(
        count=request.count,
        group=worker.group,
        cpu=worker.cpu,
        gpu=worker.gpu,
        memory=worker.memory,
        data_cpus=request.data_cpus,
        data_group=request.data_group,
        since=now,
        grace_seconds=grace_seconds,
    )


def request_held(uid: str, name: str, held: Reservation) -> Request:
    """Return what an attempt holds as a request; created: since when."""
    # What nobody asks for, such as 1e-320 CPUs, counts as nothing.
    each = (round(amount, 9) for amount in (held.cpu, held.gpu, held.memory))
    worker = Room(held.group, *each)
    return Request(
        uid, held.count, worker, held.data_cpus, held.data_group, created=held.since, name=name
    )


def capacity_now(cluster: ClusterView, pods: Sequence[PodView]) -> Capacity:
    """Return what can be had: ready Pods, or with autoscaling all that there may be."""
    if cluster.autoscaling:
        return capacity_of(cluster.groups)
    return _capacity_of(cluster, [pod for pod in pods if pod.ready and not pod.deleting])


def _capacity_of(cluster: ClusterView, pods: Sequence[PodView]) -> Capacity:
    groups = {group.name: group for group in cluster.groups}
    workers = [pod for pod in pods if not pod.is_head]
    return Counter(_room_of(groups[pod.group], pod) for pod in workers if pod.group in groups)


def _room_of(group: GroupView, pod: PodView) -> Room:
    """Return what a Pod has: where its group was changed since, its own limits say it."""
    own, told = pod.offer, group.offer
    if own is None or own == told:
        return group.room
    return Room(
        group.room.group,
        group.room.cpu if told and told.cpu == own.cpu else own.cpu,
        group.room.gpu if told and told.gpu == own.gpu else own.gpu,
        group.room.memory if told and told.memory == own.memory else own.memory,
    )


def admit(  # noqa: PLR0913, PLR0917  # what is there, and who wants it
    cluster: ClusterView,
    pods: Sequence[PodView],
    holding: Sequence[Request],
    waiting: Sequence[Request],
    others: Sequence[str] = (),
    lacking: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Place]:
    """Return what the queue says of each waiting run, by uid.

    Args:
        holding: admitted already; those that have been so for longest are placed first.
        others: RayJobs of somebody else on the cluster, which nobody can count; they are named.
        lacking: for how many seconds runs have waited for Pods that are declared and not ready.
    """
    holders = sorted(holding, key=lambda each: _age(each.created))
    ready, whole = capacity_now(cluster, pods), capacity_of(cluster.groups)
    free, unheld = _without(ready, holders), _without(whole, holders)
    trouble = worst_trouble(pods, cluster)
    pending = [pod for pod in pods if not (pod.ready or pod.deleting or pod.is_over)]
    # Pods that the API server refuses exist nowhere.
    to_come = whole - ready if cluster.trouble else _capacity_of(cluster, pending)
    held_by = tuple(each.name for each in holders if each.name)[:_MOST_NAMED]
    places: dict[str, Place] = {}
    position, is_blocked = 0, False
    for request in sorted(waiting, key=_order):
        if pack(whole, request) is None:
            # It would wait for ever; those behind it need not.
            missing = f"{_explain(whole, request, 'in all')} on {cluster.name}"
            places[request.uid] = Place(
                admitted=False, reason=f"can never fit: {missing}", exceeds=True, missing=missing
            )
            continue
        packed = None if is_blocked else pack(free, request)
        if packed is not None:
            free = packed
            places[request.uid] = Place(admitted=True)
            continue
        position += 1
        lacks_pods = pack(unheld, request) is not None
        passed = lacks_pods and lacking.get(request.uid, 0.0) >= PASSED_SECONDS
        is_blocked = is_blocked or not passed
        missing = f"{_explain(free, request, 'free')} on {cluster.name}"
        reason = missing if position == 1 else f"{position - 1} before it; {missing}"
        if others:
            reason += f"; also running: {', '.join(sorted(others)[:_MOST_NAMED])}"
        kept_away = trouble if trouble and pack(free + to_come, request) else None
        if kept_away:
            reason += f"; {kept_away.message}"
        if passed:
            reason += "; its Pods are not ready, so runs that fit begin before it"
        places[request.uid] = Place(
            admitted=False,
            position=position,
            reason=reason,
            trouble=kept_away,
            missing=missing,
            held_by=held_by,
            lacks_pods=lacks_pods,
        )
    return places


def _without(capacity: Capacity, holders: Sequence[Request]) -> Capacity:
    """Return what holders leave; what one lacks for lost Pods takes all that it could use."""
    left = Counter(capacity)
    for request in holders:
        packed = pack(left, request)
        if packed is not None:
            left = packed
        else:
            place_workers(left, request)
            place_data(left, request)
    return left


def _order(request: Request) -> tuple[int, float, str]:
    return (-request.priority, _age(request.created), request.uid)


def _age(moment: datetime | None) -> float:
    return moment.timestamp() if moment else 0.0


def _sum(capacity: Capacity, kinds: Sequence[Room], of: Callable[[Room], float]) -> float:
    return sum(of(room) * capacity[room] for room in kinds)


def _explain(capacity: Capacity, request: Request, word: str) -> str:
    """Return the arithmetic: what is needed and what there is."""
    usable = of_group(capacity, request.worker.group)
    data = of_group(capacity, request.data_group)
    group = request.worker.group
    place = f" of group {group}" if group and all(r.group == group for r in usable) else ""
    needs = (
        ("GPUs", request.worker.gpu * request.count, _sum(capacity, usable, lambda r: r.gpu)),
        ("CPUs", request.worker.cpu * request.count, _sum(capacity, usable, lambda r: r.cpu)),
        (
            "bytes of memory",
            request.worker.memory * request.count,
            _sum(capacity, usable, lambda r: r.memory),
        ),
    )
    short = [
        f"needs {need:g} {what}{place}, {have:g} {word}"
        for what, need, have in needs
        if need > have + HAIR
    ]
    if not short and pack(capacity, replace(request, data_cpus=0.0)) is None:
        w = request.worker
        size = f"{w.cpu:g} CPUs" + (f" and {w.gpu:g} GPUs" if w.gpu else "")
        short.append(
            f"needs {request.count} times {size}{place}, each inside one Pod; that is {word} by "
            "sum but not by Pod"
        )
    if not short:
        have = _sum(capacity, data, lambda r: math.floor(r.cpu + HAIR))
        short.append(f"needs {request.data_cpus:g} CPUs for data, {have:g} {word} beside workers")
    return ", ".join(short)
