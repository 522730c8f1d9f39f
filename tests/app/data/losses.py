"""Passes over datasets that lose a rank, the feeder with the head, or a node of the data."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import ray
from pydantic import JsonValue
from ray.actor import ActorHandle
from ray.cloudpickle import register_pickle_by_value
from ray.cluster_utils import Cluster

from tests.app.data import numbered, row_numbers
from tests.app.data.builders_plan import FUNCTIONS, MemoryBlocks, make_pass, make_plan
from tests.app.ray_head import keep_idle
from tests.ray_starts import kept_folder
from trainshed.data.loader.batches import Batch, Feed
from trainshed.data.loader.data_server import DataServer, ExecutionLimits
from trainshed.data.loader.disk_cache import DiskCache
from trainshed.data.loader.row_sources import RemoteSource
from trainshed.data.sampler.dataset_plan import DatasetPlan, OrderFingerprint
from trainshed.data.sampler.epoch_pass import EpochPass
from trainshed.data.sampler.permutation import Indices
from trainshed.failures import InfrastructureError, classify
from trainshed.storage.disk import Disk

if TYPE_CHECKING:
    from trainshed.data.loader.prefetch import Prefetched

# A process of Ray imports what a class of this module needs, instead of the module: 2 s less each.
register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

ROWS, FILES, WIDTH = 1200, 4, 1024
BATCH = 36
# Ways of a run whose rows are held up: each has a CPU until its gate opens.
MOST_GATED = 2
SECONDS = 600.0
STORE_BYTES = 120 * 2**20
# What is looked at often enough that a test does not wait for it.
HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 300,
    "health_check_failure_threshold": 5,
}
# (number, draw of its augmentation) of each row of a step of one rank.
Step = list[tuple[int, int]]
Counted = dict[str, Indices]
Loss = Literal["rank", "head", "node"]
SHUFFLES: dict[str, JsonValue] = {
    "none": {"mode": "none"},
    "files": {"mode": "files"},
    "blocks": {"mode": "blocks"},
    "local": {"mode": "local", "bufferSize": 100},
    "files and a buffer": {"mode": "files", "bufferSize": 100},
    "blocks and a buffer": {"mode": "blocks", "bufferSize": 100},
    "global": {"mode": "global"},
}
CACHES = {
    "streamed": "none",
    "objects": "objects",
    "disk": "disk",
    "workers": "workers",
}


@dataclass(frozen=True)
class Way:
    """What files hold, how rows are mixed, and who reads them or where they are kept."""

    format: str
    mode: str
    cache: str

    @property
    def is_gated(self) -> bool:
        """Say whether rows at its end can be held up while those at its beginning come."""
        return self.cache == "streamed" and self.mode != "global"

    def __str__(self) -> str:
        return f"{self.format}, {self.mode}, {self.cache}"


@dataclass(frozen=True)
class Case:
    """What is lost, and when.

    Args:
        loss: of the last rank, of the head with all ranks, or of a node of the data.
        saved: steps that lie behind the checkpoint.
        lost: steps that were taken when something was lost.
        ranks: before, and of those who go on after a checkpoint.
        seed: of the order.
    """

    loss: Loss
    saved: int = 4
    lost: int = 6
    ranks: tuple[int, int] = (2, 3)
    seed: int = 0


class Rank:
    """A rank in a process of its own, in the middle of passes over several datasets."""

    def __init__(self) -> None:
        self._feeds: dict[tuple[str, int], Feed] = {}
        self._open: dict[str, Prefetched[Batch]] = {}

    def begin(
        self, plan: DatasetPlan, at: EpochPass, data_server: ActorHandle[DataServer], rank: int
    ) -> None:
        """Begin a pass, as a worker does that keeps what it knows of a dataset over epochs."""
        key = (plan.name, at.group)
        if key not in self._feeds:
            fed = RemoteSource(plan, data_server, rank)
            self._feeds[key] = Feed(plan, fed, rank, uncounted=fed)
        self._open[plan.name] = self._feeds[key].batches(at)

    def take(self, name: str, steps: int | None = None) -> list[Step]:
        """Return the next steps of a pass; all that are left if nobody says how many."""
        return [step_of(batch) for batch in islice(self._open[name], steps)]

    def counted(self, name: str, group: int) -> Counted:
        """Return what a checkpoint would have of the rows of a dataset."""
        return self._feeds[name, group].counted

    def leave(self) -> None:
        """Leave all passes."""
        while self._open:
            self._open.popitem()[1].close()


def step_of(batch: Batch) -> Step:
    """Return the rows of a batch that count."""
    ids, draws = (batch.tensors[name].tolist()[: batch.rows] for name in ("id", "draw"))
    return [(int(number), int(draw)) for number, draw in zip(ids, draws, strict=True)]


@dataclass
class Site:
    """A Ray with a node of its own for the ranks and the feeder, and two for the data."""

    cluster: Cluster
    ranks: list[ActorHandle[Rank]] = field(default_factory=list)

    def lose_node(self) -> None:
        """Kill a node of the data with all that lies on it."""
        self.cluster.remove_node(self._data_nodes()[0], allow_graceful=False)

    def lose_nodes(self) -> None:
        """Kill all nodes of the data, and have one with a single CPU instead."""
        while self._data_nodes():
            self.lose_node()
        add_node(self.cluster, "data", cpus=1)

    def restore(self) -> None:
        """Have both nodes of the data again."""
        while len(self._data_nodes()) < 2:
            add_node(self.cluster, "data", cpus=MOST_GATED)

    def rank(self, number: int) -> ActorHandle[Rank]:
        """Return a rank's process, which is started where there is none."""
        while len(self.ranks) <= number:
            actor = ray.remote(Rank).options(num_cpus=0, label_selector={"side": "head"})
            self.ranks.append(cast("ActorHandle[Rank]", actor.remote()))
        return self.ranks[number]

    def kill_rank(self, number: int) -> None:
        """Kill a rank's process; the others leave their passes."""
        ray.kill(self.ranks.pop(number))
        ray.get([cast("Any", rank).leave.remote() for rank in self.ranks], timeout=SECONDS)

    def kill_ranks(self) -> None:
        """Kill all of them."""
        while self.ranks:
            ray.kill(self.ranks.pop())

    def _data_nodes(self) -> list[Any]:
        return list(self.cluster.worker_nodes)


@contextmanager
def start_site() -> Iterator[Site]:
    """Run it, with this process on the head."""
    cluster, kept = Cluster(), kept_folder()
    (kept.parent / "ray").mkdir(exist_ok=True)  # in which it notes its address
    with keep_idle():
        try:
            add_node(
                cluster,
                "head",
                cpus=0,
                include_dashboard=False,
                temp_dir=str(kept),
                _system_config=HEALTH,
            )
            site = Site(cluster)
            site.restore()
            ray.init(address=cluster.address, log_to_driver=False)
            yield site
        finally:
            ray.shutdown()
            cluster.shutdown()  # type: ignore[no-untyped-call]


def add_node(cluster: Cluster, side: str, cpus: int, **more: object) -> None:
    """Add a node."""
    cluster.add_node(
        wait=True,
        num_cpus=cpus,
        object_store_memory=STORE_BYTES,
        labels={"side": side},
        **more,
    )


def plan_of(
    way: Way, folder: Path, gate: Path | None = None, held: Sequence[int] = ()
) -> DatasetPlan:
    """Return the plan of a way's files; with a gate for the rows that are held."""
    options: JsonValue = {"width": WIDTH}
    if gate:
        options = {"width": WIDTH, "gate": str(gate), "held": list(held)}
    plan = make_plan(
        folder / way.format,
        row_bytes=4.0 * WIDTH,
        may_learn=True,
        cache=CACHES[way.cache],
        shuffle=SHUFFLES[way.mode],
        transforms=[{"use": f"{row_numbers.__name__}:widened", "options": options}],
        augment=[{"use": f"{FUNCTIONS}:noise"}],
        feed={"lastBatch": "keep"},
        read=numbered.read_of(way.format, folder / way.format),
    )
    return replace(plan, name=str(way))


def undisturbed(way: Way, folder: Path, epoch: int, seed: int) -> list[Step]:
    """Return the steps of an epoch of one rank that nothing befalls, made without Ray."""
    plan = replace(plan_of(way, folder), cache="none", may_learn=False)
    at = make_pass(epoch=epoch, world_size=1, batch_size=BATCH, seed=seed)
    return [step_of(batch) for batch in Feed(plan, MemoryBlocks(plan, 0), 0).batches(at)]


@dataclass
class Run:
    """What a run does with its datasets, one after the other, without any training.

    Args:
        site: where.
        folder: of the files.
        home: of what the attempts keep, and of the gate.
        case: what befalls it.
        want: by way, the steps of the first epoch that nothing befalls.
    """

    site: Site
    folder: Path
    home: Path
    case: Case
    want: Mapping[Way, list[Step]]
    group: int = 0
    attempt: int = 0
    world_size: int = 0
    plans: dict[Way, DatasetPlan] = field(default_factory=dict)

    def __post_init__(self) -> None:
        gated = [way for way in self.want if way.is_gated][:MOST_GATED]
        for way, steps in self.want.items():
            held = [number for step in steps[len(steps) * 3 // 4 :] for number, _ in step]
            gate = (self.gate, held) if way in gated else (None, ())
            self.plans[way] = plan_of(way, self.folder, *gate)
        self.world_size = self.case.ranks[0]
        self.start_data_server()

    @property
    def gate(self) -> Path:
        """Return the file without which the last quarter of rows does not come."""
        return self.home / "go"

    def start_data_server(self) -> None:
        """Start an attempt's feeder; it finds what those before it kept on disk."""
        self.attempt += 1
        shelves = [Disk(self.home / str(number)) for number in range(self.attempt, 0, -1)]
        actor = ray.remote(DataServer).options(
            num_cpus=0, max_concurrency=32, label_selector={"side": "head"}
        )
        named = {plan.name: plan for plan in self.plans.values()}
        limits, disk_cache = (
            ExecutionLimits(1, (("side", "data"),)),
            DiskCache(shelves[0], tuple(shelves[1:])),
        )
        self.data_server = cast(
            "ActorHandle[DataServer]", actor.remote(named, limits, print, disk_cache)
        )
        cast("Any", self.data_server).start.remote()

    def begin(self, way: Way, epoch: int = 0, first_step: int = 0) -> None:
        """Begin a pass on all ranks."""
        at = replace(
            make_pass(
                epoch=epoch,
                first_step=first_step,
                world_size=self.world_size,
                batch_size=BATCH,
                seed=self.case.seed,
                group=self.group,
            ),
            dataset=self.plans[way].name,
        )
        begun = [
            cast("Any", self.site.rank(rank)).begin.remote(
                self.plans[way], at, self.data_server, rank
            )
            for rank in range(self.world_size)
        ]
        ray.get(begun, timeout=SECONDS)

    def take(self, way: Way, steps: int | None = None) -> list[Step]:
        """Return the next steps, or all, of what all ranks have in them together, in order."""
        name = self.plans[way].name
        taken = [self.site.rank(rank).take.remote(name, steps) for rank in range(self.world_size)]
        by_rank: list[list[Step]] = ray.get(taken, timeout=SECONDS)
        return [sorted(chain.from_iterable(step)) for step in zip(*by_rank, strict=True)]

    def counted(self, way: Way) -> Counted:
        """Return what a checkpoint has of the rows of a dataset."""
        rank = cast("Any", self.site.rank(0))  # Ray's types say that this never returns
        asked = rank.counted.remote(self.plans[way].name, self.group)
        return cast("Counted", ray.get(asked, timeout=SECONDS))

    def go_on(self) -> None:
        """Have another group go on."""
        self.group, self.world_size = self.group + 1, self.case.ranks[1]

    def lose_rank(self) -> None:
        """Kill the last rank, and have another group go on beside the same feeder."""
        self.site.kill_rank(self.world_size - 1)
        self.go_on()

    def lose_head(self, saved: Mapping[Way, Counted]) -> None:
        """Kill all but the nodes of the data, and begin anew with what a checkpoint has."""
        self.site.kill_ranks()
        ray.kill(self.data_server)
        for way, plan in self.plans.items():
            counts = saved[way].get(plan.name)
            kept = None if counts is None else tuple(np.asarray(counts).tolist())
            self.plans[way] = replace(plan, kept=OrderFingerprint(kept, under_way=True))
        self.start_data_server()
        self.group, self.world_size = 0, self.case.ranks[1]

    def end(self) -> None:
        """Leave nothing behind: ranks know datasets by name, and whom they asked for them."""
        self.site.kill_ranks()
        ray.kill(self.data_server)
        self.site.restore()


def befall(run: Run) -> dict[Way, list[Step]]:
    """Return the steps of the first epoch by way, of what lies behind checkpoints and goes on."""
    case, ways = run.case, list(run.plans)
    found: dict[Way, list[Step]] = {}
    saved: dict[Way, Counted] = {}
    for way in ways:
        run.begin(way)
        found[way] = run.take(way, case.saved)
        saved[way] = run.counted(way)
        found[way] += run.take(way, case.lost - case.saved)
    if case.loss == "node":
        run.site.lose_node()
        run.gate.touch()
        rest = {way: _rest_or_fault(run, way) for way in ways}
        if any(steps is None for steps in rest.values()):
            # As where a worker ends by a fault of the world: all begin again at the checkpoint.
            ray.get([cast("Any", each).leave.remote() for each in run.site.ranks], timeout=SECONDS)
            run.go_on()
            for way in ways:
                run.begin(way, first_step=case.saved)
                rest[way] = run.take(way)
                found[way] = found[way][: case.saved]
        run.site.restore()
        return {way: found[way] + (rest[way] or []) for way in ways}
    if case.loss == "rank":
        run.lose_rank()
    else:
        run.lose_head(saved)
    run.gate.touch()
    for way in ways:
        run.begin(way, first_step=case.saved)
        again = run.take(way)
        want = found[way][case.saved :]
        assert again[: len(want)] == want, f"{way}: steps that were taken again are others"
        found[way] = found[way][: case.saved] + again
    return found


def _rest_or_fault(run: Run, way: Way) -> list[Step] | None:
    try:
        return run.take(way)
    except Exception as error:
        if isinstance(error, InfrastructureError) or classify(error) == "node":
            return None
        raise
