"""The newest snapshot from the driver of each open attempt, and when it arrived."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from trainshed_controller.model import SILENT_SECONDS, Heard

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed_api.snapshot import Snapshot

# A driver gives up a post after five seconds: what is on its way for longer is none of its posts.
# So neither a wrong sequence number nor a restarted count silences a driver for long.
_ON_ITS_WAY_SECONDS = 10.0
# Posting faster than this has no effect.
_SHORTEST_SECONDS = 0.2


@dataclass
class _Driver:
    """One attempt's driver; came, still_since, looked_at: by the clock of the store.

    told_at_once: what of an attempt deserves a look at once did so already. step: how far its
    first step came; who watches a run waits for that.
    """

    attempt: int
    came: float
    still_since: float
    looked_at: float = float("-inf")
    newest: Snapshot | None = None
    num_snapshots: int = 0
    told_at_once: frozenset[str] = frozenset()
    step: Literal["none", "seen", "written"] = "none"


@dataclass(eq=False)
class SnapshotStore:
    """By uid of the run; only of the attempt that was asked or told about last.

    Args:
        clock: seconds that only go on.
    """

    clock: Callable[[], float] = time.monotonic
    _drivers: dict[str, _Driver] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._drivers)

    def put(self, uid: str, snapshot: Snapshot) -> bool:
        """Keep a snapshot unless it was overtaken; say whether the run is to be looked at now."""
        now = self.clock()
        driver = self._driver(uid, snapshot.attempt)
        if driver.newest and now - driver.came < _ON_ITS_WAY_SECONDS:
            before = driver.newest
            if before.sequence > snapshot.sequence and before.time >= snapshot.time:
                if _place(before) != _place(snapshot):
                    # Whoever overtook it may have lied: a run that moves is not called stalled.
                    driver.still_since = now
                return False
        was_silent = now - driver.came > SILENT_SECONDS
        if driver.newest is None and snapshot.progress is not None:
            # It told of its first step before this process listened.
            driver.step = "written"
        if driver.newest is None or was_silent or _place(driver.newest) != _place(snapshot):
            driver.still_since = now
        driver.newest, driver.came = snapshot, now
        driver.num_snapshots += 1
        return _deserves_look(driver, snapshot, now)

    def get(self, uid: str, attempt: int) -> Snapshot | None:
        """Return the attempt's newest snapshot."""
        driver = self._drivers.get(uid)
        return driver.newest if driver and driver.attempt == attempt else None

    def heard(self, uid: str, attempt: int) -> Heard:
        """Return what the attempt's driver reported, and accept its snapshots from now on."""
        driver = self._driver(uid, attempt)
        is_expected = driver.newest is not None and _place(driver.newest) is not None
        still = max(0.0, driver.came - driver.still_since) if is_expected else 0.0
        has_stepped = driver.newest is not None and driver.newest.progress is not None
        if driver.step == "none" and driver.newest is not None and driver.newest.progress:
            driver.step = "seen"
        return Heard(
            num_snapshots=driver.num_snapshots,
            still_seconds=still if has_stepped else 0.0,
            silent_seconds=self.clock() - driver.came,
            first_step=driver.step == "seen",
            first_step_seconds=0.0 if has_stepped else still,
        )

    def written(self, uid: str) -> None:
        """Record that the status has what was observed, so that the first step is reported once."""
        driver = self._drivers.get(uid)
        if driver and driver.step == "seen":
            driver.step = "written"

    def forget(self, uid: str) -> None:
        """Forget a run that is gone, or whose attempt ended."""
        self._drivers.pop(uid, None)

    def forget_silent(self) -> None:
        """Forget drivers that did not post lately: another replica may know more of them.

        What a driver posted at its end cannot change, and stays.
        """
        since = self.clock() - SILENT_SECONDS
        self._drivers = {
            uid: driver
            for uid, driver in self._drivers.items()
            if driver.came > since or (driver.newest and driver.newest.state == "Ended")
        }

    def _driver(self, uid: str, attempt: int) -> _Driver:
        known = self._drivers.get(uid)
        if known is None or known.attempt != attempt:
            now = self.clock()
            known = self._drivers[uid] = _Driver(attempt, came=now, still_since=now)
        return known


def _place(snapshot: Snapshot) -> tuple[object, ...] | None:
    """Return where an attempt stands; None where no step is to be expected.

    Lost workers may have to wait for resources. A function that is called may have its own loop,
    which reports nothing for hours, until it asks for a batch of the run's steps.
    """
    progress, trains = snapshot.progress, snapshot.state == "Training"
    if progress is not None:
        return (progress.epoch, progress.step) if trains and progress.step is not None else None
    if snapshot.restarting:
        return None
    if snapshot.state == "Starting":
        return ("Starting",) if snapshot.hosts else None
    return (snapshot.metrics, snapshot.checkpoint) if trains and snapshot.steps_begun else None


def _deserves_look(driver: _Driver, snapshot: Snapshot, now: float) -> bool:
    """Say whether to look now: the first word, the first step and the end once, all else in time.

    What a driver says may alternate for ever: nothing else of it is urgent.
    """
    said = {"word"}
    if snapshot.progress is not None:
        said.add("step")
    if snapshot.state == "Ended":
        said.add("end")
    is_new = not said <= driver.told_at_once
    if not is_new and now - driver.looked_at < _SHORTEST_SECONDS:
        return False
    driver.told_at_once |= said
    driver.looked_at = now
    return True
