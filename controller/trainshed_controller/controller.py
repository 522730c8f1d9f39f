"""One turn of a key: observe, decide, execute. Keeps what may be forgotten at a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trainshed_controller.cache import cluster_of
from trainshed_controller.clock import Clock
from trainshed_controller.cluster_queues import ClusterQueues
from trainshed_controller.connection import RUNS
from trainshed_controller.decide import decide, wants_room
from trainshed_controller.errors import (
    ApiError,
    BugError,
    ConflictError,
    GoneError,
    RefusedError,
    share_of,
)
from trainshed_controller.merge_patch import merge_patch
from trainshed_controller.model import Key, Note, Refusal
from trainshed_controller.project import Conditions, Said, with_conditions
from trainshed_controller.render import render_attempt, render_policy
from trainshed_controller.status import whole

if TYPE_CHECKING:
    from datetime import datetime

    from trainshed_api.json_object import JsonObject
    from trainshed_api.status import TrainingRunStatus
    from trainshed_controller.cache import Cache
    from trainshed_controller.cluster import Cluster
    from trainshed_controller.events import EventPoster
    from trainshed_controller.metrics import Metrics
    from trainshed_controller.model import Observed, Plan, RunView, Settings
    from trainshed_controller.observe import Observer
    from trainshed_controller.queue import WorkQueue

log = logging.getLogger("trainshed.controller")

Decide = Callable[["RunView", "Observed", "Settings", "datetime"], "Plan"]
_SOON_SECONDS = 1.0
_LONGEST_ERROR = 1000
# An API server takes three times as many, but it has others to serve.
_PROGRESS_WRITES_PER_SECOND = 40.0


@dataclass(eq=False)
class Controller:
    """Does what is decided.

    Args:
        key: what bearer tokens are made with.
        decide: the decision about a run.
        tell: takes a run before and after its status was written.
    """

    cache: Cache
    cluster: Cluster
    observer: Observer
    events: EventPoster
    queue: WorkQueue
    settings: Settings
    metrics: Metrics
    key: bytes
    clock: Clock = field(default_factory=Clock)
    decide: Decide = decide
    tell: Callable[[RunView, RunView], None] = lambda before, after: None  # noqa: ARG005
    _written: dict[str, float] = field(default_factory=dict)
    # Why the API server does not take the RayJob of a run, by uid of the run.
    _refusals: dict[str, Refusal] = field(default_factory=dict)
    _unreadable: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        prober = self.observer.prober
        self.queues = ClusterQueues(self.cache, prober.ask, prober.forget, self.clock)

    async def work(self, key: Key) -> float | None:
        """Do what is due for a key; return when to come again."""
        with self.metrics.turn(key):
            return await self._turn(key)

    async def _turn(self, key: Key) -> float | None:
        if key.kind == "cluster":
            again_after, broken = self.queues.admit(key, self.queue.enqueue)
            for run, error in broken:
                await self._tell_internal_error(Key("run", run.namespace, run.name), error)
            return again_after
        view = self.cache.runs.get(key.namespace, key.name)
        if view is None:
            return None
        if view.unreadable:
            self._tell_unreadable(view)
            return None
        seen = await self.observer.see(view, self.queues.places.get(view.uid))
        seen = replace(seen, refusal=self._refusals.get(view.uid))
        now = self.clock.now()
        plan = self.decide(view, seen, self.settings, now)
        cluster = cluster_of(view, self.settings)
        if cluster and seen.place is None and wants_room(view, now):
            self.queue.enqueue(Key("cluster", view.namespace, cluster))
        return await self._execute(view, plan)

    def begin_term(self) -> None:
        """Forget what was decided before another replica acted."""
        self.queues.places.clear()
        self._refusals.clear()
        self.observer.snapshots.forget_silent()

    def _tell_unreadable(self, view: RunView) -> None:
        """Post one Event about a run that is left alone until its status can be read."""
        if view.uid not in self._unreadable:
            self._unreadable.add(view.uid)
            text = f"{view.unreadable}; the run is left alone until a release that knows it is back"
            self.events.post(view, Note("Warning", "StatusUnreadable", text))

    def forget(self, view: RunView) -> None:
        """Forget a run that is gone."""
        self._unreadable.discard(view.uid)
        self.queues.places.pop(view.uid, None)
        self._written.pop(view.uid, None)
        self._refusals.pop(view.uid, None)
        self.observer.forget(view.uid)

    async def _execute(self, view: RunView, plan: Plan) -> float | None:
        """Write the status, then do the rest; what fails in between is done in a later turn."""
        patch = _patch(view, plan.status)
        delay = self._wait_before(view, plan) if patch else None
        if delay:
            return min(delay, plan.again_after or delay)
        before = view
        try:
            view = await self._write(view, patch) if patch else view
        except GoneError:
            if await self.cluster.uid_of(RUNS, view.namespace, view.name) == view.uid:
                raise  # it is there: whoever said so was wrong
            # Its deletion was missed.
            self.cache.runs.drop(view)
            self.forget(view)
            return None
        # Before what may fail: in a later turn the status has turned already.
        for note in plan.notes:
            self.metrics.transition(before, view)
            log.info(note.message, extra={"run": view.path, "phase": note.reason})
            self.events.post(view, note)
        if plan.begin is not None:
            await self._create(view, plan.begin)
        for job in plan.delete_jobs:
            log.info("delete RayJob", extra={"run": view.path, "rayjob": job.name})
            if not await self.cluster.delete_job(job):
                self.cache.jobs.drop(job)  # its deletion was missed
        if plan.delete_run:
            await self.cluster.delete_run(view)
        if view is not before:
            # The write has consequences, and the watch will not report it again.
            return min(plan.again_after or _SOON_SECONDS, _SOON_SECONDS)
        return plan.again_after

    def _wait_before(self, view: RunView, plan: Plan) -> float | None:
        """Return for how long to hold back what is progress only: longer with many runs."""
        if plan.urgent or plan.begin is not None or plan.delete_jobs or plan.delete_run:
            return None
        active = len(self.observer.snapshots)
        shortest = self.settings.progress_interval_seconds
        interval = progress_interval(view.uid, active, shortest)
        now = self.clock.monotonic()
        # Of many runs that are seen first at a restart each writes at another moment.
        written = self._written.setdefault(view.uid, now - min(interval, shortest))
        left = written + interval - now
        return left if left > 0 else None

    async def _write(self, view: RunView, patch: JsonObject) -> RunView:
        try:
            written = await self.cluster.patch_status(view, patch)
        except ConflictError:
            # Read the current state; the next reconcile decides again.
            fresh = await self.cluster.get_run(view.namespace, view.name)
            if fresh:
                if fresh.uid != view.uid:
                    self.forget(view)  # created again; no watch will report the old one's end
                self.cache.runs.put(fresh)
            raise
        self.metrics.status_writes.inc()
        self._written[view.uid] = self.clock.monotonic()
        self.observer.snapshots.written(view.uid)
        # The watch will say the same later; until then nobody decides on what was.
        self.cache.runs.put(written)
        self.tell(view, written)
        clusters = {cluster_of(each, self.settings) for each in (view, written)}
        for cluster in sorted(clusters - {""}):  # in one order, so that it can happen again
            self.queue.enqueue(Key("cluster", view.namespace, cluster))
        return written

    async def _create(self, view: RunView, number: int) -> None:
        """Create the RayJob of an attempt that is in the status; adopt an existing one."""
        self.queues.places.pop(view.uid, None)  # its status has what it holds
        shared = self.cache.clusters.get(view.namespace, cluster_of(view, self.settings))
        groups = shared.groups if shared else ()
        manifest = render_attempt(view, number, self.settings, self.key, groups)
        policy = render_policy(view, self.settings)
        try:
            if policy:  # before the Pods that it protects
                await self.cluster.create_policy(policy)
            made = await self.cluster.create_job(manifest)
            self.metrics.attempts.inc()
            self._refusals.pop(view.uid, None)
        except RefusedError as error:
            # A quota, a policy, a webhook: said in the status, and tried again slowly.
            self._refusals[view.uid] = Refusal(number, error.message, self.clock.now())
            self.queue.enqueue(Key("run", view.namespace, view.name))
            return
        except ConflictError:
            name = view.status.attempts[-1].ray_job
            there = await self.cluster.get_job(view.namespace, name)
            if there is None or there.deleting or there.owner != view.uid:
                raise  # going: it will be gone; somebody else's: it has to go first
            made = there
        self.cache.jobs.put(made)

    async def trouble(self, key: Key, error: Exception, pause: float) -> None:
        """Log a failed reconcile; an internal error is reported in the run's conditions as well."""
        if isinstance(error, RefusedError):
            log.warning("%s", error, extra={"run": f"{key.namespace}/{key.name}"})
            await self._tell(key, "RequestRefused", str(error))
            return
        if isinstance(error, ApiError) and not isinstance(error, BugError):
            log.warning(
                "%s; again in %.1f s", error, pause, extra={"run": f"{key.namespace}/{key.name}"}
            )
            return
        await self._tell_internal_error(key, error)

    async def _tell_internal_error(self, key: Key, error: Exception) -> None:
        self.metrics.internal_errors.inc()
        where = {"kind": key.kind, "run": f"{key.namespace}/{key.name}"}
        log.error("internal error", exc_info=error, extra=where)
        await self._tell(key, "ControllerFailed", f"{type(error).__name__}: {error}")

    async def _tell(self, key: Key, reason: str, message: str) -> None:
        """Write into a run's conditions why it is not looked after; else post it as an Event."""
        view = self.cache.runs.get(key.namespace, key.name) if key.kind == "run" else None
        if view is None or view.unreadable:
            return
        text = f"{message[:_LONGEST_ERROR]}; the controller's log has more, and it tries again"
        said: Conditions = {"InternalError": Said(True, reason, text)}
        now, generation = whole(self.clock.now()), view.generation
        try:
            if patch := _patch(view, with_conditions(view.status, said, now, generation)):
                written = await self.cluster.patch_status(view, patch)
                self.cache.runs.put(written)
                self.tell(view, written)
        except Exception as again:  # it is in the log, and the look is repeated
            log.warning("cannot tell the run: %s", again, extra={"run": view.path})
            self.events.post(view, Note("Warning", reason, message))


def progress_interval(uid: str, active: int, shortest: float) -> float:
    """Return the seconds between two writes of a run's progress, which differ from run to run."""
    return max(shortest, active / _PROGRESS_WRITES_PER_SECOND) * (1.0 + 0.2 * share_of(uid))


def _patch(view: RunView, status: TrainingRunStatus) -> JsonObject:
    """Return the fields that changed; what a later release wrote stays."""
    if status == view.status:
        return {}
    old, new = (
        each.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        for each in (view.status, status)
    )
    return merge_patch(old, new)
