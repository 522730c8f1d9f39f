"""When an attempt that ended holds nothing any more, and what follows: one rule for all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    UID,
    later,
    look,
    make_cluster,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
    with_status,
)
from trainshed_api.status import AttemptStatus, Reservation
from trainshed_controller.cache import Cache, cluster_of
from trainshed_controller.clock import Clock
from trainshed_controller.cluster_queues import ClusterQueues
from trainshed_controller.decide import wants_room
from trainshed_controller.model import EarlierDriver, Key, Observed, Place, RunView
from trainshed_controller.ray_queries import Question, RaysWord
from trainshed_controller.release import is_shared, release_reason

RUNNING = make_job(deployment_status="Running", job_status="RUNNING")
ENDED = AttemptStatus(
    number=1, generation=1, ray_job="digits-1", job_id="j", ray_cluster="trainshed",
    head_identity="head-1/c1", start_time=NOW, end_time=NOW, outcome="Infrastructure",
)  # fmt: skip
OWN = ENDED.model_copy(update={"ray_cluster": "digits-1-abcde"})
HELD = Reservation(count=3, cpu=4.0, since=NOW, grace_seconds=60)


@dataclass(frozen=True)
class Row:
    attempt: AttemptStatus
    seen: Observed
    want: str
    seconds: float = 0.0


ZOMBIE = make_worker(cluster=OWN.ray_cluster, deleting=True)
ROWS = {
    "nobody knows yet": Row(ENDED, make_seen(), "", 89),
    "nobody knows in time": Row(ENDED, make_seen(), "TimedOut", 90),
    "Ray is being asked": Row(ENDED, make_seen(asking=True), "", 1_000),
    "Ray says that it runs": Row(ENDED, make_seen(over=False), "", 1_000),
    "Ray says that it ended": Row(ENDED, make_seen(over=True), "JobOver"),
    "another head": Row(ENDED, make_seen(head=make_head("c2")), "HeadReplaced"),
    "its driver left an exit code": Row(
        ENDED.model_copy(update={"exit_code": 1}), make_seen(), "JobOver"
    ),
    "its RayJob is there": Row(ENDED, make_seen(ray_job=RUNNING), "", 1_000),
    "its RayJob ended": Row(ENDED, make_seen(ray_job=make_job(job_status="FAILED")), "JobOver"),
    "KubeRay alone gave it up": Row(
        ENDED,
        make_seen(ray_job=make_job(job_status="RUNNING", deployment_status="Failed")),
        "",
        1_000,
    ),
    "its own cluster is gone": Row(OWN, make_seen(cluster=None), "PodsGone"),
    "its own cluster goes": Row(OWN, make_seen(cluster=None, pods=(ZOMBIE,)), "", 89),
    "a dead node keeps its Pod in Terminating": Row(
        OWN, make_seen(cluster=None, pods=(ZOMBIE,)), "TimedOut", 90
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_release(case: str) -> None:
    row = ROWS[case]

    assert release_reason(row.attempt, row.seen, 60, later(row.seconds)) == row.want


def stopped(**spec: object) -> RunView:
    """Return a run of which an attempt on the shared cluster was stopped after its grace."""
    view = make_view()
    for seen in (make_seen(), make_seen(ray_job=RUNNING, snapshot=make_snapshot())):
        view, _ = look(view, seen, 0)
    view = with_status(make_view(suspend=True), view.status)
    view, _ = look(view, make_seen(ray_job=RUNNING, snapshot=make_snapshot()), 10)
    view, _ = look(view, make_seen(ray_job=replace(RUNNING, deleting=True)), 200)
    assert view.status.phase == "Suspended"
    return with_status(make_view(**spec), view.status)  # type: ignore[arg-type]  # JSON values


def test_a_run_that_moves_to_a_cluster_of_its_own_begins_there() -> None:
    view, plan = look(stopped(cluster={"dedicated": {}}), make_seen(over=True), 210)

    assert plan.begin == 2
    assert view.status.attempts[0].release_reason == "JobOver"
    assert view.status.attempts[1].reservation is None


def test_a_run_that_moves_to_another_shared_cluster_waits_for_its_driver_on_the_first() -> None:
    settings = replace(SETTINGS, shared_clusters=frozenset({"other"}))
    view = stopped(cluster={"shared": "other"})

    _, plan = look(view, make_seen(over=False), 210)

    assert plan.begin is None
    assert cluster_of(view, settings) == "trainshed"


def test_what_an_attempt_holds_does_not_follow_its_spec() -> None:
    view, _ = look(make_view(workers={"count": 3, "resources": {"cpu": 4}}), make_seen(), 0)
    smaller = with_status(make_view(workers={"count": 1, "resources": {"cpu": 4}}), view.status)

    smaller, _ = look(smaller, make_seen(ray_job=RUNNING), 5)

    held = smaller.status.attempts[0].reservation
    assert held
    assert (held.count, held.cpu, held.grace_seconds) == (3, 4.0, 60)


def test_a_shared_cluster_may_be_named_like_one_of_the_rayjob_s_own() -> None:
    named = ENDED.model_copy(update={"ray_cluster": "digits-1-abcde", "reservation": HELD})

    assert is_shared(named)
    assert not is_shared(OWN)


def test_a_run_in_a_pause_after_a_failure_wants_nothing() -> None:
    view = with_status(make_view(), stopped().status)
    failed = ENDED.model_copy(update={"release_time": NOW, "exit_code": 1})
    attempts = tuple(failed.model_copy(update={"number": number}) for number in (1, 2))
    status = view.status.model_copy(update={"attempts": attempts, "attempt": 2})

    assert not wants_room(with_status(view, status), later(9))
    assert wants_room(with_status(view, status), later(10))


def test_a_run_whose_next_rayjob_is_somebody_elses_leaves_the_queue() -> None:
    view, _ = look(make_view(), make_seen(next_taken=make_job(owner="other")), 0)
    assert not wants_room(view, later(1))

    view, _ = look(view, make_seen(place=None), 60)
    assert wants_room(view, later(61))


def test_a_driver_that_was_passed_over_is_waited_for_as_soon_as_ray_answers() -> None:
    view, _ = look(stopped(), make_seen(place=Place(admitted=False)), 400)
    assert view.status.attempts[0].release_reason == "TimedOut"

    _, alive = look(view, make_seen(earlier=EarlierDriver(1, over=False, asking=False)), 401)
    ended, over = look(view, make_seen(earlier=EarlierDriver(1, over=True, asking=False)), 402)

    assert (alive.begin, over.begin) == (None, 2)
    assert ended.status.attempts[0].release_reason == "JobOver"


def test_a_run_that_waits_for_its_driver_holds_no_grant() -> None:
    view, _ = look(stopped(), make_seen(place=Place(admitted=False)), 400)
    runs, over = (EarlierDriver(1, over=ended, asking=False) for ended in (False, True))

    waits, _ = look(view, make_seen(earlier=runs), 401)
    goes_on, _ = look(waits, make_seen(earlier=over, place=None), 402)

    assert not wants_room(waits, later(402))
    assert wants_room(goes_on, later(403))


REFUSED: dict[str, Callable[[], RunView]] = {
    "its owner labelled it for Kueue": lambda: make_view(labels={"kueue.x-k8s.io/queue-name": "q"}),
    "this release cannot read it": lambda: replace(make_view(), run=None, problem="spec.later"),
    "its class is gone": lambda: make_view(cluster={"dedicated": {"class": "gone"}}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_run_that_is_refused_holds_nothing_after_its_attempt(case: str) -> None:
    view = with_status(REFUSED[case](), stopped().status)

    held, first = look(view, make_seen(ray_job=RUNNING), 300)
    free, then = look(held, make_seen(over=True), 310)

    assert first.delete_jobs == (RUNNING,)
    assert first.again_after == 5.0
    assert held.status.attempts[0].release_reason == ""
    assert free.status.attempts[0].release_reason == "JobOver"
    assert then.again_after == 60.0


def test_who_waits_for_a_driver_says_so_after_a_minute() -> None:
    view, plan = look(stopped(), make_seen(over=False), 300)

    said = view.status.condition("Progressing")
    assert said
    assert said.reason == "WaitsForDriver"
    assert plan.again_after == 10.0


@dataclass
class Orphans:
    """A queue in which a run waits behind drivers of runs that are gone; says: Ray's answer."""

    says: bool | None = None
    now: float = 0.0
    asked: list[Question] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cache = Cache(SETTINGS, lambda: self.now)
        self.cache.clusters.put(make_cluster())
        self.cache.pods.put(make_worker())
        self.cache.pods.put(make_head())
        self.cache.runs.put(make_view())
        self.queues = ClusterQueues(self.cache, self.ask, self.forgotten.append, Clock())

    def ask(self, question: Question) -> RaysWord:
        self.asked.append(question)
        return RaysWord(over=self.says)

    def lose_job(self, number: int = 1) -> None:
        """Have the RayJob of a run that is gone go as well."""
        self.cache.record_deleted_job(
            make_job(
                number, owner="gone", run="gone", reservation=HELD, job_status="RUNNING",
                selector="trainshed", job_id=f"job-{number}",
            )
        )  # fmt: skip

    def holders(self, at: float) -> tuple[str, ...]:
        """Return for whom the run waits after so many seconds; empty where it may begin."""
        self.now = at
        self.queues.places.clear()
        self.queues.admit(Key("cluster", "team", "trainshed"), lambda _: None)
        return self.queues.places[UID].queue.held_by


def test_a_driver_of_a_deleted_run_holds_its_capacity_until_ray_says_that_it_ended() -> None:
    orphans = Orphans(says=False)
    orphans.lose_job()
    assert orphans.holders(10) == ("gone",)
    assert orphans.holders(3_000) == ("gone",)

    orphans.says = True

    assert orphans.holders(3_010) == ()
    assert orphans.forgotten == ["job-1"]


def test_a_driver_of_a_deleted_run_that_never_stops_does_not_count_for_ever() -> None:
    orphans = Orphans(says=False)
    orphans.lose_job()

    assert orphans.holders(3_659) == ("gone",)
    assert orphans.holders(3_660) == ()


def test_a_driver_of_a_deleted_run_counts_for_its_grace_where_nobody_answers() -> None:
    orphans = Orphans(says=None)
    orphans.lose_job()

    assert orphans.holders(89) == ("gone",)
    assert orphans.holders(90) == ()
    orphans.says = False  # the head answers after all
    assert orphans.holders(100) == ("gone",)


def test_a_driver_of_a_deleted_run_does_not_outlive_its_head() -> None:
    orphans = Orphans(says=False)
    orphans.lose_job()

    orphans.cache.pods.put(make_head("c2", resource_version="2"))

    assert orphans.holders(10) == ()


def test_a_rayjob_holds_capacity_before_the_status_of_its_run_has_it() -> None:
    orphans = Orphans()
    first, *_ = stopped().status.attempts
    other = replace(make_view(), name="other", uid="other")
    job = make_job(name="other-1", owner="other", run="other", reservation=HELD,
        selector="trainshed", job_status="RUNNING",
    )  # fmt: skip
    orphans.cache.runs.put(other)
    orphans.cache.jobs.put(job)
    assert orphans.holders(10) == ("other",)

    released = first.model_copy(update={"ray_job": "other-1", "release_time": later(1)})
    known = with_status(other, other.status.model_copy(update={"attempts": (released,)}))
    orphans.cache.runs.put(replace(known, resource_version="2"))

    assert "other" not in orphans.holders(10)


def test_each_driver_of_a_deleted_run_is_asked_for() -> None:
    orphans = Orphans(says=False)
    orphans.lose_job(1)
    orphans.lose_job(2)

    orphans.holders(10)

    assert {(each.uid, each.job_id) for each in orphans.asked} == {
        ("job-1", "job-1"),
        ("job-2", "job-2"),
    }
