"""Whether a run fits the Ray cluster that it joins, by the arithmetic of its nodes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed.data.sampler.sizes import CacheMemory, WorkerNode
from trainshed_api.data import DataSpec
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import NODE_GROUP_LABEL
from trainshed_api.quantity import parse_bytes, parse_cores
from trainshed_api.transforms import TaskSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed_api.v1alpha1 import TrainingRunSpec

GIB = 2**30


@dataclass(frozen=True)
class Node:
    """A node of the cluster: what Ray may give away in all, and what nobody has now."""

    labels: Mapping[str, str]
    total: Mapping[str, float]
    free: Mapping[str, float]

    @property
    def group(self) -> str | None:
        """Return the group of nodes that it belongs to."""
        return self.labels.get(NODE_GROUP_LABEL)


@dataclass(frozen=True)
class ClusterNodes:
    """The nodes of the cluster.

    Args:
        nodes: all of them.
        waits: whether a lack of nodes may pass: the cluster grows by itself, or somebody who knows
            it let the run in.
        coming: the nodes of groups that are known to have these when all are there.
    """

    nodes: Sequence[Node]
    waits: bool = False
    coming: Sequence[Node] = ()

    @property
    def groups(self) -> frozenset[str]:
        """Return the names of the groups that the nodes are in."""
        return frozenset(node.group for node in [*self.nodes, *self.coming] if node.group)

    @property
    def whole(self) -> ClusterNodes:
        """Return the cluster when all of it is there, as far as that is known."""
        known = {node.group for node in self.coming}
        return ClusterNodes(
            [*self.coming, *(n for n in self.nodes if n.group not in known)], self.waits
        )

    def within(self, group: str) -> list[Node]:
        """Return the nodes of a group; all of them where no node says its group."""
        if not group or not self.groups:
            return list(self.nodes)
        return [node for node in self.nodes if node.group == group]


def worker_resources(spec: TrainingRunSpec) -> dict[str, float]:
    """Return what Ray is asked for one worker."""
    resources = spec.workers.resources
    wanted: dict[str, float] = {"CPU": parse_cores(resources.cpu)}
    if resources.gpu:
        wanted["GPU"] = resources.gpu
    if resources.memory:
        wanted["memory"] = parse_bytes(resources.memory)
    return wanted


def check_capacity(spec: TrainingRunSpec, cluster: ClusterNodes) -> list[str]:
    """Return what a run has to wait for or do without, one line each.

    Raises:
        SpecError: when it could never start on this cluster.
    """
    group = spec.workers.group
    if group and cluster.groups and group not in cluster.groups and not cluster.waits:
        known = ", ".join(sorted(cluster.groups))
        raise SpecError([Problem("spec.workers.group", group, f"one of: {known}")])
    notes = [*_check_workers(spec, cluster), *_check_data(spec, cluster)]
    return [*notes, *_check_tasks(spec, cluster)]


def _check_workers(spec: TrainingRunSpec, cluster: ClusterNodes) -> list[str]:
    wanted, count = worker_resources(spec), spec.workers.count
    nodes = cluster.within(spec.workers.group)
    in_group = spec.workers.group and cluster.groups
    place = f"group {spec.workers.group}" if in_group else "the cluster"
    most = sum(_fits(node.total, wanted) for node in nodes)
    needs = f"{count} x ({_say(wanted)})"
    has = _say({name: sum(node.total.get(name, 0.0) for node in nodes) for name in wanted})
    holds = f"{place} has {has} on {len(nodes)} nodes, enough for {most}"
    if "GPU" in wanted and not any(node.total.get("GPU") for node in nodes):
        holds += "; --cpu trains without GPUs"
    if most < count and not cluster.waits:
        raise SpecError([Problem("spec.workers", needs, f"what fits: {holds}")])
    if most < count:
        return [f"waiting for nodes: {needs} are needed, {holds}"]
    now = sum(_fits(node.free, wanted) for node in nodes)
    if now < count:
        return [f"waiting for capacity: {needs} are needed, {place} can take {now} of {most}"]
    return []


def _check_data(spec: TrainingRunSpec, cluster: ClusterNodes) -> list[str]:
    """Look whether a CPU is left for the data: without one, its tasks would wait for ever."""
    if not spec.data.datasets:
        return []
    wanted, cluster = worker_resources(spec), cluster.whole
    theirs = cluster.within(spec.data.placement) or list(cluster.nodes)
    elsewhere = [n for n in cluster.within(spec.workers.group) if n not in theirs]
    beside = max(0, spec.workers.count - sum(_fits(node.total, wanted) for node in elsewhere))
    cpus = sum(node.total.get("CPU", 0.0) for node in theirs)
    left = cpus - beside * wanted["CPU"]
    if left >= spec.data.cpus:
        return []
    taken = f"{cpus:g} CPUs less {beside} workers x {wanted['CPU']:g}"
    if left < 1 and not cluster.waits:
        expected = f"at least one CPU that no worker takes: {taken} leaves {max(left, 0):g}"
        raise SpecError([Problem("spec.data.cpus", str(spec.data.cpus), expected)])
    return [f"spec.data.cpus: {spec.data.cpus} are asked for, {taken} leaves {max(left, 0):g}"]


def _check_tasks(spec: TrainingRunSpec, cluster: ClusterNodes) -> Iterator[str]:
    """Yield a line for each dataset whose tasks fit no node yet: they would wait for ever."""
    cluster = cluster.whole
    theirs = cluster.within(spec.data.placement) or list(cluster.nodes)
    left = [_left_by_workers(node, spec, cluster) for node in theirs]
    beside = any(there != node.total for there, node in zip(left, theirs, strict=True))
    for dataset_name, dataset in spec.data.datasets.items():
        if dataset.task == TaskSpec():
            continue
        wanted: dict[str, float] = {"CPU": dataset.task.cpus}
        if dataset.task.memory:
            wanted["memory"] = parse_bytes(dataset.task.memory)
        if any(_fits(there, wanted) for there in left):
            continue
        field = f"spec.data.datasets.{dataset_name}.task"
        largest = {
            name: max((there.get(name, 0.0) for there in left), default=0.0) for name in wanted
        }
        has = f"no node of the data has that: they have at most {_say(largest)}"
        if beside:
            has = f"no node of the data has that beside workers: {_say(largest)} are left at most"
        if not cluster.waits:
            expected = "what one node has that reads"
            raise SpecError([Problem(field, _say(wanted), f"{expected}: {has}")])
        yield f"{field}: waiting for a node with {_say(wanted)}: {has}"


def _left_by_workers(
    node: Node, spec: TrainingRunSpec, cluster: ClusterNodes
) -> Mapping[str, float]:
    """Return what a node has left after the workers that fit no other node."""
    wanted, theirs = worker_resources(spec), cluster.within(spec.workers.group)
    if node not in theirs:
        return node.total
    here = _fits(node.total, wanted)
    elsewhere = sum(_fits(each.total, wanted) for each in theirs) - here
    workers = min(here, max(0, spec.workers.count - elsewhere))
    if not workers:
        return node.total
    return {name: has - workers * wanted.get(name, 0.0) for name, has in node.total.items()}


def _fits(there: Mapping[str, float], wanted: Mapping[str, float]) -> int:
    """Return how many workers one node holds; Ray counts in ten-thousandths."""
    return int(min(there.get(name, 0.0) / amount + 1e-4 for name, amount in wanted.items()))


def _say(resources: Mapping[str, float]) -> str:
    parts = []
    for name, amount in resources.items():
        if name == "memory":
            parts.append(f"{amount / GIB:.3g}Gi")
        else:
            parts.append(f"{amount:g} {name}s")
    return ", ".join(parts)


def group_label(group: str, cluster: ClusterNodes) -> tuple[dict[str, str], str | None]:
    """Return the node labels that keep work in a group, and a note if no node has them."""
    if not group:
        return {}, None
    if group in cluster.groups or (cluster.waits and cluster.groups):
        return {NODE_GROUP_LABEL: group}, None
    if group == DataSpec().placement:  # the default, which names a group of the chart's cluster
        return {}, None
    return {}, f"ignored, because no node has the label {NODE_GROUP_LABEL}={group}"


def worker_label(spec: TrainingRunSpec, cluster: ClusterNodes) -> Mapping[str, str]:
    """Return the node labels that keep the workers where they belong.

    Workers that belong nowhere stay away from the data's nodes where they would take its last
    CPUs, as long as there are others, be it later: data without a CPU would wait for them, and they
    for it.
    """
    if spec.workers.group:
        return group_label(spec.workers.group, cluster)[0]
    if spec.data.placement not in cluster.groups or not spec.data.datasets:
        return {}
    cluster = cluster.whole
    wanted, count = worker_resources(spec), spec.workers.count
    theirs = cluster.within(spec.data.placement)
    cpus = sum(node.total.get("CPU", 0.0) for node in theirs)
    elsewhere = sum(_fits(node.total, wanted) for node in cluster.nodes if node not in theirs)
    if cpus - count * wanted["CPU"] >= spec.data.cpus or elsewhere < count:
        return {}
    return {NODE_GROUP_LABEL: f"!{spec.data.placement}"}


def cluster_memory(spec: TrainingRunSpec, cluster: ClusterNodes) -> CacheMemory:
    """Return the memory that caches may count on."""
    wanted = worker_resources(spec)
    nodes = [
        WorkerNode(fits, _known(node, "memory"), _known(node, "object_store_memory"))
        for node in cluster.within(spec.workers.group)
        if (fits := min(_fits(node.total, wanted), spec.workers.count))
    ]
    worker = int(wanted.get("memory", 0))
    if not worker:
        # The rest of a node that runs as many workers as fit.
        worker = min(((node.memory or 0) // node.workers for node in nodes), default=0)
    theirs = cluster.within(spec.data.placement) or cluster.nodes
    store = int(sum(node.total.get("object_store_memory", 0.0) for node in theirs))
    return CacheMemory(worker, store, tuple(nodes))


def _known(node: Node, name: str) -> int | None:
    """Return what a node has; None where it does not say, or says that nobody counts it."""
    amount = node.total.get(name, math.inf)
    return int(amount) if math.isfinite(amount) else None
