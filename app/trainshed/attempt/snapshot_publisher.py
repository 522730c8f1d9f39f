"""Tells the controller how an attempt does, and obeys its answer: the only way it reaches a driver.

A controller that is away is no reason to stop: the next snapshot says all that it missed.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from trainshed.attempt.signals import FENCED
from trainshed_api.names import (
    ENV_PROGRESS_TOKEN,
    ENV_PROGRESS_URL,
    EXIT_SUCCEEDED,
    SNAPSHOT_LINE,
)
from trainshed_api.progress import CheckpointSaved, Progress, Seconds
from trainshed_api.snapshot import MAX_MESSAGE, Answer, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainshed.attempt.result import AttemptResult
    from trainshed.attempt.signals import Stop
    from trainshed_api.progress import AnyEvent
    from trainshed_api.records import ResultRecord

log = logging.getLogger("trainshed.attempt.snapshot_publisher")

SECONDS_FOR_A_POST = 5.0
MAX_ANSWER_BYTES = 64 * 1024
GONE = 410

Reply = Answer | Literal["gone"] | None
# The controller is beside us in the cluster: a proxy for the world outside is not asked.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Timing:
    """Seconds.

    Args:
        between: posts while nothing changes but the step.
        apart: posts, however fast things happen: a checkpoint at each step must flood nobody.
        after_a_loss: posts for a while after workers were lost: Kubernetes may not know yet why.
        shaken: how long that while is.
        last: for which an end is told to a controller that does not answer.
        terminated: the same, for a driver that a signal has ended and that is killed soon.
    """

    between: float = 5.0
    apart: float = 0.5
    after_a_loss: float = 1.0
    shaken: float = 20.0
    last: float = 60.0
    terminated: float = 10.0


DEFAULT_TIMING = Timing()


@dataclass(frozen=True)
class ProgressEndpoint:
    """Where snapshots go, and the token that may write them."""

    url: str
    token: str

    def post(self, snapshot: Snapshot) -> Reply:
        """Return the answer, "gone" when another attempt has taken over, None for no answer."""
        request = urllib.request.Request(
            self.url,
            data=snapshot.to_payload().encode(),
            headers={
                "Authorization": f"Bearer {self.token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with _OPENER.open(request, timeout=SECONDS_FOR_A_POST) as response:
                return Answer.model_validate_json(response.read(MAX_ANSWER_BYTES) or b"{}")
        except urllib.error.HTTPError as error:
            error.close()
            return "gone" if error.code == GONE else None
        except (OSError, ValidationError):  # not there, too slow, or not ours
            return None


def read_target(environment: Mapping[str, str]) -> ProgressEndpoint | None:
    """Return where this driver's snapshots go; None where nobody wants them."""
    url = environment.get(ENV_PROGRESS_URL)
    return ProgressEndpoint(url, environment.get(ENV_PROGRESS_TOKEN, "")) if url else None


@dataclass(eq=False)
class SnapshotPublisher:
    """Posts the snapshot of one attempt from a thread, from its start to its end.

    Args:
        attempt: its number.
        target: None only keeps the snapshot.
        started: when the driver's process began, seconds since 1970.
        stop: what a stop of the controller's is said to.
        timing: of the posts.
    """

    attempt: int
    target: ProgressEndpoint | None
    started: float
    stop: Stop
    timing: Timing = DEFAULT_TIMING
    lose: Callable[[tuple[str, ...]], None] = lambda _: None
    """What is done about Pods that the controller says are gone; set before the start."""
    _shaken_until: float = 0.0
    _seconds: Mapping[str, float] = field(default_factory=dict)
    _waits_for: str = ""
    _steps_begun: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _urgent: bool = True
    _over: bool = False

    def __post_init__(self) -> None:
        """Begin the snapshot."""
        host = socket.gethostname()
        self._snapshot = Snapshot(time=time.time(), attempt=self.attempt, host=host)
        self._thread = threading.Thread(target=self._push, name="push", daemon=True)

    def start(self) -> None:
        """Begin to tell how it goes."""
        if self.target:
            self._thread.start()

    def show(self, event: AnyEvent) -> None:
        """Record an event; post a change of the run's state at once."""
        with self._changed:
            before, self._snapshot = self._snapshot, self._snapshot.after(event)
            first_step = isinstance(event, Progress) and before.progress is None
            lost = before.workers_lost != self._snapshot.workers_lost
            if lost:
                self._shaken_until = time.monotonic() + self.timing.shaken
            if (
                first_step
                or lost
                or isinstance(event, CheckpointSaved)
                or before.state != self._snapshot.state
            ):
                self._urgent = True
                self._changed.notify()

    def measure(
        self,
        seconds: Mapping[str, float],
        waits_for: str | None = None,
        *,
        steps_begun: bool = False,
    ) -> None:
        """Take in where the time went until now, and what training waits for.

        steps_begun: whether the function has asked for a step.
        """
        with self._changed:
            self._seconds, self._waits_for = seconds, waits_for or ""
            self._steps_begun = steps_begun

    def place(self, hosts: tuple[str, ...]) -> None:
        """Record the hosts of the workers, and post them at once."""
        with self._changed:
            if hosts != self._snapshot.hosts:
                self._snapshot = self._snapshot.model_copy(update={"hosts": hosts})
                self._urgent = True
                self._changed.notify()

    def end(self, verdict: AttemptResult, exit_code: int, result: str | None) -> None:
        """Take in how the attempt ended."""
        self._finish(
            state="Ended",
            outcome=verdict.outcome,
            cause=verdict.cause,
            exit_code=exit_code,
            message=self._snapshot.message or verdict.message,
            traceback=verdict.traceback or "",
            result=result,
        )

    def refused(self, message: str, exit_code: int) -> None:
        """Take in that the run cannot be accepted."""
        self._finish(**dict(self._snapshot.refused(message, exit_code)))

    def finished_before(self, result: ResultRecord, path: str) -> None:
        """Take in that an earlier attempt has finished the run, and left its result there."""
        self._finish(
            state="Ended",
            outcome=result.outcome,
            exit_code=EXIT_SUCCEEDED,
            message=f"finished by attempt {result.attempt}",
            metrics=dict(result.metrics),
            checkpoint=result.checkpoint,
            result=path,
            report=result.report,
        )

    def deliver(self, most_seconds: float | None = None) -> str:
        """Post the end until the controller answers or time is up; return the log line.

        most_seconds: for which it is told, where the caller has less time than usual.
        """
        if self.target and self.stop.reason != FENCED:
            signalled = self.stop.signalled
            patience = self.timing.terminated if signalled else self.timing.last
            if most_seconds is not None:
                patience = min(patience, most_seconds)
            deadline = time.monotonic() + patience
            while self.target.post(self._next()) is None and time.monotonic() < deadline:
                time.sleep(self.timing.apart)
        return SNAPSHOT_LINE + self._next().to_payload()

    def _finish(self, **changes: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        # What is a user's own words is cut and made fit by its validators.
        self._snapshot = Snapshot.model_validate({**dict(self._snapshot), **changes})

    def _push(self) -> None:
        assert self.target
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._urgent or self._over, self._seconds_between())
                # deliver() posts the end, once it is complete.
                if self._over or self._snapshot.state == "Ended":
                    return
                self._urgent = False
            reply = self.target.post(self._next())
            if reply == "gone":
                self.stop.order(FENCED, 0.0)
                return
            if reply and reply.stop:
                self.stop.order(reply.stop.reason, reply.stop.grace_seconds)
            if reply and reply.gone:
                try:
                    self.lose(reply.gone)
                except Exception:  # the thread must survive: it reports the run and receives stops
                    log.exception("cannot tell that %s are gone", ", ".join(reply.gone))
            time.sleep(self.timing.apart)

    def _seconds_between(self) -> float:
        is_shaken = time.monotonic() < self._shaken_until
        return self.timing.after_a_loss if is_shaken else self.timing.between

    def _next(self) -> Snapshot:
        """Return the current snapshot."""
        with self._changed:
            now = time.time()
            changes: dict[str, object] = {"time": now, "sequence": self._snapshot.sequence + 1}
            if self._snapshot.state != "Ended":
                changes["seconds"] = Seconds.model_validate(dict(self._seconds))
                changes["wall_seconds"] = now - self.started
                changes["waits_for"] = self._waits_for[:MAX_MESSAGE]
                changes["steps_begun"] = self._steps_begun
            self._snapshot = self._snapshot.model_copy(update=changes)
            return self._snapshot
