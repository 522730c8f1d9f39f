"""A checkpoint that has its name is on its disk: the power may go at any time."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.app.builders_checkpoint import write_checkpoint
from trainshed.checkpoint import store as checkpoint
from trainshed.storage.disk import Disk


@dataclass
class Watched:
    """What was synced before the folder got its name, and after."""

    before: set[str] = field(default_factory=set)
    after: set[str] = field(default_factory=set)
    is_named: bool = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """A disk that is watched."""
    found, sync, rename = Watched(), os.fsync, Path.rename

    def synced(opened: int) -> None:
        name = Path(f"/proc/self/fd/{opened}").readlink().name
        (found.after if found.is_named else found.before).add(name)
        sync(opened)

    def renamed(path: Path, target: Path) -> Path:
        found.before = {"(itself)" if name == path.name else name for name in found.before}
        found.is_named = True
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    return found


def test_all_of_it_is_on_disk_before_it_has_its_name_and_the_name_after(
    disk: Watched, tmp_path: Path
) -> None:
    write_checkpoint(Disk(tmp_path))

    assert disk.before == {"model.pt", "state.pt", "manifest.json", "(itself)"}
    assert disk.after == {tmp_path.name}


@pytest.mark.parametrize("lost", ["fsync", "rename"])
def test_what_fails_on_the_way_leaves_the_one_before(
    lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write_checkpoint(Disk(tmp_path), step=10)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        if lost == "fsync":
            patch.setattr(os, "fsync", fail)
        else:
            patch.setattr(Path, "rename", fail)
        with pytest.raises(OSError, match="Input/output"):
            write_checkpoint(Disk(tmp_path), step=20)

    found, _, refused = checkpoint.newest([Disk(tmp_path)])
    assert (found, refused) == (before, [])
    assert sorted(tmp_path.iterdir()) == [before.path], "nothing is left behind"
