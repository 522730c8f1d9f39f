"""The wheel alone, in an empty folder: what a user has who installs it and has no clone."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from hack.chart.helm import ROOT

RUN: dict[str, object] = yaml.safe_load((ROOT / "manifests" / "trainingrun.yaml").read_text())
PACKAGES = ("api", "app", "controller")
TIMEOUT_SECONDS = 300

Command = Callable[..., str]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # By way of the source archive, so that nothing of an earlier build gets into it.
    build = ("build", "--quiet", "--no-build-isolation", "--python", sys.executable)
    _run([_find_uv(), *build, "--out-dir", str(folder), str(ROOT)], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Command:
    """Return a command that runs a module of the installed wheel in a folder."""
    place = tmp_path / "installed"
    install = ("pip", "install", "--quiet", "--no-deps", "--target", str(place), str(wheel))
    _run([_find_uv(), *install], tmp_path)

    def command(*words: str, home: Path) -> str:
        # Before the packages of this environment, where the clone is installed.
        environment = {"PYTHONPATH": str(place), "TRAINSHED_HOME": str(home)}
        return _run([sys.executable, *words], home, environment)

    return command


def _find_uv() -> str:
    return _run([str(ROOT / "hack" / "find-uv.sh")], ROOT).strip().splitlines()[-1]


def _run(words: list[str], folder: Path, more: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(more or {})},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_alone_makes_data_and_accepts_a_run(installed: Command, tmp_path: Path) -> None:
    home = tmp_path / "empty"
    home.mkdir()
    (home / "run.yaml").write_text(yaml.safe_dump(RUN))

    used = installed("-c", "import trainshed; print(trainshed.__file__)", home=home)
    installed("-m", "trainshed", "data", "sample", "digits", "--to", ".", home=home)
    said = installed("-m", "trainshed", "validate", "run.yaml", home=home)

    assert used.startswith(str(tmp_path / "installed"))
    assert "digits" in said
    assert sorted(path.name for path in (home / "digits").iterdir()) == ["test", "train"]


def test_the_wheel_has_every_file_of_the_packages(wheel: Path) -> None:
    tracked = _run(["git", "ls-files", "--", *PACKAGES], ROOT).splitlines()
    want = {path.partition("/")[2] for path in tracked}

    have = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}

    assert have == want
