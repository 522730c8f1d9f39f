"""Code of the user's own on this machine: a folder to work in, packages that must be there."""

import importlib
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.builders import make_run
from trainshed.planning.code import changed, digests, enter, fetch
from trainshed.planning.code_archive import pack
from trainshed.storage.bucket import Bucket
from trainshed_api.errors import SpecError

CLICK = version("click")

REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "a folder that is not there": (
        {"workingDir": "src"},
        'spec.code.workingDir: got "src"; expected a folder: {beside}/src is none',
    ),
    "an address": (
        {"workingDir": "s3://bucket/code.zip"},
        'spec.code.workingDir: got "s3://bucket/code.zip"; expected a local folder; an address is '
        "for a run in a cluster",
    ),
    "a package that is not installed": (
        {"pip": ["no-such-package-here"]},
        'spec.code.pip[0]: got "no-such-package-here"; expected it on this machine, where it is '
        "not installed: pip install 'no-such-package-here'",
    ),
    "another version": (
        {"pip": ["pydantic", "click==0.1"]},
        f'spec.code.pip[1]: got "click==0.1"; expected it on this machine, where version {CLICK} '
        "is installed: pip install 'click==0.1'",
    ),
    "no requirement": (
        {"pip": ["click == == 1"]},
        'spec.code.pip[0]: got "click == == 1"; expected a requirement such as einops==0.8',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_here_is_said(case: str, tmp_path: Path) -> None:
    code, want = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        enter(make_run(code=code).spec.code, tmp_path)

    assert str(caught.value) == want.format(beside=tmp_path)


def test_a_folder_beside_the_file_is_worked_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)

    enter(make_run(code={"workingDir": "src", "pip": [f"click=={CLICK}"]}).spec.code, tmp_path)

    assert Path.cwd() == tmp_path / "src"


def test_packages_for_other_systems_need_not_be_here(tmp_path: Path) -> None:
    code: JsonValue = {"pip": ['no-such-package-here; sys_platform == "win32"']}

    enter(make_run(code=code).spec.code, tmp_path)


MISTAKES: dict[str, tuple[dict[str, JsonValue], str]] = {
    "an option of pip": (
        {"pip": ["-r requirements.txt"]},
        'spec.code.pip[0]: got "-r requirements.txt"; expected a requirement such as einops==0.8',
    ),
    "an address that Ray cannot fetch": (
        {"workingDir": "ftp://host/code.zip"},
        'spec.code.workingDir: got "ftp://host/code.zip"; expected the address of a .zip (https, '
        "s3, gs, abfs, abfss, az or file), or a local folder",
    ),
    "an address of no archive": (
        {"workingDir": "s3://bucket/code"},
        'spec.code.workingDir: got "s3://bucket/code"; expected the address of a .zip (https, s3, '
        "gs, abfs, abfss, az or file), or a local folder",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_found_by_the_model(case: str) -> None:
    code, want = MISTAKES[case]

    with pytest.raises(SpecError) as caught:
        make_run(code=code)

    assert str(caught.value) == want


def address_of(code: Bucket, name: str, content: bytes) -> str:
    """Put an archive into a bucket."""
    code.write(name, content)
    return f"{code}/{name}"


def test_code_in_a_bucket_is_where_the_driver_works_afterwards(
    in_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "users_own.py").write_text("answer = 42\n")
    packed = pack(tmp_path / "code")
    address = address_of(in_bucket, packed.name, packed.content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    folder = fetch(make_run(code={"workingDir": address}).spec.code)

    assert folder == Path.cwd()
    assert importlib.import_module("users_own").answer == 42
    monkeypatch.delitem(sys.modules, "users_own")


def test_an_archive_with_one_folder_around_all_is_entered(
    in_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code" / "repository-main").mkdir(parents=True)
    (tmp_path / "code" / "repository-main" / "train.py").write_text("")
    packed = pack(tmp_path / "code")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    address = address_of(in_bucket, "code.zip", packed.content)
    folder = fetch(make_run(code={"workingDir": address}).spec.code)

    assert folder is not None
    assert (folder / "train.py").exists()
    assert os.access(folder / "train.py", os.X_OK)


@pytest.mark.parametrize("content", [b"no archive", None])
def test_code_that_is_not_there_or_no_archive_is_said(
    content: bytes | None, in_bucket: Bucket
) -> None:
    address = address_of(in_bucket, "code.zip", content) if content else f"{in_bucket}/code.zip"

    with pytest.raises(SpecError, match=r"spec\.code\.workingDir: .* a \.zip that this cluster"):
        fetch(make_run(code={"workingDir": address}).spec.code)


def test_code_that_changed_is_named_and_other_files_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "code_that_changes"
    folder.mkdir()
    for name in ("__init__.py", "model.py", "notes.py"):
        (folder / name).write_text("size = 1\n")
    (tmp_path / "train.sh").write_text("true\n")
    importlib.import_module("code_that_changes.model")

    before = digests(tmp_path, [sys.executable, "train.sh", "--rate=0.1", "x" * 5000, "/etc/hosts"])

    assert list(before) == [
        "code_that_changes/__init__.py",
        "code_that_changes/model.py",
        "train.sh",
    ]
    assert changed(before, tmp_path) == []
    (folder / "model.py").write_text("size = 2\n")
    (folder / "notes.py").write_text("size = 2\n")
    (tmp_path / "train.sh").write_text("false\n")
    assert changed(before, tmp_path) == ["code_that_changes/model.py", "train.sh"]


def test_code_that_is_not_below_the_folder_has_not_changed(tmp_path: Path) -> None:
    (tmp_path / "train.sh").write_text("true\n")
    before = digests(tmp_path, ["train.sh"])

    assert list(before) == ["train.sh"]
    assert changed(before, tmp_path / "elsewhere") == []


def test_our_own_code_is_told_by_its_version_alone() -> None:
    package = Path(sys.modules["trainshed.planning.code"].__file__ or "").parents[2]
    assert not any(name.startswith("trainshed/") for name in digests(package))
