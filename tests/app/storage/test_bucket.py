"""A bucket keeps what it was given, whatever answer is lost, late or a refusal, and says what."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyarrow.fs import S3FileSystem

from tests.app.conftest import KEY, set_environment
from tests.app.marks import unfinished
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from tests.s3_faults import CONFLICT, SLOW_DOWN, Refusal, Rule
from trainshed.failures import classify
from trainshed.storage.bucket import MOST_COPIED, PART_BYTES, Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import UNDERWAY

LAST = "manifest.json"
REFUSED = Refusal(403, "AccessDenied")
OPERATE = """
import sys
from trainshed.storage.addresses import open_folder

folder = open_folder(sys.argv[1])
with folder.aside() as made:
    (made / "model").write_bytes(b"weights")
    (made / "manifest.json").write_bytes(b"{}")
    adopted = folder.adopt(made, "checkpoint", last="manifest.json")
if sys.argv[2] == "take":
    (folder / "2").take(adopted, "resumed")
adopted.remove(first="manifest.json")
"""


def adopt(parent: Bucket, content: bytes = b"weights") -> Bucket:
    with parent.aside() as made:
        (made / "model").write_bytes(content)
        (made / LAST).write_bytes(b"{}")
        return parent.adopt(made, "checkpoint", last=LAST)


def names_below(folder: Bucket) -> list[str]:
    return [each.name for each in folder.tree()]


# ------------------------------------------------------------------- creating


def test_a_lost_answer_does_not_make_it_another_s(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule("answer lost", method="PUT", key="*/claim", times=1))

    through_faults.create("claim", b"mine")

    assert faulty_s3.count("PUT", "*/claim") == 2
    with pytest.raises(FileExistsError):
        through_faults.create("claim", b"yours")
    assert through_faults.read("claim") == b"mine"


def test_a_lost_answer_does_not_make_another_s_mine(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    through_faults.create("claim", b"yours")
    faulty_s3.add(Rule("answer lost", method="PUT", key="*/claim", times=1))

    with pytest.raises(FileExistsError):
        through_faults.create("claim", b"mine")
    assert through_faults.read("claim") == b"yours"


def test_a_conflict_that_nobody_won_is_tried_again(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(CONFLICT, method="PUT", key="*/claim", times=2))

    through_faults.create("claim", b"mine")

    assert through_faults.read("claim") == b"mine"


def test_who_replaces_a_file_meets_a_conflict_and_tries_again(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    through_faults.write("run.json", b"old")
    faulty_s3.add(Rule(Refusal(409, "OperationAborted"), method="PUT", times=2))

    through_faults.write("run.json", b"new")

    assert through_faults.read("run.json") == b"new"


def test_a_conflict_that_lasts_is_somebody_else_s(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(CONFLICT, method="PUT", key="*/claim"))

    with pytest.raises(FileExistsError):
        through_faults.create("claim", b"mine")


def test_a_wrong_clock_is_not_taken_for_expired_credentials(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(Refusal(403, "RequestTimeTooSkewed"), method="PUT"))

    with pytest.raises(PermissionError, match="the clock here differs too much") as caught:
        through_faults.create("claim", b"mine")

    assert "credentials" not in str(caught.value)


# -------------------------------------------------------------- slow and away


def test_a_server_that_is_slow_is_asked_again(
    through_faults: Bucket, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    faulty_s3.add(Rule(SLOW_DOWN, every=2))

    folder = adopt(through_faults)
    folder.fetch("model", tmp_path / "model")

    assert names_below(folder) == [LAST, "model"]
    assert (tmp_path / "model").read_bytes() == b"weights"
    folder.remove(first=LAST)
    assert not folder.exists()


def test_every_other_answer_may_be_lost(through_faults: Bucket, faulty_s3: FaultyS3) -> None:
    faulty_s3.add(Rule("answer lost", every=2))

    for _ in range(3):
        folder = adopt(through_faults)
        assert (folder.name, names_below(folder)) == ("checkpoint", [LAST, "model"])
        folder.remove(first=LAST)
        assert not through_faults.exists()


def test_a_server_that_is_away_for_longer_is_the_storage_s_fault_and_costs_no_checkpoint(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with faulty_s3.refusing():
            adopting = pool.submit(adopt, through_faults)
            with pytest.raises(OSError, match=f"{KEY}/run.json") as caught:
                through_faults.read("run.json")
        assert names_below(adopting.result()) == [LAST, "model"]

    assert caught.value.errno == errno.EREMOTEIO
    assert classify(caught.value) == "storage"


# -------------------------------------------------------------------- adopting


def test_nothing_is_left_of_what_was_not_adopted(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(REFUSED, method="PUT", key=f"*{LAST}"))

    with pytest.raises(PermissionError):
        adopt(through_faults)

    assert through_faults.tree() == []


def test_what_could_not_be_undone_is_unfinished(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule(REFUSED, method="PUT", key=f"*{LAST}"))
    faulty_s3.add(Rule(REFUSED, method="DELETE"))
    faulty_s3.add(Rule(REFUSED, method="POST"))

    with pytest.raises(PermissionError):
        adopt(through_faults)

    faulty_s3.heal()
    [left] = unfinished(through_faults)
    assert left == through_faults / "checkpoint"
    left.remove(first=LAST)
    assert through_faults.tree() == []


def test_the_last_file_is_there_when_all_others_are(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule("request held", method="PUT", key=f"*{LAST}", times=1))
    with ThreadPoolExecutor(1) as pool:
        adopting = pool.submit(adopt, through_faults)
        faulty_s3.wait_until_held()
        assert names_below(through_faults) == [f"checkpoint/{UNDERWAY}", "checkpoint/model"]
        faulty_s3.release()
        assert names_below(adopting.result()) == [LAST, "model"]


def test_who_comes_late_does_not_write_over_what_is_whole(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    faulty_s3.add(Rule("answer held", method="GET", key="", times=1))
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(adopt, through_faults, b"late")  # has been told that the name is free
        faulty_s3.wait_until_held()
        early = adopt(through_faults, b"early")
        faulty_s3.release()
        assert late.result().name == "checkpoint-2"

    assert early.read("model") == b"early"
    assert late.result().read("model") == b"late"
    assert unfinished(through_faults) == []


def kill_at(held: Rule, folder: Bucket, faulty_s3: FaultyS3, operation: str) -> None:
    """Kill a process while a request of its is on its way; it arrives later than that."""
    faulty_s3.add(held)
    process = subprocess.Popen(
        [sys.executable, "-c", OPERATE, str(folder), operation],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    faulty_s3.wait_until_held()
    process.kill()
    assert process.wait() == -signal.SIGKILL


KILLED = {
    "while a file is put": Rule("request held", "PUT", "*checkpoint/model", times=1),
    "while the last file is put": Rule("request held", "PUT", f"*{LAST}", times=1),
    # A request with a list deletes, the first of them the mark of what was adopted.
    "while the first file is deleted": Rule("request held", "POST", every=2, times=1),
    "while the others are deleted": Rule("request held", "POST", every=3, times=1),
}


@pytest.mark.parametrize("case", KILLED)
def test_what_a_kill_leaves_is_unfinished_and_removed(
    through_faults: Bucket, faulty_s3: FaultyS3, case: str
) -> None:
    kill_at(KILLED[case], through_faults, faulty_s3, "remove")
    assert unfinished(through_faults) == [through_faults / "checkpoint"]

    faulty_s3.heal()
    [left] = unfinished(through_faults)
    left.remove(first=LAST)
    assert through_faults.tree() == []


def test_what_a_kill_leaves_of_a_second_name_is_unfinished(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    kill_at(
        Rule("request held", "PUT", "*/2/resumed/model", times=1),
        through_faults,
        faulty_s3,
        "take",
    )

    [left] = unfinished(through_faults / "2")
    assert names_below(through_faults / "checkpoint") == [LAST, "model"]
    left.remove(first=LAST)
    assert not (through_faults / "2").exists()


def test_what_somebody_else_was_faster_to_delete_ends_nothing(
    through_faults: Bucket, faulty_s3: FaultyS3
) -> None:
    folder = adopt(through_faults)
    # As the other stores answer, where each file is a request of its own.
    faulty_s3.add(Rule(Refusal(404, "NoSuchKey"), method="POST", times=1))

    folder.remove(first=LAST)

    assert through_faults.tree() == []


def test_a_file_too_large_to_be_copied_at_once_gets_a_second_name(in_bucket: Bucket) -> None:
    content = bytes(MOST_COPIED) + b"end"
    (in_bucket / "1").write("model", content)

    (in_bucket / "2").take(in_bucket / "1", "resumed")

    assert (in_bucket / "2" / "resumed").read("model") == content
    assert unfinished(in_bucket / "2") == []


# --------------------------------------------------------------------- reading


def test_a_file_that_another_replaces_is_not_fetched_in_part(
    through_faults: Bucket, faulty_s3: FaultyS3, tmp_path: Path
) -> None:
    through_faults.write("model", b"1" * (PART_BYTES + 1))
    faulty_s3.add(Rule("request held", method="GET", key="*/model", times=1))

    with ThreadPoolExecutor(1) as pool:
        fetching = pool.submit(through_faults.fetch, "model", tmp_path / "model")
        faulty_s3.wait_until_held()
        through_faults.write("model", b"2" * (PART_BYTES + 1))
        faulty_s3.release()
        with pytest.raises(OSError, match=f"{KEY}/model"):
            fetching.result()


def test_folders_that_other_tools_mark_are_folders(s3: S3Server, in_bucket: Bucket) -> None:
    bucket = in_bucket.root.partition("://")[2]
    told = s3.environment
    other = S3FileSystem(
        access_key=told["AWS_ACCESS_KEY_ID"],
        secret_key=told["AWS_SECRET_ACCESS_KEY"],
        region=told["AWS_REGION"],
        endpoint_override=told["AWS_ENDPOINT_URL"],
    )
    other.create_dir(f"{bucket}/{KEY}", recursive=True)
    in_bucket.write("run.json", b"{}")

    assert in_bucket.names() == names_below(in_bucket) == ["run.json"]


# ------------------------------------------------------------- what is said

OPERATIONS: dict[str, Callable[[Bucket], object]] = {
    "names": lambda folder: folder.names(),
    "tree": lambda folder: folder.tree(),
    "read": lambda folder: folder.read("run.json"),
    "write": lambda folder: folder.write("run.json", b""),
    "write much": lambda folder: folder.write("run.json", bytes(PART_BYTES + 1)),
    "create": lambda folder: folder.create("run.json", b""),
    "delete": lambda folder: folder.delete("run.json"),
    "remove": lambda folder: folder.remove("run.json"),
    "adopt": adopt,
    "append": lambda folder: folder.append("log"),
    "lines": lambda folder: list(folder.lines("log")),
    "now": lambda folder: folder.now(),
    "exists": lambda folder: folder.exists(),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_bucket_that_is_missing_is_said_to_be(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    set_environment(monkeypatch, s3.environment)

    with pytest.raises(OSError, match="no such bucket") as caught:
        OPERATIONS[operation](Bucket("s3://no-such-bucket", KEY))

    said = str(caught.value)
    assert said.startswith("[Errno 121] s3://no-such-bucket: no such bucket. Create it")
    assert len(said) < 150
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("operation", [*OPERATIONS, "stat", "fetch"])
def test_wrong_credentials_are_said_to_be(
    s3: S3Server,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    operation: str,
) -> None:
    more: dict[str, Callable[[Bucket], object]] = {
        "stat": lambda folder: folder.stat("run.json"),
        "fetch": lambda folder: folder.fetch("run.json", tmp_path / "here"),
    }
    set_environment(monkeypatch, {**s3.environment, "AWS_SECRET_ACCESS_KEY": "another"})

    with pytest.raises(PermissionError) as caught:
        (OPERATIONS | more)[operation](Bucket(f"s3://{bucket}", KEY))

    said = str(caught.value)
    assert said.startswith("[Errno 13] access was denied, or the credentials have expired: ")
    assert f"s3://{bucket}" in said
    assert len(said) < 500
    assert "\n" not in said


def test_a_name_that_no_object_can_have_is_said_to_be(in_bucket: Bucket) -> None:
    with pytest.raises(OSError, match="empty path segment") as caught:
        in_bucket.write("a//b", b"")

    assert caught.value.errno == errno.EINVAL


def test_an_object_whose_name_cannot_be_listed_is_said_to_be_in_the_way(
    s3: S3Server, in_bucket: Bucket, bucket: str
) -> None:
    in_bucket.write("good", b"1")
    (s3.folder_of(bucket) / KEY / "bad\nname").touch()

    for look in (in_bucket.names, in_bucket.tree):
        with pytest.raises(OSError, match=r"delete or rename an object .*bad name") as caught:
            look()
        assert caught.value.errno == errno.EINVAL
        assert classify(caught.value) is None, "it is there the next time, too"
    assert in_bucket.read("good") == b"1"


def test_a_folder_is_taken_from_a_disk_and_from_another_bucket(
    in_bucket: Bucket, s3: S3Server, tmp_path: Path
) -> None:
    on_disk, elsewhere = Disk(tmp_path / "there"), Bucket(f"s3://{s3.make_bucket()}", "there")
    for source in (on_disk, elsewhere):
        source.write("model", b"weights")
        (source / "below").write("state", b"more")

    in_bucket.take(on_disk, "from-disk")
    in_bucket.take(elsewhere, "from-bucket")
    on_disk.take(in_bucket / "from-bucket", "back")

    for taken in (in_bucket / "from-disk", in_bucket / "from-bucket", on_disk / "back"):
        assert [(each.name, each.bytes) for each in taken.tree()] == [
            ("below/state", 4),
            ("model", 7),
        ]


@pytest.mark.parametrize("when", ["before the last file", "before the mark goes"])
def test_what_is_deleted_while_it_is_written_does_not_come_to_its_end(
    when: str, in_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("model", "state", "last"):
        (tmp_path / name).write_bytes(b"content")
    send, victim = Bucket._send, in_bucket / "checkpoint"
    struck = "state" if when == "before the last file" else "last"

    def send_and_lose(self: Bucket, name: str, content: bytes | Path) -> None:
        send(self, name, content)
        if name == struck:
            if when == "before the last file":
                victim.remove("last")
            else:
                victim.delete("model")

    monkeypatch.setattr(Bucket, "_send", send_and_lose)
    with pytest.raises(OSError, match="while it was written"):
        in_bucket.adopt(tmp_path, "checkpoint", last="last")
    assert victim.stat("last") is None, "what the last file stands for would be taken for whole"
