"""A checkpoint of a bucket is fetched once for a node, looked at, and never another's."""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from typing_extensions import override

from tests.app.builders_checkpoint import write_checkpoint
from tests.app.checkpoint.beside import beside, credentials
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.manifest import Manifest
from trainshed.checkpoint.store import BadCheckpointError
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.scratch import NoRoomError
from trainshed_api.names import ENV_SCRATCH

RANKS, SECONDS = 4, 60.0


@dataclass(frozen=True)
class Counted(Bucket):
    """A bucket that knows how often each of its files was fetched."""

    fetched: list[str] = field(default_factory=list, compare=False)

    @override
    def fetch(self, name: str, to: Path) -> None:
        self.fetched.append(name)
        super().fetch(name, to)


def counted(folder: Bucket) -> Counted:
    return Counted(folder.root, folder.key)


def weight_in(folder: Path) -> float:
    """Return what all weights are of a checkpoint that `write_checkpoint` wrote."""
    model = checkpoint.load(folder, trust_objects=False)["model"]
    assert isinstance(model, dict)
    [weight] = model["weight"].unique().tolist()
    return float(weight)


def files_below(folder: Path) -> dict[str, int]:
    """Return the inode of each file, by its path."""
    return {str(file): file.stat().st_ino for file in folder.rglob("*.pt")}


@contextmanager
def has_weight(folder: Bucket, manifest: Manifest, weight: float) -> Iterator[Path]:
    with local_checkpoint(folder, manifest) as here:
        assert weight_in(here) == weight
        yield here


def test_ranks_of_a_node_that_ask_at_once_fetch_it_once(in_bucket: Bucket) -> None:
    folder = counted(write_checkpoint(in_bucket, 10))
    manifest = checkpoint.verify(folder)
    all_there = threading.Barrier(RANKS)

    def restore(_: int) -> Path:
        all_there.wait(SECONDS)
        with has_weight(folder, manifest, 10.0) as here:
            all_there.wait(SECONDS)  # all of them have it at hand at once
            return here

    with ThreadPoolExecutor(RANKS) as ranks:
        found = set(ranks.map(restore, range(RANKS)))

    assert len(found) == 1
    assert sorted(folder.fetched) == ["manifest.json", "model.pt", "state.pt"]


def restore_beside(folder: Bucket, temporary: Path, environment: Mapping[str, str]) -> None:
    """Be a rank: have a checkpoint at hand, in a process of its own."""
    os.environ.update(environment)
    tempfile.tempdir = str(temporary)
    with (
        has_weight(folder, checkpoint.verify(folder), 10.0) as here,
        (temporary / "seen").open("a") as seen,
    ):
        # Who fetched again has written other files.
        seen.write(f"{(here / 'model.pt').stat().st_ino}\n")


# Starts processes: ranks of a node share no memory, and locks of threads say nothing of them.
def test_processes_that_ask_at_once_have_one_download(
    in_bucket: Bucket, own_temporary: Path
) -> None:
    folder = write_checkpoint(in_bucket, 10)
    ranks = [beside(restore_beside, folder, own_temporary, credentials()) for _ in range(RANKS)]
    for rank in ranks:
        rank.join(SECONDS)

    assert [rank.exitcode for rank in ranks] == [0] * RANKS
    seen = (own_temporary / "seen").read_text().split()
    assert (len(seen), len(set(seen))) == (RANKS, 1)


def test_it_stays_for_a_group_of_workers_that_starts_again(in_bucket: Bucket) -> None:
    folder = counted(write_checkpoint(in_bucket, 10))
    manifest = checkpoint.verify(folder)
    for _ in range(2):
        with has_weight(folder, manifest, 10.0):
            pass

    assert len(folder.fetched) == 3


@pytest.mark.parametrize("name", ["model.pt", "state.pt", ".whole"])
def test_what_was_deleted_from_the_machine_since_is_fetched_again(
    name: str, in_bucket: Bucket
) -> None:
    folder = counted(write_checkpoint(in_bucket, 10))
    manifest = checkpoint.verify(folder)
    with has_weight(folder, manifest, 10.0) as here:
        (here / name).unlink()
    with has_weight(folder, manifest, 10.0):
        assert len(folder.fetched) == 6


@pytest.mark.parametrize("name", ["model.pt", "state.pt"])
def test_content_that_was_altered_is_refused_by_the_name_of_its_folder(
    name: str, in_bucket: Bucket
) -> None:
    folder = write_checkpoint(in_bucket, 10)
    manifest, whole = checkpoint.verify(folder), folder.read(name)
    altered = bytearray(whole)
    altered[len(altered) // 2] ^= 1
    folder.write(name, bytes(altered))
    assert checkpoint.verify(folder) == manifest, "its sizes are those that it had"

    for _ in range(2):
        with (
            pytest.raises(BadCheckpointError, match=f"{name} does not have") as caught,
            local_checkpoint(folder, manifest),
        ):
            pass
        assert str(folder) in str(caught.value)
    folder.write(name, whole)
    with has_weight(folder, manifest, 10.0):
        pass


def test_a_file_that_would_lie_outside_is_refused(in_bucket: Bucket, own_temporary: Path) -> None:
    folder = write_checkpoint(in_bucket, 10)
    manifest = checkpoint.verify(folder)
    outside = {"../../../outside": manifest.files["model.pt"]}
    crafted = manifest.model_copy(update={"files": {**manifest.files, **outside}})

    with (
        pytest.raises(BadCheckpointError, match=r"\.\./outside is not a file name"),
        local_checkpoint(folder, crafted),
    ):
        pass
    assert not list(own_temporary.rglob("outside"))


def test_another_checkpoint_of_the_run_replaces_the_first(
    in_bucket: Bucket, own_temporary: Path
) -> None:
    later = in_bucket.parent.parent / "2" / "ray"
    first, second = write_checkpoint(in_bucket, 10), write_checkpoint(later, 20)
    for folder, weight in ((first, 10.0), (second, 20.0)):
        with has_weight(folder, checkpoint.verify(folder), weight) as here:
            assert list(files_below(own_temporary)) == list(files_below(here))


def test_one_of_another_run_goes_when_nobody_reads_it_any_more(in_bucket: Bucket) -> None:
    other = Bucket(in_bucket.root, "local/other/attempts/1/ray")
    first, second = counted(write_checkpoint(in_bucket, 10)), write_checkpoint(other, 20)
    of_first, of_second = checkpoint.verify(first), checkpoint.verify(second)
    with has_weight(first, of_first, 10.0), has_weight(second, of_second, 20.0):
        pass
    with has_weight(first, of_first, 10.0):
        pass
    assert len(first.fetched) == 3, "it was being read while the other was fetched"

    third = write_checkpoint(Bucket(in_bucket.root, "local/third/attempts/1/ray"), 30)
    with has_weight(third, checkpoint.verify(third), 30.0):
        pass
    with has_weight(first, of_first, 10.0):
        pass
    assert len(first.fetched) == 6


def test_one_that_was_written_anew_under_its_name_is_not_taken_for_the_old_one(
    in_bucket: Bucket,
) -> None:
    for size in (1000, 2000):
        folder = write_checkpoint(in_bucket, 10, size=size)
        with has_weight(folder, checkpoint.verify(folder), 10.0) as here:
            weights = torch.load(here / "model.pt", weights_only=True)["weight"]
            assert len(weights) == size
        folder.remove(first="manifest.json")


def test_one_that_is_being_read_is_not_deleted_for_another(in_bucket: Bucket) -> None:
    first, second = write_checkpoint(in_bucket, 10), write_checkpoint(in_bucket, 20)
    replaced = threading.Event()

    def ask_for_another() -> None:
        with has_weight(second, checkpoint.verify(second), 20.0):
            replaced.set()

    with has_weight(first, checkpoint.verify(first), 10.0) as here:
        asks = threading.Thread(target=ask_for_another)
        asks.start()
        assert not replaced.wait(0.5)
        assert weight_in(here) == 10.0
    asks.join(SECONDS)
    assert replaced.is_set()
    assert not here.exists()


def of_somebody_else(folder: Path) -> None:
    folder.mkdir()
    os.chown(folder, 65534, 65534)


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def leads_elsewhere(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    elsewhere.mkdir(mode=0o700)
    folder.symlink_to(elsewhere)


@pytest.mark.parametrize("made", [of_somebody_else, open_to_all, leads_elsewhere])
def test_a_folder_that_others_may_have_put_something_into_is_refused(
    made: Callable[[Path], None], in_bucket: Bucket, own_temporary: Path
) -> None:
    try:
        made(own_temporary / f"trainshed-{os.getuid()}")
    except PermissionError as error:
        pytest.skip(f"this process may not: {error}")
    folder = write_checkpoint(in_bucket, 10)

    manifest = checkpoint.verify(folder)
    with (
        pytest.raises(PermissionError, match="is not this user's"),
        local_checkpoint(folder, manifest),
    ):
        pass


def test_nobody_else_may_read_what_was_fetched(in_bucket: Bucket, own_temporary: Path) -> None:
    folder = write_checkpoint(in_bucket, 10)
    with local_checkpoint(folder, checkpoint.verify(folder)):
        [users] = own_temporary.iterdir()

    assert users.stat().st_mode & 0o777 == 0o700


def test_one_that_the_disk_has_no_room_for_is_not_fetched(
    in_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_checkpoint(in_bucket)
    monkeypatch.setenv(ENV_SCRATCH, "1")
    manifest = checkpoint.verify(folder)

    with (
        pytest.raises(NoRoomError, match=f"too little space for {folder} of"),
        local_checkpoint(folder, manifest),
    ):
        raise AssertionError("fetched")


def test_on_a_disk_nothing_is_copied(on_disk: Disk, own_temporary: Path) -> None:
    folder = write_checkpoint(on_disk, 10)
    with local_checkpoint(folder, checkpoint.verify(folder)) as here:
        assert here == folder.path

    assert list(own_temporary.iterdir()) == []
    assert weight_in(here) == 10.0
