"""Who holds an attempt: one driver at a time, found dead at once on its own machine."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

import pytest

from tests.faulty_s3 import FaultyS3
from trainshed.storage import durable_files
from trainshed.storage.addresses import open_folder
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import (
    CLAIM,
    DEAD_AFTER_SECONDS,
    ENDED,
    HEARTBEAT,
    AttemptHeldError,
    Claim,
    ClaimedAttempt,
    RunFolder,
    boot_id,
    process_age_seconds,
    process_start,
)

MakeOld = Callable[[Folder, str, float], None]

CLAIM_AND_WAIT = """
import sys
from trainshed.storage.addresses import open_folder
from trainshed.storage.run_folder import AttemptHeldError, RunFolder
print("ready", flush=True)
sys.stdin.readline()
try:
    attempt = RunFolder(open_folder(sys.argv[1])).claim("abc", fresh=False)
    print("claimed", attempt.number, flush=True)
except AttemptHeldError as error:
    print("held:", error, flush=True)
sys.stdin.read()
"""


def claim(folder: RunFolder, *, fresh: bool = False) -> ClaimedAttempt:
    return folder.claim("abc", fresh)


def claim_and_close(folder: RunFolder, *, fresh: bool = False) -> int:
    attempt = claim(folder, fresh=fresh)
    attempt.close()
    return attempt.number


def start_driver(folder: RunFolder) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        [sys.executable, "-c", CLAIM_AND_WAIT, str(folder.at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert said_by(driver) == "ready\n"
    return driver


def let_claim(driver: subprocess.Popen[str]) -> None:
    assert driver.stdin
    driver.stdin.write("\n")
    driver.stdin.flush()


def said_by(driver: subprocess.Popen[str]) -> str:
    assert driver.stdout
    return driver.stdout.readline()


def content(folder: RunFolder) -> dict[str, bytes]:
    """Return what lies there, but for what goes on while it is looked at."""
    names = (each.name for each in folder.at.tree())
    return {name: folder.at.read(name) for name in names if HEARTBEAT not in name}


def put_claim(folder: RunFolder, text: str) -> None:
    """Let attempt 1 be another's, with a heartbeat of just now."""
    folder.attempt(1).write(CLAIM, text.encode())
    folder.attempt(1).write(HEARTBEAT, b"1\n")


# --------------------------------------------------------------------- claims


def test_more_than_nine_attempts_stay_in_order(storage: Folder) -> None:
    folder = RunFolder(storage)
    for _ in range(11):
        claim_and_close(folder)

    assert folder.attempts() == list(range(1, 12))


def test_a_claim_says_who_made_it(storage: Folder) -> None:
    folder = RunFolder(storage)
    claim_and_close(folder, fresh=True)

    made = folder.claimed(1)
    assert made
    assert (made.pid, made.spec_hash, made.fresh) == (os.getpid(), "abc", True)
    assert made.pid_started == process_start(os.getpid())


def test_a_claim_is_one_on_storage_without_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    folder = RunFolder(Disk(tmp_path))
    attempt = claim(folder)

    assert folder.claimed(1)
    with pytest.raises(AttemptHeldError):
        folder.claim("abc", fresh=False, number=1)
    attempt.close()
    assert attempt.folder.names() == [CLAIM, HEARTBEAT]


def test_a_claim_is_on_its_disk_before_anything_is_done_under_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[Path]()
    monkeypatch.setattr(durable_files, "sync_folder", synced.append)
    folder = RunFolder(Disk(tmp_path / "runs" / "digits"))
    claim_and_close(folder)

    assert folder.at.path
    parts = ("attempts/1", "attempts", ".", "..", "../..")
    assert synced == [Path(os.path.normpath(folder.at.path / part)) for part in parts]


def test_a_held_attempt_keeps_others_out_and_nothing_changes(storage: Folder) -> None:
    folder = RunFolder(storage)
    attempt = claim(folder)
    before = content(folder)

    with pytest.raises(AttemptHeldError, match=f"attempt 1 is held by process {os.getpid()} on"):
        claim(folder)
    assert content(folder) == before
    attempt.close()


def test_an_attempt_that_a_controller_counts_is_made_once_whoever_holds_the_one_before(
    storage: Folder,
) -> None:
    folder = RunFolder(storage)
    before = claim(folder)
    attempt = folder.claim("abc", fresh=False, number=4)
    seen = content(folder)

    with pytest.raises(AttemptHeldError, match="attempt 4 is held"):
        folder.claim("abc", fresh=False, number=4)
    assert folder.attempts() == [1, 4]
    assert content(folder) == seen
    attempt.close()
    before.close()


def test_a_controller_s_attempt_stays_made_when_its_driver_is_gone(storage: Folder) -> None:
    folder = RunFolder(storage)
    folder.claim("abc", fresh=False, number=1).close()

    with pytest.raises(AttemptHeldError):
        folder.claim("abc", fresh=False, number=1)


def test_of_many_at_once_exactly_one_wins(storage: Folder) -> None:
    drivers = 8
    barrier = threading.Barrier(drivers)

    def race(folder: RunFolder) -> ClaimedAttempt | None:
        barrier.wait()
        try:
            return claim(folder)
        except AttemptHeldError:
            return None

    with ThreadPoolExecutor(drivers) as pool:
        for number in range(25):
            folder = RunFolder(storage / str(number))
            tried = list(pool.map(race, [folder] * drivers))
            winners = [attempt for attempt in tried if attempt]
            assert [attempt.number for attempt in winners] == [1]
            assert folder.claimed(1)
            winners[0].close()


def test_a_folder_that_nobody_claimed_does_not_stand_in_the_way(storage: Folder) -> None:
    folder = RunFolder(storage)
    folder.attempt(1).write("other", b"")

    assert folder.attempts() == [1]
    assert claim_and_close(folder) == 1


def test_a_heartbeat_goes_on_until_the_attempt_is_closed(storage: Folder) -> None:
    folder = RunFolder(storage)
    attempt = claim(folder)
    assert folder.is_alive(1)

    attempt.close()
    assert not folder.is_alive(1)
    assert attempt.folder.read(HEARTBEAT) == ENDED


# -------------------------------------------------------------------- lineage


@pytest.mark.parametrize(
    ("stood_still_seconds", "is_claimed", "want"),
    [(60, True, True), (60, False, False), (5, True, False)],
)
def test_whose_heartbeat_stood_still_looks_whether_it_was_overtaken(
    storage: Folder, stood_still_seconds: float, is_claimed: bool, want: bool
) -> None:
    folder = RunFolder(storage)
    if is_claimed:
        folder.attempt(2).write(CLAIM, b"{}")
    enough = threading.Event()
    times = chain([0.0], map(float, count(stood_still_seconds)))

    def tell_time() -> float:
        now = next(times)
        if now >= stood_still_seconds + 3:
            enough.set()
        return now

    attempt = ClaimedAttempt(1, folder.attempt(1), clock=tell_time, seconds=0.01)
    assert enough.wait(60)
    attempt.close()

    assert attempt.is_overtaken is want


def test_attempts_since_the_last_fresh_start_belong_together(storage: Folder) -> None:
    folder = RunFolder(storage)
    lineages = []
    for fresh in (False, False, True, False):
        claim_and_close(folder, fresh=fresh)
        lineages.append(folder.lineage())

    assert lineages == [[1], [1, 2], [3], [3, 4]]


def test_a_claim_is_read_once(through_faults: Bucket, faulty_s3: FaultyS3) -> None:
    for number in range(1, 6):
        RunFolder(through_faults).claim("abc", fresh=False, number=number).close()
    folder = RunFolder(through_faults)
    for _ in range(3):
        assert folder.lineage() == [1, 2, 3, 4, 5]

    assert faulty_s3.count("GET", "*/claim") == 5


def test_no_attempt_has_no_lineage(storage: Folder) -> None:
    assert RunFolder(storage).lineage() == []


# ----------------------------------------------------------------- who is dead


def test_a_killed_driver_is_dead_at_once_even_before_its_parent_knows(storage: Folder) -> None:
    folder = RunFolder(storage)
    driver = start_driver(folder)
    let_claim(driver)
    assert said_by(driver) == "claimed 1\n"
    assert folder.is_alive(1)

    driver.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while folder.is_alive(1) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert not folder.is_alive(1)  # a zombie still: nobody waited for it
    assert claim_and_close(folder) == 2
    driver.communicate()


@dataclass(frozen=True)
class Case:
    """Whose claim it is, how old its heartbeat is, and whether its driver counts as alive."""

    change: dict[str, str | int]
    age: float
    want: bool


CASES: dict[str, Case] = {
    "this process": Case({}, 0.0, True),
    "this process, slow to write": Case({}, 1000.0, True),
    "no such process": Case({"pid": 2**22 + 1}, 0.0, False),
    "another process of the same number": Case({"pid_started": 1}, 0.0, False),
    "another machine, fresh": Case({"host": "elsewhere"}, 1.0, True),
    "another machine, almost too old": Case({"host": "elsewhere"}, DEAD_AFTER_SECONDS - 5, True),
    "another machine, old": Case({"host": "elsewhere"}, DEAD_AFTER_SECONDS + 1, False),
    "of a release that knew no namespaces, fresh": Case(
        {"boot": boot_id(), "pid": 2**22 + 1}, 1.0, True
    ),
    "of a release that knew no namespaces, old": Case(
        {"boot": boot_id()}, DEAD_AFTER_SECONDS + 1, False
    ),
    "before this machine's boot, fresh": Case({"boot": "earlier"}, 1.0, True),
    "before this machine's boot, old": Case({"boot": "earlier"}, DEAD_AFTER_SECONDS + 1, False),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_who_is_alive(storage: Folder, make_old: MakeOld, case: Case) -> None:
    folder = RunFolder(storage)
    claim_and_close(folder)
    made = folder.claimed(1)
    assert made
    claimed = dataclasses.asdict(made) | case.change
    put_claim(folder, json.dumps(claimed))
    make_old(folder.attempt(1), HEARTBEAT, case.age)

    assert folder.claimed(1) == Claim(**claimed)
    assert folder.is_alive(1) is case.want


def test_a_driver_in_another_container_of_this_machine_is_alive_by_its_heartbeat(
    storage: Folder, make_old: MakeOld
) -> None:
    """With the host's name, but a namespace of its own: here its number is nobody's."""
    folder = RunFolder(storage)
    claim_and_close(folder)
    made = folder.claimed(1)
    assert made
    elsewhere = made.boot.replace(str(Path("/proc/self/ns/pid").readlink()), "pid:[1]")
    there = dataclasses.asdict(made) | {"boot": elsewhere, "pid": 2**22 + 1}
    put_claim(folder, json.dumps(there))

    assert folder.is_alive(1)
    make_old(folder.attempt(1), HEARTBEAT, DEAD_AFTER_SECONDS + 1)
    assert not folder.is_alive(1)


def test_who_has_not_come_to_the_first_heartbeat_is_alive_by_the_claim(
    storage: Folder, make_old: MakeOld
) -> None:
    folder = RunFolder(storage)
    folder.attempt(1).create(CLAIM, json.dumps({"host": "elsewhere"}).encode())
    assert folder.is_alive(1)

    make_old(folder.attempt(1), CLAIM, DEAD_AFTER_SECONDS + 1)
    assert not folder.is_alive(1)


def test_who_has_ended_is_not_alive_however_short_ago(storage: Folder) -> None:
    folder = RunFolder(storage)
    put_claim(folder, json.dumps({"host": "elsewhere"}))
    assert folder.is_alive(1)

    folder.attempt(1).write(HEARTBEAT, ENDED)
    assert not folder.is_alive(1)


def test_a_claim_that_cannot_be_read_counts_by_its_heartbeat(
    storage: Folder, make_old: MakeOld
) -> None:
    folder = RunFolder(storage)
    claim_and_close(folder)
    put_claim(folder, '{"host": ')

    assert folder.claimed(1) is None
    with pytest.raises(AttemptHeldError, match="attempt 1 is held by another process"):
        claim(folder)
    make_old(folder.attempt(1), HEARTBEAT, DEAD_AFTER_SECONDS + 1)
    assert claim_and_close(folder) == 2


def test_a_run_s_folder_is_found_by_its_address(storage: Folder) -> None:
    claim_and_close(RunFolder(storage))

    assert RunFolder(open_folder(str(storage))).attempts() == [1]


def test_processes_know_when_they_began() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert process_start(child.pid) >= process_start(os.getpid()) > 0
        child.communicate()
    assert process_start(child.pid) == -1
    assert 0 < process_age_seconds() < 24 * 3600
    assert len(boot_id()) == 36
