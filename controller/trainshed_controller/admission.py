"""Who may begin on a shared RayCluster, and what the others wait for. Pure.

Strict order: highest priority, then oldest; nobody overtakes who could begin. What is counted is
what the cluster was told, not what happens to be idle: an attempt keeps its workers until its end.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_api.status import QueueStatus, ResourceRequest
from trainshed_controller.model import Place, Room, worst_trouble
from trainshed_controller.packing import (
    HAIR,
    Capacity,
    capacity_of,
    of_group,
    pack,
    place_data,
    place_workers,
)
from trainshed_controller.release import holding_attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from trainshed_api.pod_trouble import PodTrouble
    from trainshed_api.v1alpha1 import TrainingRunResource
    from trainshed_controller.model import ClusterView, GroupView, PodView, RunView

# After that a run that waits for Pods lets others begin that fit into those that are ready.
PASSED_SECONDS = 300.0
_MOST_NAMED = 5


@dataclass(frozen=True)
class QueueEntry:
    """A run, or a RayJob whose run is gone, that holds capacity or waits for it.

    since: when it began to.
    """

    uid: str
    name: str
    request: ResourceRequest
    since: datetime
    priority: int = 0


def entry_of(view: RunView) -> QueueEntry | None:
    """Return what a run holds or waits for; None where nobody can read it."""
    holder = holding_attempt(view.status)
    if holder and holder.reservation:
        return QueueEntry(view.uid, view.name, holder.reservation, holder.reservation.since)
    if view.run is None:
        return None
    request = request_of(view.run)
    return QueueEntry(view.uid, view.name, request, view.created, view.run.spec.priority)


def request_of(run: TrainingRunResource) -> ResourceRequest:
    """Return what the run needs of a cluster; an entrypoint's data is part of its workers."""
    workers, data = run.spec.workers, run.spec.data
    memory = workers.resources.memory
    reads = run.spec.train is not None and data.loader == "ray-data" and data.datasets
    return ResourceRequest(
        count=workers.count,
        group=workers.group,
        cpu=parse_cores(workers.resources.cpu),
        gpu=workers.resources.gpu,
        memory=parse_bytes(memory) if memory else 0.0,
        data_cpus=data.cpus if reads else 0.0,
        data_group=data.placement,
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
    if own is None:
        return group.room
    amounts = {name: getattr(own, name) for name in ("cpu", "gpu", "memory")}
    changed = {
        name: amount
        for name, amount in amounts.items()
        if told is None or getattr(told, name) != amount
    }
    return replace(group.room, **changed)


def admit(  # noqa: PLR0913, PLR0917  # what is there, and who wants it
    cluster: ClusterView,
    pods: Sequence[PodView],
    holding: Sequence[QueueEntry],
    waiting: Sequence[QueueEntry],
    others: Sequence[str] = (),
    lacking: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Place]:
    """Return what the queue says of each waiting run, by uid.

    Args:
        holding: admitted already; those that have been so for longest are placed first.
        others: RayJobs of somebody else on the cluster, which nobody can count; they are named.
        lacking: for how many seconds runs have waited for Pods that are declared and not ready.
    """
    holders = sorted(holding, key=lambda each: each.since)
    ready, whole = capacity_now(cluster, pods), capacity_of(cluster.groups)
    free, unheld = _without(ready, holders), _without(whole, holders)
    pending = [pod for pod in pods if not (pod.ready or pod.deleting or pod.is_over)]
    shared = _SharedReasons(
        cluster.name,
        f"also running: {', '.join(sorted(others)[:_MOST_NAMED])}" if others else "",
        tuple(each.name for each in holders if each.name)[:_MOST_NAMED],
        worst_trouble(pods, cluster),
        # Pods that the API server refuses exist nowhere.
        whole - ready if cluster.trouble else _capacity_of(cluster, pending),
    )
    places: dict[str, Place] = {}
    position, is_blocked = 0, False
    for entry in sorted(waiting, key=_order):
        request = entry.request
        if pack(whole, request) is None:
            # It would wait for ever; those behind it need not.
            missing = f"{_explain(whole, request, 'in all')} on {cluster.name}"
            queue = QueueStatus(position=0, reason=f"can never fit: {missing}", missing=missing)
            places[entry.uid] = Place(admitted=False, queue=queue, exceeds=True)
            continue
        packed = None if is_blocked else pack(free, request)
        if packed is not None:
            free = packed
            places[entry.uid] = Place(admitted=True)
            continue
        position += 1
        lacks_pods = pack(unheld, request) is not None
        is_passed = lacks_pods and lacking.get(entry.uid, 0.0) >= PASSED_SECONDS
        is_blocked = is_blocked or not is_passed
        place = shared.place_of(request, position, free, is_passed=is_passed)
        places[entry.uid] = replace(place, lacks_pods=lacks_pods)
    return places


@dataclass(frozen=True)
class _SharedReasons:
    """What keeps all runs that wait for one cluster.

    to_come: capacity of Pods that do not start because of the trouble.
    """

    cluster: str
    others: str
    held_by: tuple[str, ...]
    trouble: PodTrouble | None
    to_come: Capacity

    def place_of(
        self, request: ResourceRequest, position: int, free: Capacity, *, is_passed: bool
    ) -> Place:
        """Return the place of a run that waits, with the reason."""
        missing = f"{_explain(free, request, 'free')} on {self.cluster}"
        trouble = self.trouble if self.trouble and pack(free + self.to_come, request) else None
        reasons = (
            f"{position - 1} before it" if position > 1 else "",
            missing,
            self.others,
            trouble.message if trouble else "",
            "its Pods are not ready, so runs that fit begin before it" if is_passed else "",
        )
        queue = QueueStatus(
            position=position,
            reason="; ".join(filter(None, reasons)),
            missing=missing,
            held_by=self.held_by,
        )
        return Place(admitted=False, queue=queue, trouble=trouble)


def _without(capacity: Capacity, holders: Sequence[QueueEntry]) -> Capacity:
    """Return what holders leave; what one lacks for lost Pods takes all that it could use."""
    left = Counter(capacity)
    for holder in holders:
        packed = pack(left, holder.request)
        if packed is not None:
            left = packed
        else:
            place_workers(left, holder.request)
            place_data(left, holder.request)
    return left


def _order(entry: QueueEntry) -> tuple[int, datetime, str]:
    return (-entry.priority, entry.since, entry.uid)


def _explain(capacity: Capacity, request: ResourceRequest, word: str) -> str:
    """Return the arithmetic: what is needed and what there is."""
    count = request.count
    usable = of_group(capacity, request.group)
    is_group = request.group and all(room.group == request.group for room in usable)
    group = f" of group {request.group}" if is_group else ""
    short = []
    for what, amount in (("GPUs", "gpu"), ("CPUs", "cpu"), ("bytes of memory", "memory")):
        need = getattr(request, amount) * count
        have = sum(getattr(room, amount) * capacity[room] for room in usable)
        if need > have + HAIR:
            short.append(f"needs {need:g} {what}{group}, {have:g} {word}")
    if not short and pack(capacity, request.model_copy(update={"data_cpus": 0.0})) is None:
        size = f"{request.cpu:g} CPUs" + (f" and {request.gpu:g} GPUs" if request.gpu else "")
        short.append(
            f"needs {count} times {size}{group}, each inside one Pod; that is {word} by "
            "sum but not by Pod"
        )
    if not short:
        data = of_group(capacity, request.data_group)
        have = sum(math.floor(room.cpu + HAIR) * capacity[room] for room in data)
        short.append(f"needs {request.data_cpus:g} CPUs for data, {have:g} {word} beside workers")
    return ", ".join(short)
