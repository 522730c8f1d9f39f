"""What is made on this machine's disk goes with who made it, and a full disk is said as such."""

import errno
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trainshed.failures import RULES, classify
from trainshed.storage.bucket import Bucket
from trainshed.storage.scratch import NoRoomError, made_aside, space_for
from trainshed_api.names import ENV_SCRATCH

MAKES = """
import os, signal, sys, tempfile
from trainshed.storage.scratch import made_aside

tempfile.tempdir = sys.argv[1]
with made_aside("rows") as made:
    (made / "model").write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


# Starts a process: what is about is what a kill leaves.
def test_what_a_killed_process_made_goes_and_what_is_being_made_stays(own_temporary: Path) -> None:
    with made_aside("rows") as made:
        killed = subprocess.run(
            [sys.executable, "-c", MAKES, str(own_temporary)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL
        [left] = set(own_temporary.iterdir()) - {made}
        assert (left / "model").exists()

        with made_aside("rows") as another:
            assert set(own_temporary.iterdir()) == {made, another}
    assert list(own_temporary.iterdir()) == []


def test_a_full_disk_is_said_with_what_to_do(own_temporary: Path) -> None:
    with (
        pytest.raises(NoRoomError, match=f"{own_temporary} has too little space") as caught,
        made_aside("rows"),
        Path("/dev/full").open("wb", buffering=0) as full,
    ):
        full.write(b"weights")

    assert "scratch.tmp of the chart" in str(caught.value)
    kind = classify(caught.value)
    assert kind == "scratch"
    assert RULES[kind].says == "the disk of a node is full"
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.errno) == (str(caught.value), errno.ENOSPC)


def test_another_fault_of_the_disk_is_what_it_is(own_temporary: Path) -> None:
    with pytest.raises(FileNotFoundError), made_aside("rows") as made:
        (made / "model").read_bytes()


@pytest.mark.usefixtures("own_temporary")
def test_what_is_known_not_to_fit_is_not_begun() -> None:
    with (
        pytest.raises(NoRoomError, match="too little space for a checkpoint"),
        space_for("a checkpoint", 2**60),
    ):
        raise AssertionError("begun")


def test_what_is_made_is_named_where_there_is_no_room_for_it(
    in_bucket: Bucket, own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_temporary / "large").write_bytes(bytes(2**21))
    monkeypatch.setenv(ENV_SCRATCH, "1Mi")

    with (
        pytest.raises(NoRoomError, match="too little space for rows that are kept"),
        in_bucket.aside("rows that are kept"),
    ):
        raise AssertionError("begun")


def test_beyond_the_limit_of_a_pod_nothing_is_put(
    in_bucket: Bucket, own_temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SCRATCH, "1Mi")
    with in_bucket.aside() as made:
        (made / "model").write_bytes(bytes(2**21))
        with pytest.raises(NoRoomError, match=r"too little space for s3://.*/checkpoint \("):
            in_bucket.adopt(made, "checkpoint", last="model")

    assert in_bucket.tree() == []
    assert list(own_temporary.iterdir()) == []
    with in_bucket.aside() as made:
        (made / "model").write_bytes(bytes(2**19))
        assert in_bucket.adopt(made, "checkpoint", last="model").names() == ["model"]
