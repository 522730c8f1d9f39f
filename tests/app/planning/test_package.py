"""Code as one archive: the same content has the same name, and only code is in it."""

import io
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from trainshed.planning import code_archive
from trainshed.planning.code_archive import check_name, pack
from trainshed_api.errors import SpecError


def make_code(folder: Path) -> Path:
    """Write a small program with a module beside it."""
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("def train(): pass\n")
    (folder / "lib" / "model.py").write_text("size = 1\n")
    return folder


def names(content: bytes) -> list[str]:
    """Return what is in an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return packed.namelist()


def test_the_name_hangs_on_the_content_alone(tmp_path: Path) -> None:
    first, second = pack(make_code(tmp_path / "a")), make_code(tmp_path / "b")
    os.utime(second / "train.py", (1, 1))
    (second / "train.py").chmod(0o600)

    assert pack(second) == first
    (second / "train.py").write_text("def train(): return 1\n")
    assert pack(second).name != first.name


def test_what_is_no_code_is_left_out(tmp_path: Path) -> None:
    folder = make_code(tmp_path)
    for left_out in ("__pycache__/train.pyc", ".venv/lib/x.py", "lib/.mypy_cache/x"):
        (folder / left_out).parent.mkdir(parents=True)
        (folder / left_out).write_text("")

    packed = pack(folder)

    assert names(packed.content) == ["lib/model.py", "train.py"]
    assert packed.files == 2


def test_what_git_ignores_is_left_out_and_what_is_new_is_not(tmp_path: Path) -> None:
    folder = make_code(tmp_path)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".gitignore").write_text("data/\n")
    (folder / "data").mkdir()
    (folder / "data" / "rows.parquet").write_bytes(b"large")

    assert names(pack(folder).content) == [".gitignore", "lib/model.py", "train.py"]


def test_what_looks_like_a_key_is_left_out(tmp_path: Path) -> None:
    folder = make_code(tmp_path)
    for key in (".env", ".env.local", "server.pem", "id_rsa", ".aws/credentials"):
        (folder / key).parent.mkdir(exist_ok=True)
        (folder / key).write_text("secret")

    assert names(pack(folder).content) == ["lib/model.py", "train.py"]


def test_a_link_out_of_the_folder_is_refused_with_its_name(tmp_path: Path) -> None:
    folder = make_code(tmp_path / "code")
    (tmp_path / "private").write_text("secret")
    (folder / "config.txt").symlink_to(tmp_path / "private")

    with pytest.raises(SpecError, match=r"config\.txt is one"):
        pack(folder)


def test_a_repository_that_git_does_not_read_is_refused(tmp_path: Path) -> None:
    folder = make_code(tmp_path)
    (folder / ".git").write_text("gitdir: /nowhere\n")

    with pytest.raises(SpecError, match="a repository that git reads"):
        pack(folder)


def test_another_archive_under_the_name_of_one_is_refused(tmp_path: Path) -> None:
    packed = pack(make_code(tmp_path / "code"))
    (tmp_path / "a.zip").write_bytes(packed.content)
    check_name(packed.name, tmp_path / "a.zip")

    (tmp_path / "a.zip").write_bytes(packed.content[:-1] + b"x")
    with pytest.raises(ValueError, match="another than"):
        check_name(packed.name, tmp_path / "a.zip")
    check_name("code.zip", tmp_path / "a.zip")


def test_data_beside_the_code_is_refused_with_the_largest_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_archive, "MOST_BYTES", 2**20)
    folder = make_code(tmp_path)
    (folder / "rows.parquet").write_bytes(bytes(3 * 2**20))

    with pytest.raises(SpecError, match=r"at most 1 MiB of code, it has 3 .*rows\.parquet"):
        pack(folder)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="a folder with files"):
        pack(tmp_path)
