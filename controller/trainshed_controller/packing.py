"""How workers and data fit into Pods. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from trainshed_controller.model import Room

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trainshed_api.status import ResourceRequest
    from trainshed_controller.model import GroupView

# Sums of binary fractions such as 0.1 are not exact.
HAIR = 1e-9

# Pods of workers, by what each has free.
Capacity = Counter[Room]


def capacity_of(groups: Iterable[GroupView]) -> Capacity:
    """Return what worker groups have when all of them is there."""
    capacity: Capacity = Counter()
    for group in groups:
        capacity[group.room] += group.wanted
    return capacity


def pack(capacity: Capacity, request: ResourceRequest) -> Capacity | None:
    """Return the remaining capacity after workers and data are placed; None if they do not fit."""
    left = Counter(capacity)
    if not place_workers(left, request) and not place_data(left, request):
        return left
    # As drivers do: workers that belong nowhere leave the data's Pods to it where there are others.
    left = Counter(capacity)
    if not place_data(left, request) and not place_workers(left, request):
        return left
    return None


def place_workers(left: Capacity, request: ResourceRequest) -> int:
    """Subtract the workers from the nodes; return how many do not fit."""
    # The fullest Pods first, and those without GPUs for workers that need none: what is whole
    # stays whole for whoever needs it.
    kinds = of_group(left, request.group)
    by_size = sorted(kinds, key=lambda room: (room.gpu, room.cpu, room.memory))
    # What nobody asks for, such as 1e-320 CPUs, counts as nothing.
    each = (round(amount, 9) for amount in (request.cpu, request.gpu, request.memory))
    return _place(left, by_size, request.count, Room(request.group, *each))


def place_data(left: Capacity, request: ResourceRequest) -> int:
    """Subtract the CPUs of the data from the nodes; return how many do not fit."""
    by_gpu = sorted(of_group(left, request.data_group), key=lambda room: (room.gpu, room.cpu))
    return _place(left, by_gpu, math.ceil(request.data_cpus), Room("", 1.0, 0.0, 0.0))


def _place(
    left: Capacity,
    order: Sequence[Room],
    count: int,
    piece: Room,
) -> int:
    """Subtract pieces from the nodes in this order; return how many do not fit.

    Capacity that are alike are taken together: a cluster has few kinds of them, and many of each.
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


def of_group(capacity: Capacity, group: str) -> list[Room]:
    """Return the kinds of Pods of the group; all of them where no Pod has such a label."""
    there = [room for room, count in capacity.items() if count]
    return [room for room in there if room.group == group] or there


def _most_workers(room: Room, worker: Room) -> int:
    """Return how many workers of this size fit on one node."""
    fits = [
        math.floor(have / need + HAIR)
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
