"""What must never happen, held against each change of an object at the moment it is made."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic import ValidationError

from tests.controller.api_server import Change
from tests.simulation.clock import monotonic
from tests.simulation.driver import Driver
from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.quantity import parse_cores
from trainshed_api.status import TrainingRunStatus

_HAIR = 1e-9


@dataclass
class Book:
    """Keeps what was, and says what is wrong with what is.

    cores: of the shared cluster. drivers: of each attempt, by uid and number, oldest first.
    can_ask: whether a RayCluster's head answers and is the one that it was.
    """

    cores: float
    can_ask: Callable[[], bool]
    faults: list[str] = field(default_factory=list)
    drivers: dict[tuple[str, int], list[Driver]] = field(default_factory=dict)
    _statuses: dict[str, TrainingRunStatus] = field(default_factory=dict)
    _held: dict[str, float] = field(default_factory=dict)
    _made: dict[str, int] = field(default_factory=dict)

    def hear(self, change: Change) -> None:
        """Check a change."""
        if change.plural == "trainingruns":
            self._check_run(change)
        elif change.plural == "rayjobs":
            self._check_job(change)

    def blame(self, fault: str) -> None:
        """Keep a fault."""
        self.faults.append(f"{monotonic():.3f} {fault}")

    # ---------------------------------------------------------------- runs

    def _check_run(self, change: Change) -> None:
        metadata = as_object(change.raw["metadata"])
        name, uid = str(metadata["name"]), str(metadata["uid"])
        if change.type == "DELETED":
            for book in (self._statuses, self._held, self._made):
                book.pop(uid, None)
            return
        try:
            new = TrainingRunStatus.model_validate(as_object(change.raw.get("status")))
        except ValidationError:
            return  # somebody put it there on purpose
        old = self._statuses.get(uid, TrainingRunStatus())
        self._statuses[uid] = new
        self._check_numbers(name, uid, old, new)
        self._check_end(name, old, new)
        self._check_room(name, uid, change.raw, new)

    def _check_numbers(
        self, name: str, uid: str, old: TrainingRunStatus, new: TrainingRunStatus
    ) -> None:
        if new.attempt not in (old.attempt, old.attempt + 1):
            self.blame(f"{name}: attempt {new.attempt} after {old.attempt}")
        before = {attempt.number: attempt for attempt in old.attempts}
        for attempt in new.attempts:
            known = before.get(attempt.number)
            if known and known.outcome and known.outcome != attempt.outcome:
                self.blame(f"{name}: attempt {attempt.number} was {known.outcome}, now "
                           f"{attempt.outcome}")  # fmt: skip
            is_new = known is None or known.outcome is None
            if is_new and attempt.outcome and self._is_healthy(uid, attempt.number):
                how = f"{attempt.outcome} ({attempt.reason})"
                self.blame(f"{name}-{attempt.number}: {how}, and its driver is healthy")

    def _check_end(self, name: str, old: TrainingRunStatus, new: TrainingRunStatus) -> None:
        if old.completion_time and (
            new.completion_time != old.completion_time or new.attempt != old.attempt
        ):
            self.blame(f"{name}: had ended, and goes on")

    def _check_room(self, name: str, uid: str, raw: JsonObject, status: TrainingRunStatus) -> None:
        newest = status.attempts[-1] if status.attempts else None
        if newest is None or newest.outcome or newest.ray_cluster != "trainshed":
            self._held.pop(uid, None)
            return
        workers = as_object(as_object(raw["spec"]).get("workers"))
        each = parse_cores(str(as_object(workers.get("resources")).get("cpu", 1)))
        self._held[uid] = int(str(workers.get("count", 1))) * each
        if sum(self._held.values()) > self.cores + _HAIR:
            self.blame(f"{name}: {sum(self._held.values()):g} cores are held, of {self.cores:g}")

    # ---------------------------------------------------------------- RayJobs

    def _check_job(self, change: Change) -> None:
        metadata = as_object(change.raw["metadata"])
        owner = owner_of(metadata)
        if not owner:
            return
        name, number = str(metadata["name"]), int(str(metadata["name"]).rpartition("-")[2])
        if change.type == "DELETED" or "deletionTimestamp" in metadata:
            if self._is_healthy(owner, number):
                self.blame(f"{name}: deleted, and its driver is healthy")
        elif as_object(change.raw.get("status")).get("jobDeploymentStatus") == "Failed":
            for driver in self.drivers.get((owner, number), ()):
                driver.excuse = driver.excuse or "KubeRay gave it up"
        elif change.type == "ADDED":
            alive = [
                driver
                for (uid, attempt), drivers in self.drivers.items()
                for driver in drivers
                if uid == owner
                and driver.alive
                and not driver.was_passed_over
                # Ray starts no second driver of a job id, whoever makes its RayJob again.
                and attempt != number
            ]
            for driver in alive:
                if self.can_ask():
                    self.blame(f"{name}: created while the driver of attempt {driver.attempt} runs")
                # Who could not be asked for has had its time (release.py), and is stopped as soon
                # as its head answers (test_sequences.py).
                driver.was_passed_over = True

    def _is_healthy(self, uid: str, number: int) -> bool:
        return any(driver.is_healthy for driver in self.drivers.get((uid, number), ()))


def owner_of(metadata: JsonObject) -> str:
    """Return the uid of the run that an object belongs to; empty for none."""
    owners = metadata.get("ownerReferences")
    return str(as_object(owners[0])["uid"]) if isinstance(owners, list) and owners else ""


class InternalErrors(logging.Handler):
    """Has each error of the controller itself be a fault."""

    def __init__(self, book: Book) -> None:
        super().__init__(logging.ERROR)
        self._book = book

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._book.blame(f"{record.getMessage()}: {type(error).__name__}: {error}")
