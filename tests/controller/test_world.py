"""Whatever happens to a run, in whatever order: what holds for every look at it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.controller.builders_view import (
    SETTINGS,
    later,
    make_cluster,
    make_head,
    make_job,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_controller.decide import decide
from trainshed_controller.model import Observed, Place, RayJobView, RunView
from trainshed_controller.status import open_attempt

if TYPE_CHECKING:
    from trainshed_api.snapshot import Snapshot


class OneRun(RuleBasedStateMachine):
    """A run, its RayJob, the head, its driver, and a controller that may forget."""

    def __init__(self) -> None:
        super().__init__()
        self.view: RunView = make_view(failurePolicy={"maxApplicationFailures": 3})
        self.now = 0.0
        self.job: RayJobView | None = None
        self.head = 1
        self.heard: Snapshot | None = None
        self.created: list[int] = []
        self.began: list[int] = []

    def seen(self) -> Observed:
        return Observed(
            ray_job=self.job,
            cluster=make_cluster(),
            head=make_head(f"c{self.head}"),
            place=Place(admitted=True),
            snapshot=self.heard,
            over=None if self.job else True,
        )

    @rule(seconds=st.sampled_from([0.0, 1.0, 15.0, 400.0]), dies=st.booleans())
    def look(self, seconds: float, *, dies: bool) -> None:
        """The controller looks, and may die before it has done all."""
        self.now += seconds
        plan = decide(self.view, self.seen(), SETTINGS, later(self.now))
        self.view = with_status(self.view, plan.status)
        self.looks_come_to_rest()
        if dies:
            return
        if plan.begin is not None and self.job is None:
            self.job = make_job(plan.begin, deployment_status="Initializing")
            self.created.append(plan.begin)
        if any(self.job and job.uid == self.job.uid for job in plan.delete_jobs):
            self.job = None

    def looks_come_to_rest(self) -> None:
        """Look again at the same things: one step may follow another, and then nothing does."""
        view = self.view
        for _ in range(4):
            plan = decide(view, self.seen(), SETTINGS, later(self.now))
            if plan.status == view.status:
                assert not plan.urgent or plan.begin is not None
                return
            view = with_status(view, plan.status)
        raise AssertionError("each look at the same things changes something")

    @precondition(lambda self: self.job is not None)
    @rule()
    def submit(self) -> None:
        """KubeRay gives the job to Ray, which starts a driver once an id."""
        assert self.job
        number = int(self.job.name.rpartition("-")[2])
        if not self.job.job_status:
            self.job = replace(self.job, deployment_status="Running", job_status="RUNNING")
            if number not in self.began:
                self.began.append(number)

    @precondition(lambda self: self.job is not None and self.job.job_status == "RUNNING")
    @rule(step=st.integers(1, 90))
    def train(self, step: int) -> None:
        """The driver says how far it is."""
        assert self.job
        number = int(self.job.name.rpartition("-")[2])
        self.heard = make_snapshot(number, step, self.now)

    @precondition(lambda self: self.job is not None and self.job.job_status == "RUNNING")
    @rule(
        status=st.sampled_from(["SUCCEEDED", "FAILED", "STOPPED"]), code=st.sampled_from([1, 2, 75])
    )
    def end(self, status: str, code: int) -> None:
        """The driver ends."""
        assert self.job
        message = f"failed with exit code {code}" if status == "FAILED" else ""
        self.job = replace(self.job, job_status=status, message=message)

    @rule()
    def lose_head(self) -> None:
        """The head is another one."""
        self.head += 1

    @rule()
    def lose_job(self) -> None:
        """Somebody deletes the RayJob."""
        self.job = None

    @rule(suspend=st.booleans())
    def edit(self, *, suspend: bool) -> None:
        """The user suspends or resumes."""
        changed = make_view(suspend=suspend, failurePolicy={"maxApplicationFailures": 3})
        self.view = with_status(changed, self.view.status)

    @rule()
    def restart(self) -> None:
        """The controller forgets what it heard."""
        self.heard = None

    @invariant()
    def numbers_only_grow_and_none_is_begun_twice(self) -> None:
        assert self.began == sorted(set(self.began))
        numbers = [attempt.number for attempt in self.view.status.attempts]
        assert numbers == sorted(set(numbers))

    @invariant()
    def an_attempt_that_began_is_in_the_status(self) -> None:
        assert all(number <= self.view.status.attempt for number in self.created)

    @invariant()
    def a_run_that_ended_has_no_attempt_under_way(self) -> None:
        status = self.view.status
        if status.holds("Complete") or status.holds("Failed"):
            assert open_attempt(status) is None
            assert status.completion_time is not None
        assert not (status.holds("Complete") and status.holds("Failed"))

    @invariant()
    def counters_are_those_of_the_attempts(self) -> None:
        status = self.view.status
        if len(status.attempts) == status.attempt:
            outcomes = [attempt.outcome for attempt in status.attempts]
            assert status.failures.infrastructure == outcomes.count("Infrastructure")
            assert status.failures.application == outcomes.count("Application") + outcomes.count(
                "Invalid"
            )


OneRun.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestOneRun = OneRun.TestCase
