"""Who may begin on a shared RayCluster, and what the others wait for. Pure.

Strict order: highest priority, then oldest; nobody overtakes who could begin. What is counted is
what the cluster was told, not what happens to be idle: an attempt keeps its workers until its end.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, replace
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
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from trainshed_api.pod_trouble import PodTrouble
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
    return Reservation(
        count=request.count,
        **asdict(request.worker),
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
        is_passed = lacks_pods and lacking.get(request.uid, 0.0) >= PASSED_SECONDS
        is_blocked = is_blocked or not is_passed
        place = shared.place_of(request, position, free, is_passed=is_passed)
        places[request.uid] = replace(place, lacks_pods=lacks_pods)
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
        self, request: Request, position: int, free: Capacity, *, is_passed: bool
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
        return Place(
            admitted=False,
            position=position,
            reason="; ".join(filter(None, reasons)),
            trouble=trouble,
            missing=missing,
            held_by=self.held_by,
        )


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


def _explain(capacity: Capacity, request: Request, word: str) -> str:
    """Return the arithmetic: what is needed and what there is."""
    worker, count = request.worker, request.count
    usable = of_group(capacity, worker.group)
    is_group = worker.group and all(room.group == worker.group for room in usable)
    group = f" of group {worker.group}" if is_group else ""
    short = []
    for what, amount in (("GPUs", "gpu"), ("CPUs", "cpu"), ("bytes of memory", "memory")):
        need = getattr(worker, amount) * count
        have = sum(getattr(room, amount) * capacity[room] for room in usable)
        if need > have + HAIR:
            short.append(f"needs {need:g} {what}{group}, {have:g} {word}")
    if not short and pack(capacity, replace(request, data_cpus=0.0)) is None:
        size = f"{worker.cpu:g} CPUs" + (f" and {worker.gpu:g} GPUs" if worker.gpu else "")
        short.append(
            f"needs {count} times {size}{group}, each inside one Pod; that is {word} by "
            "sum but not by Pod"
        )
    if not short:
        data = of_group(capacity, request.data_group)
        have = sum(math.floor(room.cpu + HAIR) * capacity[room] for room in data)
        short.append(f"needs {request.data_cpus:g} CPUs for data, {have:g} {word} beside workers")
    return ", ".join(short)
