"""A checkpoint is whole or it is not there; else it is refused and the one before taken."""

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pytest
import torch

from tests.app.builders_checkpoint import (
    Bomb,
    files_of_at_most,
    hold,
    make_manifest,
    write_checkpoint,
)
from trainshed.checkpoint import files as checkpoint
from trainshed.checkpoint.files import BadCheckpointError
from trainshed.faults import WorldError
from trainshed.patience import Patience
from trainshed_api.errors import SpecError


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path, step=42)
    model, state = checkpoint.load(folder, trust_objects=False)
    assert isinstance(model, dict)

    manifest = checkpoint.verify(folder)
    assert manifest.model_copy(update={"files": {}}) == make_manifest(step=42)
    assert model["weight"].tolist() == [42.0] * 1000
    assert state == {"optimizer": {"step": 42}}
    assert folder.name == "checkpoint_000000042_epoch0001"
    assert folder.stat().st_mode & 0o777 == 0o755


def test_weights_load_without_us(tmp_path: Path) -> None:
    weights = torch.load(write_checkpoint(tmp_path) / "model.pt", weights_only=True)

    assert type(weights) is dict
    assert list(weights) == ["weight"]


# ----------------------------------------------------------------- not whole


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@dataclass(frozen=True)
class Damage:
    """What became of a file, and what is said of it."""

    file: str
    harm: Callable[[Path], object]
    want: str


DAMAGES: dict[str, Damage] = {
    "weights cut short": Damage("model.pt", cut, r"model\.pt has \d+ of \d+ bytes"),
    "state cut short": Damage("state.pt", cut, r"state\.pt has \d+ of \d+ bytes"),
    "manifest cut short": Damage("manifest.json", cut, r"no readable manifest\.json"),
    "weights altered": Damage("model.pt", alter, r"model\.pt does not have the content"),
    "state altered": Damage("state.pt", alter, r"state\.pt does not have the content"),
    "weights gone": Damage("model.pt", Path.unlink, r"model\.pt is missing"),
    "state gone": Damage("state.pt", Path.unlink, r"state\.pt is missing"),
    "manifest gone": Damage("manifest.json", Path.unlink, r"no readable manifest\.json"),
    "a manifest without files": Damage(
        "manifest.json",
        lambda file: file.write_text(make_manifest().model_dump_json(by_alias=True)),
        r"model\.pt is missing",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_the_one_before_taken(
    damage: Damage, tmp_path: Path
) -> None:
    before, damaged = write_checkpoint(tmp_path, 10), write_checkpoint(tmp_path, 20)
    damage.harm(damaged / damage.file)

    with pytest.raises(BadCheckpointError, match=damage.want) as caught:
        checkpoint.verify(damaged)
    assert str(damaged) in str(caught.value)
    found, manifest, refused = checkpoint.newest([tmp_path])
    assert found == before
    assert manifest
    assert manifest.position.step == 10
    assert refused == [f"checkpoint refused, taking the one before: {caught.value}"]


def test_without_any_whole_checkpoint_there_is_none(tmp_path: Path) -> None:
    cut(write_checkpoint(tmp_path, 10) / "model.pt")
    found, manifest, refused = checkpoint.newest([tmp_path, tmp_path / "nowhere"])

    assert (found, manifest, len(refused)) == (None, None, 1)


# ---------------------------------------------------------------------- order


def test_a_later_attempt_comes_before_more_steps_of_an_earlier_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "1", 90)
    write_checkpoint(tmp_path / "1", 100)
    write_checkpoint(tmp_path / "2", 20)
    write_checkpoint(tmp_path / "2", 9)

    found = checkpoint.candidates([tmp_path / "1", tmp_path / "2"])
    steps = [(path.parent.name, checkpoint.verify(path).position.step) for path in found]
    assert steps == [("2", 20), ("2", 9), ("1", 100), ("1", 90)]


def test_checkpoints_that_users_write_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "checkpoint_2026-01-31_17-05-49.123456").mkdir()
    (tmp_path / "checkpoint_000000").mkdir()
    (tmp_path / "resumed_from").mkdir()

    assert checkpoint.newest([tmp_path]) == (None, None, [])


def test_a_step_may_have_a_checkpoint_before_and_one_after_its_epoch_ended(tmp_path: Path) -> None:
    first, second = write_checkpoint(tmp_path, 45, epoch=1), write_checkpoint(tmp_path, 45, epoch=2)

    assert checkpoint.newest([tmp_path])[0] == second
    for folder in (first, second):
        position = checkpoint.verify(folder).position
        assert checkpoint.find(tmp_path, position) == (folder, checkpoint.verify(folder))


def test_a_refused_checkpoint_does_not_stand_in_the_way_of_its_successor(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 10)
    cut(write_checkpoint(tmp_path, 20) / "model.pt")
    again = write_checkpoint(tmp_path, 20)

    assert checkpoint.newest([tmp_path])[0] == again
    assert checkpoint.find(tmp_path, checkpoint.verify(again).position)[0] == again


def test_looking_for_a_step_that_has_none_says_so(tmp_path: Path) -> None:
    cut(write_checkpoint(tmp_path, 20) / "model.pt")

    with pytest.raises(BadCheckpointError, match="no whole checkpoint of step 20"):
        checkpoint.find(tmp_path, make_manifest(20).position)


# ------------------------------------------------------------------ full disk


@pytest.mark.parametrize("size", [100_000, 200], ids=["large weights", "small weights"])
def test_a_full_disk_is_said_as_such_and_leaves_nothing(tmp_path: Path, size: int) -> None:
    with files_of_at_most(size // 2), pytest.raises(OSError, match="File too large"):
        write_checkpoint(tmp_path, size=size)

    assert list(tmp_path.iterdir()) == []


def test_a_crash_while_writing_leaves_nothing(tmp_path: Path) -> None:
    model = {"weight": torch.zeros(3)}
    with pytest.raises(ArithmeticError):
        checkpoint.write(
            tmp_path, hold(model, {"state": Bomb()}), make_manifest(), trust_objects=True
        )

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "want_step"), [("max", 20), ("min", 10)])
def test_the_best_checkpoint_is_found_among_all_attempts(
    tmp_path: Path, mode: str, want_step: int
) -> None:
    parents = [tmp_path / "1", tmp_path / "2"]
    for parent, step, accuracy in ((0, 10, 0.5), (0, 20, 0.9), (1, 30, 0.9), (1, 40, 0.7)):
        parents[parent].mkdir(exist_ok=True)
        manifest = make_manifest(step=step).model_copy(update={"metrics": {"accuracy": accuracy}})
        checkpoint.write(parents[parent], hold({}, {}), manifest, trust_objects=False)

    found = checkpoint.best(parents, "accuracy", mode)
    assert found
    assert found[1].position.step == want_step
    assert checkpoint.best(parents, "loss", mode) is None


def test_a_checkpoint_that_only_inherits_a_metric_is_not_the_best(tmp_path: Path) -> None:
    for step, scored in ((10, {"accuracy"}), (20, frozenset[str]())):
        known = {"metrics": {"accuracy": 0.9}, "scored": frozenset(scored)}
        manifest = make_manifest(step=step).model_copy(update=known)
        checkpoint.write(tmp_path, hold({}, {}), manifest, trust_objects=False)

    found = checkpoint.best([tmp_path], "accuracy", "max")

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
def test_plain_values_need_no_trust(tmp_path: Path, case: str) -> None:
    manifest = make_manifest()
    folder = checkpoint.write(
        tmp_path, hold({}, {"it": PLAIN[case]}), manifest, trust_objects=False
    )

    _, state = checkpoint.load(folder, trust_objects=False)

    assert repr(state["it"]) == repr(PLAIN[case])


def test_objects_are_refused_when_they_are_saved_and_name_the_field(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"spec\.checkpoint\.trustObjects.*Schedule"):
        checkpoint.write(
            tmp_path, hold({}, {"schedule": Schedule()}), make_manifest(), trust_objects=False
        )
    assert list(tmp_path.iterdir()) == []

    folder = checkpoint.write(
        tmp_path, hold({}, {"schedule": Schedule()}), make_manifest(), trust_objects=True
    )
    _, state = checkpoint.load(folder, trust_objects=True)
    assert isinstance(state["schedule"], Schedule)


def test_a_crafted_checkpoint_runs_nothing(tmp_path: Path) -> None:
    sign = tmp_path / "was-here"
    crafted = {"schedule": Intruder(sign)}
    folder = checkpoint.write(tmp_path, hold({}, crafted), make_manifest(), trust_objects=True)
    sign.unlink(missing_ok=True)

    with pytest.raises(SpecError, match=r"trustObjects"):
        checkpoint.load(folder, trust_objects=False)
    assert not sign.exists()

    checkpoint.load(folder, trust_objects=True)
    assert sign.exists(), "it would run, were it trusted"


# -------------------------------------------------- what storage does not give


def fail_to_open(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> None:
    """Let the storage fail so often when a file of this name is opened."""
    left, whole = [times], cast("Callable[..., IO[Any]]", Path.open)

    def opened(path: Path, *arguments: object, **options: object) -> IO[Any]:
        if path.name == name and left[0]:
            left[0] -= 1
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))
        return whole(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", opened)


@pytest.mark.parametrize("name", ["manifest.json", "model.pt", "state.pt"])
def test_a_checkpoint_that_storage_does_not_give_at_once_is_waited_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, 10)
    newest = write_checkpoint(tmp_path, 20)
    waited: list[float] = []
    patience = Patience((1.0, 4.0), waited.append)
    fail_to_open(monkeypatch, name, times=2)
    found, _, refused = checkpoint.newest([tmp_path], patience)

    assert (found, refused, waited) == (newest, [], [1.0, 4.0])
    if name != "manifest.json":
        fail_to_open(monkeypatch, name, times=1)
        model, _ = checkpoint.load(newest, patience=patience, trust_objects=False)
        assert isinstance(model, dict)
        assert (model["weight"].tolist()[0], waited) == (20.0, [1.0, 4.0, 1.0])


@pytest.mark.parametrize("name", ["manifest.json", "model.pt"])
def test_a_checkpoint_that_storage_keeps_is_not_passed_over_for_an_older_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (10, 20):
        write_checkpoint(tmp_path, step)
    fail_to_open(monkeypatch, name, times=10**9)
    with pytest.raises(WorldError, match=f"checkpoint_000000020_epoch0001: .*{name}") as caught:
        checkpoint.newest([tmp_path], Patience((1.0,), lambda _: None))
    assert caught.value.kind == "storage"
