"""An earlier state of this repository as a release: its images on the node, and its chart."""

import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.running import ROOT

# What one builds has the version of this one; both have to be on the node at once.
VERSION = "0.0.0"
_FILES_WITH_VERSION = ("pyproject.toml", "charts/trainshed/Chart.yaml")
_IMAGES = ("app", "controller")


@dataclass(frozen=True)
class EarlierRelease:
    """A commit's chart, and the values of its own tests."""

    chart: Path
    values: Path


def check_out(commit: str, folder: Path) -> None:
    """Write the files of a commit into a folder, with a version of their own.

    Skips the test where the clone is too shallow to have the commit.
    """
    known = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    if subprocess.run(known, cwd=ROOT, capture_output=True, check=False, timeout=60).returncode:
        pytest.skip(f"this clone does not reach back to {commit}: git fetch --unshallow")
    archive = folder / "files.tar"
    packed = ["git", "archive", f"--output={archive}", commit]
    subprocess.run(packed, cwd=ROOT, check=True, timeout=60)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    for name in _FILES_WITH_VERSION:
        file = folder / name
        text = file.read_text(encoding="utf-8")
        file.write_text(text.replace("0.1.0", VERSION), encoding="utf-8")


def release_of(commit: str, folder: Path, cluster: str) -> EarlierRelease:
    """Build the images of a commit, and give them to the node of a cluster."""
    check_out(commit, folder)
    for verb in (["build"], ["load", f"--cluster={cluster}"]):
        command = [sys.executable, "-m", "hack.images", *verb, *_IMAGES]
        subprocess.run(command, cwd=folder, check=True, timeout=3000)
    return EarlierRelease(folder / "charts" / "trainshed", folder / "tests" / "e2e" / "values.yaml")
