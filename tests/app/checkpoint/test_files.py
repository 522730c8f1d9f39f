"""A checkpoint is whole or it is not there; else it is refused and the one before taken."""

import errno
import io
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pytest
import torch
from typing_extensions import override

from tests.app.builders_checkpoint import (
    Bomb,
    files_of_at_most,
    hold,
    make_manifest,
    write_checkpoint,
)
from tests.faulty_s3 import FaultyS3
from tests.s3_faults import Refusal, Rule
from trainshed.checkpoint import store as checkpoint
from trainshed.checkpoint.local_checkpoint import local_checkpoint
from trainshed.checkpoint.store import BadCheckpointError
from trainshed.failures import InfrastructureError
from trainshed.retry import Read, RetryPolicy
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed_api.errors import SpecError


def load(folder: Folder, *, trust_objects: bool = False) -> dict[str, object]:
    """Load a checkpoint from wherever it lies."""
    with local_checkpoint(folder, checkpoint.verify(folder)) as here:
        return checkpoint.load(here, trust_objects=trust_objects)


def test_what_was_written_is_read_back(place: Folder) -> None:
    folder = write_checkpoint(place, step=42)
    saved = load(folder)
    model = saved["model"]
    assert isinstance(model, dict)

    manifest = checkpoint.verify(folder)
    assert manifest.model_copy(update={"files": {}}) == make_manifest(step=42)
    assert checkpoint.read_manifest(folder) == manifest
    assert model["weight"].tolist() == [42.0] * 1000
    assert saved == {"optimizer": {"step": 42}, "model": model}
    assert folder.name == "checkpoint_000000042_epoch0001"
    assert folder.names() == ["manifest.json", "model.pt", "state.pt"]
    assert place.names() == [folder.name]


def test_others_may_read_what_lies_on_a_disk(on_disk: Disk) -> None:
    assert write_checkpoint(on_disk).path.stat().st_mode & 0o777 == 0o755


def test_weights_load_without_us(place: Folder) -> None:
    content = write_checkpoint(place).read("model.pt")
    weights = torch.load(io.BytesIO(content), weights_only=True)

    assert type(weights) is dict
    assert list(weights) == ["weight"]


# ----------------------------------------------------------------- not whole


def cut(folder: Folder, name: str) -> None:
    folder.write(name, folder.read(name)[:-7])


def alter(folder: Folder, name: str) -> None:
    content = bytearray(folder.read(name))
    content[len(content) // 2] ^= 1
    folder.write(name, bytes(content))


def delete(folder: Folder, name: str) -> None:
    folder.delete(name)


def empty_manifest(folder: Folder, name: str) -> None:
    folder.write(name, make_manifest().model_dump_json(by_alias=True).encode())


@dataclass(frozen=True)
class Damage:
    """What became of a file, and what is said of it."""

    file: str
    harm: Callable[[Folder, str], object]
    want: str


DAMAGES: dict[str, Damage] = {
    "weights cut short": Damage("model.pt", cut, r"model\.pt has \d+ of \d+ bytes"),
    "state cut short": Damage("state.pt", cut, r"state\.pt has \d+ of \d+ bytes"),
    "manifest cut short": Damage("manifest.json", cut, r"no readable manifest\.json"),
    "weights gone": Damage("model.pt", delete, r"model\.pt is missing"),
    "state gone": Damage("state.pt", delete, r"state\.pt is missing"),
    "a manifest without files": Damage("manifest.json", empty_manifest, r"model\.pt is missing"),
}
ALTERED: dict[str, Damage] = {
    "weights altered": Damage("model.pt", alter, r"model\.pt does not have the content"),
    "state altered": Damage("state.pt", alter, r"state\.pt does not have the content"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_taken(
    damage: Damage, place: Folder
) -> None:
    assert_refused(damage, place)


def test_one_whose_manifest_is_gone_is_refused_on_a_disk(on_disk: Disk) -> None:
    assert_refused(Damage("manifest.json", delete, r"no readable manifest\.json"), on_disk)


def test_one_without_a_manifest_is_none_yet_in_a_bucket(in_bucket: Bucket) -> None:
    before, half = write_checkpoint(in_bucket, 10), write_checkpoint(in_bucket, 20)
    half.delete("manifest.json")

    found, _, refused = checkpoint.newest([in_bucket])
    assert found == before
    assert refused == [], "what a kill cut short was nobody's"
    assert checkpoint.half_written([in_bucket]) == [half]


# What an object of a bucket holds is looked at where it is fetched: test_at_hand.py.
@pytest.mark.parametrize("damage", ALTERED.values(), ids=ALTERED)
def test_an_altered_checkpoint_is_refused_and_the_one_before_taken(
    damage: Damage, on_disk: Disk
) -> None:
    assert_refused(damage, on_disk)


def assert_refused(damage: Damage, place: Folder) -> None:
    before, damaged = write_checkpoint(place, 10), write_checkpoint(place, 20)
    damage.harm(damaged, damage.file)

    with pytest.raises(BadCheckpointError, match=damage.want) as caught:
        checkpoint.verify(damaged)
    assert str(damaged) in str(caught.value)
    found, manifest, refused = checkpoint.newest([place])
    assert found == before
    assert manifest
    assert manifest.position.step == 10
    assert refused == [f"checkpoint refused, trying the one before it: {caught.value}"]


# ---------------------------------------------------------------------- order


def test_a_later_attempt_comes_before_more_steps_of_an_earlier_one(place: Folder) -> None:
    first, second = place / "1", place / "2"
    write_checkpoint(first, 90)
    write_checkpoint(first, 100)
    write_checkpoint(second, 20)
    write_checkpoint(second, 9)

    found = checkpoint.candidates([first, second])
    steps = [(each.parent.name, checkpoint.verify(each).position.step) for each in found]
    assert steps == [("2", 20), ("2", 9), ("1", 100), ("1", 90)]


def test_checkpoints_that_users_write_are_left_alone(place: Folder) -> None:
    for name in ("checkpoint_2026-01-31_17-05-49.123456", "checkpoint_000000", "resumed_from"):
        (place / name).write("theirs", b"")

    assert checkpoint.newest([place]) == (None, None, [])


def test_a_step_may_have_a_checkpoint_before_and_one_after_its_epoch_ended(place: Folder) -> None:
    first, second = write_checkpoint(place, 45, epoch=1), write_checkpoint(place, 45, epoch=2)

    assert checkpoint.newest([place])[0] == second
    for folder in (first, second):
        position = checkpoint.verify(folder).position
        assert checkpoint.find(place, position) == (folder, checkpoint.verify(folder))


def test_a_refused_checkpoint_does_not_stand_in_the_way_of_its_successor(place: Folder) -> None:
    write_checkpoint(place, 10)
    cut(write_checkpoint(place, 20), "model.pt")
    again = write_checkpoint(place, 20)

    assert checkpoint.newest([place])[0] == again
    assert checkpoint.find(place, checkpoint.verify(again).position)[0] == again


def test_looking_for_a_step_that_has_none_says_so(place: Folder) -> None:
    cut(write_checkpoint(place, 20), "model.pt")

    with pytest.raises(BadCheckpointError, match="no complete checkpoint of step 20"):
        checkpoint.find(place, make_manifest(20).position)


# ----------------------------------------------------------- what a kill cut short


@dataclass(frozen=True)
class Short:
    """A state that a kill leaves in a bucket, and whether the checkpoint is whole in it."""

    there: tuple[str, ...]
    is_whole: bool


SHORT: dict[str, Short] = {
    "before the first file": Short((".writing",), False),
    "between two files": Short((".writing", "model.pt"), False),
    "before the manifest": Short((".writing", "model.pt", "state.pt"), False),
    "before the end of the mark": Short(
        (".writing", "model.pt", "state.pt", "manifest.json"), True
    ),
}


@pytest.mark.parametrize("short", SHORT.values(), ids=SHORT)
def test_what_a_kill_cut_short_in_a_bucket_is_whole_or_passed_over_in_silence(
    short: Short, in_bucket: Bucket
) -> None:
    before, last = write_checkpoint(in_bucket, 10), write_checkpoint(in_bucket, 20)
    for name in set(last.names()) - set(short.there):
        last.delete(name)
    last.write(".writing", b"whose")

    found, _, refused = checkpoint.newest([in_bucket])

    assert (found, refused) == (last if short.is_whole else before, [])
    assert checkpoint.half_written([in_bucket]) == ([] if short.is_whole else [last])


def test_what_a_kill_cut_short_on_a_disk_is_half_whatever_is_in_it(on_disk: Disk) -> None:
    before, last = write_checkpoint(on_disk, 10), write_checkpoint(on_disk, 20)
    going = last.path.rename(last.path.with_name(f".deleting-{last.name}"))

    assert checkpoint.half_written([on_disk]) == [Disk(going)]
    assert checkpoint.newest([on_disk])[::2] == (before, [])


@dataclass(frozen=True)
class Meanwhile(RetryPolicy):
    """Reads, while others go on with their own work."""

    others: list[Callable[[], object]] = field(default_factory=list)

    @override
    def read(self, read: Callable[[], Read]) -> Read:
        while self.others:
            self.others.pop()()
        return super().read(read)


def test_what_is_deleted_meanwhile_for_a_newer_one_is_not_refused_and_that_is_taken(
    place: Folder,
) -> None:
    write_checkpoint(place, 10)
    going = write_checkpoint(place, 20)

    def go_on() -> None:
        write_checkpoint(place, 30)
        going.remove(first="manifest.json")

    found, manifest, refused = checkpoint.newest([place], Meanwhile(others=[go_on]))

    assert found
    assert (manifest and manifest.position.step, refused) == (30, [])


def test_what_becomes_whole_meanwhile_is_taken_before_one_that_is_being_deleted(
    in_bucket: Bucket,
) -> None:
    write_checkpoint(in_bucket, 10)
    going, coming = write_checkpoint(in_bucket, 20), write_checkpoint(in_bucket, 30)
    last = coming.read("manifest.json")
    coming.write(".writing", b"whose")
    coming.delete("manifest.json")

    def go_on() -> None:
        coming.write("manifest.json", last)
        coming.delete(".writing")
        going.write(".writing", b"")
        going.delete("manifest.json")

    found, _, refused = checkpoint.newest([in_bucket], Meanwhile(others=[go_on]))

    assert (found, refused) == (coming, [])


# ------------------------------------------------------------------ full disk


@pytest.mark.parametrize("size", [100_000, 200], ids=["large weights", "small weights"])
def test_a_full_disk_is_said_as_such_and_leaves_nothing(
    place: Folder, size: int, own_temporary: Path
) -> None:
    with files_of_at_most(size // 2), pytest.raises(OSError, match="File too large"):
        write_checkpoint(place, size=size)

    assert place.names() == []
    assert list(own_temporary.iterdir()) == []


def test_a_crash_while_writing_leaves_nothing(place: Folder, own_temporary: Path) -> None:
    model = {"weight": torch.zeros(3)}
    with pytest.raises(ArithmeticError):
        checkpoint.write(place, hold(model, {"state": Bomb()}), make_manifest(), trust_objects=True)

    assert place.names() == []
    assert list(own_temporary.iterdir()) == []


@pytest.mark.parametrize(("mode", "want_step"), [("max", 20), ("min", 10)])
def test_the_best_checkpoint_is_found_among_all_attempts(
    place: Folder, mode: str, want_step: int
) -> None:
    parents = [place / "1", place / "2"]
    for parent, step, accuracy in ((0, 10, 0.5), (0, 20, 0.9), (1, 30, 0.9), (1, 40, 0.7)):
        manifest = make_manifest(step=step).model_copy(update={"metrics": {"accuracy": accuracy}})
        checkpoint.write(parents[parent], hold({}, {}), manifest, trust_objects=False)

    found = checkpoint.best(parents, "accuracy", mode)
    assert found
    assert found[1].position.step == want_step
    assert checkpoint.best(parents, "loss", mode) is None


def test_a_checkpoint_that_only_inherits_a_metric_is_not_the_best(place: Folder) -> None:
    for step, scored in ((10, {"accuracy"}), (20, frozenset[str]())):
        known = {"metrics": {"accuracy": 0.9}, "scored": frozenset(scored)}
        manifest = make_manifest(step=step).model_copy(update=known)
        checkpoint.write(place, hold({}, {}), manifest, trust_objects=False)

    found = checkpoint.best([place], "accuracy", "max")

    assert found
    assert found[1].position.step == 10


# ---------------------------------------------------------------- trust


class Schedule:
    """A class of a user's."""

    warmup = 3


class Intruder:
    """Writes a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (self.file,)  # type: ignore[return-value]  # pickle calls it


PLAIN = {
    "numbers of NumPy": {"best": np.float64(0.5), "order": np.arange(3)},
    "a generator of NumPy": np.random.RandomState(3).get_state(),
    "containers": {"seen": {1, 2}, "counts": Counter("ab")},
    "schedulers": [
        scheduler.state_dict()
        for scheduler in (
            torch.optim.lr_scheduler.OneCycleLR(
                torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))]), 0.1, 10
            ),
            torch.optim.lr_scheduler.MultiStepLR(
                torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]), [2, 5]
            ),
        )
    ],
}


@pytest.mark.parametrize("case", PLAIN)
def test_plain_values_need_no_trust(on_disk: Disk, case: str) -> None:
    manifest = make_manifest()
    folder = checkpoint.write(on_disk, hold({}, {"it": PLAIN[case]}), manifest, trust_objects=False)

    assert repr(load(folder)["it"]) == repr(PLAIN[case])


def test_objects_are_refused_when_they_are_saved_and_name_the_field(place: Folder) -> None:
    with pytest.raises(SpecError, match=r"spec\.checkpoint\.trustObjects.*Schedule"):
        checkpoint.write(
            place, hold({}, {"schedule": Schedule()}), make_manifest(), trust_objects=False
        )
    assert place.names() == []

    folder = checkpoint.write(
        place, hold({}, {"schedule": Schedule()}), make_manifest(), trust_objects=True
    )
    assert isinstance(load(folder, trust_objects=True)["schedule"], Schedule)


def test_a_crafted_checkpoint_runs_nothing(place: Folder, tmp_path: Path) -> None:
    sign = tmp_path / "was-here"
    crafted = {"schedule": Intruder(sign)}
    folder = checkpoint.write(place, hold({}, crafted), make_manifest(), trust_objects=True)
    sign.unlink(missing_ok=True)

    with pytest.raises(SpecError, match=r"trustObjects"):
        load(folder)
    assert not sign.exists()

    load(folder, trust_objects=True)
    assert sign.exists(), "it would run, were it trusted"


# -------------------------------------------------- what storage does not give


def fail_to_open(
    monkeypatch: pytest.MonkeyPatch, name: str, times: int, number: int = errno.ESTALE
) -> None:
    """Let the storage fail so often when a file of this name is opened."""
    left, whole = [times], cast("Callable[..., IO[Any]]", Path.open)

    def opened(path: Path, *arguments: object, **options: object) -> IO[Any]:
        if path.name == name and left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number), str(path))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("name", ["manifest.json", "model.pt", "state.pt"])
def test_a_checkpoint_that_storage_does_not_give_at_once_is_waited_for(
    name: str, on_disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(on_disk, 10)
    newest = write_checkpoint(on_disk, 20)
    waited: list[float] = []
    retry_policy = RetryPolicy((1.0, 4.0), waited.append)
    fail_to_open(monkeypatch, name, times=2)
    found, _, refused = checkpoint.newest([on_disk], retry_policy)

    assert (found, refused, waited) == (newest, [], [1.0, 4.0])
    if name != "manifest.json":
        fail_to_open(monkeypatch, name, times=1)
        model = checkpoint.load(newest.path, retry_policy=retry_policy, trust_objects=False)[
            "model"
        ]
        assert isinstance(model, dict)
        assert (model["weight"].tolist()[0], waited) == (20.0, [1.0, 4.0, 1.0])


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("manifest.json", errno.ESTALE),
        ("manifest.json", errno.EACCES),
        ("model.pt", errno.ESTALE),
    ],
)
def test_a_checkpoint_that_storage_keeps_is_not_passed_over_for_an_older_one(
    name: str, number: int, on_disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (10, 20):
        write_checkpoint(on_disk, step)
    fail_to_open(monkeypatch, name, times=10**9, number=number)
    with pytest.raises(
        InfrastructureError, match=f"checkpoint_000000020_epoch0001: .*{name}"
    ) as caught:
        checkpoint.newest([on_disk], RetryPolicy((1.0,), lambda _: None))
    assert caught.value.kind == "storage"


@pytest.fixture
def faulty(in_bucket: Bucket, faulty_s3: FaultyS3, monkeypatch: pytest.MonkeyPatch) -> FaultyS3:
    """What stands between a bucket and all that ask it."""
    for name, value in faulty_s3.environment.items():
        monkeypatch.setenv(name, value)
    return faulty_s3


# Asked again at once in vain, for the answers are final; those that are not are the client's test.
@pytest.mark.parametrize("refusal", [Refusal(403, "AccessDenied"), Refusal(400, "ExpiredToken")])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_checkpoint_that_a_server_withholds_is_not_passed_over_for_an_older_one(
    method: str, refusal: Refusal, in_bucket: Bucket, faulty: FaultyS3
) -> None:
    for step in (10, 20):
        write_checkpoint(in_bucket, step)
    faulty.add(Rule(refusal, method, "*/checkpoint_000000020_epoch0001/*"))

    # An answer to HEAD has no words in it.
    with pytest.raises(
        InfrastructureError, match=refusal.code if method == "GET" else "model.pt"
    ) as caught:
        checkpoint.newest([in_bucket], RetryPolicy(()))
    assert str(in_bucket) in str(caught.value)
    assert caught.value.kind == "storage"
