"""From a TrainingRun to the end of its next attempt: checked, resumed, claimed, run.

The same on one machine and as the driver of a job in a cluster; a job joins its cluster first, and
tells the controller, where there is one, whatever comes of it.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed.failures import InfrastructureError
from trainshed.jobs.cluster_error import ClusterError
from trainshed.planning import code
from trainshed.planning.paths import locate
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.driver_identity import read_identity
from trainshed.storage.run_folder import RESULT, read_record
from trainshed_api.errors import Problem, SpecError
from trainshed_api.loading import load_text
from trainshed_api.names import ENV_HOME, ENV_SPEC, EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TRY_AGAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed.attempt.signals import Stop
    from trainshed.attempt.snapshot_publisher import SnapshotPublisher
    from trainshed.planning.preflight import Prepared
    from trainshed.storage.folder import Folder
    from trainshed_api.records import ResultRecord
    from trainshed_api.v1alpha1 import TrainingRunResource

# Changed files that are named.
MOST_NAMED = 5


@dataclass(frozen=True)
class RunOptions:
    """What the user wants beyond the TrainingRun.

    Args:
        fresh: start over instead of resuming.
        started: when this process began, seconds since 1970.
        stop: what asks it to end.
    """

    fresh: bool
    started: float
    stop: Stop


def begin(
    run: TrainingRunResource,
    place: RunLocation,
    beside: Path,
    options: RunOptions,
    publisher: SnapshotPublisher | None = None,
) -> int:
    """Run the next attempt of a run and return the exit code.

    Args:
        run: as it was read.
        place: where it runs.
        beside: where an entrypoint's script may lie.
        options: of the user.
        publisher: what tells a controller.

    Raises:
        SpecError: when it cannot be accepted; nothing was started.
        AttemptHeldError: when another driver is at work.
        StopRequestedError: when a stop was requested before an attempt was claimed.
    """
    planned = time.time()
    with options.stop.interrupting():
        prepared = prepare(run, place, beside, fresh=options.fresh)
        # Not before: these import Ray, and whoever has a mistake to mend should not wait for it.
        from trainshed.attempt import launch, resume
        from trainshed.attempt.launch_config import Launch
        from trainshed.display.choice import choose_display

        earlier = prepared.folder.attempts()
        if not options.fresh:
            resume.check_same_run(prepared)
            if earlier and (done := resume.finished(prepared)):
                return _is_over(prepared, done, publisher)
        seen: list[Folder] = []
        found: Folder | None = None
        refused: Sequence[str] = ()
        changed: Sequence[str] = ()
        # Before anything is claimed, for what cannot begin leaves no attempt; and again once it is:
        # the driver before may have come further while this one looked.
        if earlier or prepared.named:
            seen = resume.checkpoints_there(prepared)
            found, refused = resume.choose(prepared, options.fresh)
            resume.keep_order(prepared, found)
    number = place.identity.attempt if place.identity else None
    attempt = prepared.folder.claim(prepared.spec_hash, options.fresh, number)
    display = choose_display(sys.stdout)
    try:
        if earlier or attempt.number > 1 or prepared.named:
            if not options.fresh and (done := resume.finished(prepared)):
                return _is_over(prepared, done, publisher)
            # Of a folder without a claim nothing may be resumed by the attempt that takes it.
            takes_folder = attempt.number in earlier
            if takes_folder or resume.checkpoints_there(prepared, attempt.number) != seen:
                found, refused = resume.choose(prepared, options.fresh, attempt.number)
            prepared, changed = resume.keep_order(prepared, found)
        if publisher:  # not before: a driver that comes too late has nothing to say
            publisher.start()
        notes = [*refused, *changed, *prepared.notes]
        plan = Launch(prepared, place, found, notes, options.started, planned)
        return launch.run(plan, attempt, display, options.stop, publisher)
    finally:
        attempt.close()
        display.close()


def _is_over(prepared: Prepared, done: ResultRecord, publisher: SnapshotPublisher | None) -> int:
    """Say that nothing is left to do; return the exit code."""
    name = prepared.run.metadata.name
    print(f"{name} is finished: --fresh trains it again")
    record = read_record(prepared.folder.at)
    if record and (files := code.changed(record.code, Path.cwd())):
        more = f" and {len(files) - MOST_NAMED} more" if len(files) > MOST_NAMED else ""
        print(
            f"code changed since {name} was trained: {', '.join(files[:MOST_NAMED])}{more}. The "
            "result is of the code before; --fresh trains with the code as it is now."
        )
    print(f"report: {done.report}", flush=True)
    if publisher:
        publisher.finished_before(done, str(prepared.folder.at / RESULT))
    return EXIT_SUCCEEDED


def begin_job(settings: Sequence[str], options: RunOptions) -> int:
    """Run the TrainingRun that the environment holds, in the Ray cluster that this is a job of.

    Args:
        settings: "path=value" each, applied to it first.
        options: of the user.

    Raises:
        SpecError: when it cannot be accepted; no attempt was claimed.
        AttemptHeldError: when another driver is at work; then nobody was told anything.
    """
    from trainshed.attempt.result import AttemptResult
    from trainshed.attempt.snapshot_publisher import SnapshotPublisher, read_target
    from trainshed.ray_compat.lost_nodes import LostNodes

    identity = read_identity(os.environ)
    if identity is None:
        run, place = _join(settings, options)
        return begin(run, place, Path.cwd(), options)
    publisher = SnapshotPublisher(
        identity.attempt, read_target(os.environ), options.started, options.stop
    )
    publisher.lose = LostNodes().drop
    try:
        run, place = _join(settings, options)
        code = begin(run, place, Path.cwd(), options, publisher)
    except SpecError as error:
        publisher.refused(str(error), EXIT_INVALID)
        print(publisher.deliver(), flush=True)
        raise
    except (OSError, InfrastructureError) as error:  # the storage, or the cluster
        publisher.end(AttemptResult.crashed(error), EXIT_TRY_AGAIN, None)
        print(publisher.deliver(), flush=True)
        raise ClusterError(str(error), EXIT_TRY_AGAIN) from error
    print(publisher.deliver(), flush=True)
    return code


def _join(settings: Sequence[str], options: RunOptions) -> tuple[TrainingRunResource, RunLocation]:
    """Return the run of this job, and its cluster, which is joined."""
    from trainshed.coordinator import start as actor
    from trainshed.ray_train import ray_cluster

    identity = read_identity(os.environ)
    home = os.environ.get(ENV_HOME)
    if not ray_cluster.in_cluster():
        raise SpecError([Problem("RAY_ADDRESS", None, f"not set; {ENV_SPEC} is for Ray jobs")])
    if not home:
        expected = (
            "not set in this cluster; it names the folder on storage that all its nodes share"
        )
        raise SpecError([Problem(ENV_HOME, None, expected)])
    run = load_text(os.environ[ENV_SPEC], ENV_SPEC, settings)
    ray_cluster.start(run.spec, code.fetch(run.spec.code))
    coordinator = None
    if run.spec.train:
        # Its process takes seconds to start, as the user's module takes to be imported here.
        coordinator = actor.start(run.spec, options.started)
        coordinator.load()
    cluster = ray_cluster.nodes(admitted=identity is not None)
    below = locate(home, Disk(Path.cwd()), ENV_HOME)
    return run, RunLocation(below, True, cluster, identity, coordinator)
