"""The locks hold what the wishes name, by hash, and say nothing of where packages come from."""

import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.bundle.repository import ROOT, pyproject

IMAGE = ROOT / "images" / "app" / "requirements"
CONTROLLER = ROOT / "images" / "controller" / "requirements"
DEV = ROOT / "requirements" / "dev"
DOCS = ROOT / "requirements" / "docs"
UV = ROOT / "requirements" / "uv"
RELEASE = ROOT / "requirements" / "release"
TRACKERS = ROOT / "requirements" / "trackers"
WANDB = ROOT / "requirements" / "wandb"
TRAINERS = ROOT / "requirements" / "trainers"
WISHES = (IMAGE, CONTROLLER, DEV, DOCS, UV, RELEASE, TRACKERS, WANDB, TRAINERS)
LOCKS = {str(path.relative_to(ROOT)): path for path in WISHES}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def wishes(path: Path) -> set[str]:
    """Return the names in an .in file, without those it includes."""
    lines = path.with_suffix(".in").read_text().splitlines()
    return {_name(line) for line in lines if line and line[0] not in "#-"}


def pins(path: Path) -> dict[str, set[str]]:
    """Return the versions in a lock by name; markers may choose among several."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(
        r"^(\S+?)(?:\[\S*\])?==(\S+)", path.with_suffix(".txt").read_text(), re.MULTILINE
    ):
        found.setdefault(_name(name), set()).add(version)
    return found


def _name(requirement: str) -> str:
    match = _NAME.match(requirement)
    assert match, f"no package's name: {requirement!r}"
    return re.sub(r"[-_.]+", "-", match[0]).lower()


@pytest.mark.parametrize("path", LOCKS.values(), ids=LOCKS)
def test_lock_holds_every_wish(path: Path) -> None:
    assert wishes(path) <= pins(path).keys(), "run `make lock`"


@pytest.mark.parametrize("path", LOCKS.values(), ids=LOCKS)
def test_every_locked_file_has_a_hash(path: Path) -> None:
    text = path.with_suffix(".txt").read_text()
    requirements = re.split(r"\n(?=\S)", text)
    without = [line for line in requirements if "==" in line and "--hash=sha256:" not in line]
    assert without == []


@pytest.mark.parametrize("path", LOCKS.values(), ids=LOCKS)
def test_lock_does_not_say_where_packages_come_from(path: Path) -> None:
    assert (
        re.findall(r".*(?:://|--index|--find-links).*", path.with_suffix(".txt").read_text()) == []
    )


@pytest.mark.parametrize("image", [IMAGE, CONTROLLER], ids=["app", "controller"])
def test_tools_run_with_the_versions_of_the_images(image: Path) -> None:
    dev = pins(DEV)
    assert {name: dev.get(name) for name in pins(image)} == pins(image)


def test_the_project_depends_on_what_the_locks_are_made_from() -> None:
    extras = pyproject()["optional-dependencies"]
    run = pyproject()["dependencies"]
    assert isinstance(extras, dict)
    assert isinstance(run, list)
    assert {_name(item) for item in run} == wishes(IMAGE)
    assert {_name(item) for item in extras["controller"]} >= wishes(CONTROLLER) - wishes(IMAGE)
    # setuptools builds the project itself and is no need of who works on it.
    assert {_name(item) for item in extras["dev"]} == wishes(DEV) - {"setuptools"}


def test_every_dependency_has_its_line_of_reason() -> None:
    page = (ROOT / "docs" / "decisions" / "0002-dependencies.md").read_text().lower()
    wanted = set().union(*map(wishes, LOCKS.values()))
    assert [name for name in sorted(wanted) if not re.search(rf"\b{name}\b", page)] == []


def write_wheel(folder: Path, name: str, version: str, needs: str) -> None:
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        info = f"{name}-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", f"{metadata}Requires-Dist: {needs}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_the_cpu_lock_has_the_same_versions_and_torch_without_cuda(tmp_path: Path) -> None:
    wheels, image = tmp_path / "wheels", tmp_path / "image"
    wheels.mkdir()
    image.mkdir()
    for name, version, needs in (
        ("torch", "2.9.1", "cuda-bindings"),
        ("torch", "2.9.1+cpu", "sympy"),
        ("torch", "2.9.2+cpu", "sympy"),
        ("sympy", "1.14.0", "torch"),
        ("sympy", "1.15.0", "torch"),
        ("cuda-bindings", "13.0", "torch"),
    ):
        write_wheel(wheels, name, version, needs)
    (image / "requirements.in").write_text("torch\n")
    (image / "requirements.txt").write_text("cuda-bindings==13.0\nsympy==1.14.0\ntorch==2.9.1\n")
    offline = {"UV_NO_INDEX": "1", "UV_OFFLINE": "1", "TORCH_LINKS": str(wheels)}

    subprocess.run(
        [ROOT / "hack" / "lock-cpu.sh", image], env={**os.environ, **offline}, check=True
    )

    lock = (image / "cpu.txt").read_text()
    assert re.findall(r"^(\S+==\S+) ", lock, re.MULTILINE) == ["sympy==1.14.0", "torch==2.9.1+cpu"]
    assert lock.count("--hash=sha256:") == 2
    assert f"--find-links {wheels}\n" in lock, "whoever installs it finds the same wheels"
