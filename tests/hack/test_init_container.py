"""Workers wait for their head by a connection to it, and nowhere else is `ray` another command."""

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.images.image import ROOT

SCRIPT = ROOT / "images" / "app" / "init_container.bash"
# What KubeRay 1.7.0 sets in the init container, and also in the container of Ray.
INIT = {"FQ_RAY_IP": "head-svc.team.svc.cluster.local"}
MAIN = {**INIT, "KUBERAY_GEN_RAY_START_CMD": "ray start"}


@pytest.fixture
def head() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def write_command(folder: Path, name: str, exit_code: int = 0) -> Path:
    """Write a command that only notes what it is asked; return the file with its notes."""
    asked = folder / f"{name} was asked"
    own = folder / name
    own.write_text(f'#!/bin/sh\necho "$@" >> "{asked}"\nexit {exit_code}\n')
    own.chmod(0o755)
    return asked


def ray(folder: Path, environment: dict[str, str], *words: str) -> tuple[int, str]:
    """Return the code of a `ray` command in a container, and what Ray's own was asked."""
    asked = write_command(folder, "ray", exit_code=3)
    write_command(folder, "sleep")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/bash", "-c", "--", f"ray {' '.join(words)}"],
        env={"PATH": path, "BASH_ENV": str(SCRIPT), **environment},
        check=False,
        timeout=60,
    )
    return done.returncode, asked.read_text().strip() if asked.exists() else ""


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()
    return f"{host}:{port}"


def test_an_init_container_is_told_of_its_head_by_a_connection(
    tmp_path: Path, head: socket.socket
) -> None:
    assert ray(tmp_path, INIT, "health-check", "--address", address(head)) == (0, "")


def test_a_head_that_is_not_there_is_said_so(tmp_path: Path, head: socket.socket) -> None:
    gone = address(head)
    head.close()

    assert ray(tmp_path, INIT, "health-check", "--address", gone) == (1, "")

    rests = (tmp_path / "sleep was asked").read_text().split()
    assert sum(map(float, rests)) == pytest.approx(5), "as long as KubeRay rests between questions"


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        pytest.param(INIT, ["status"], id="another command"),
        pytest.param(MAIN, ["health-check", "--address", "h:1"], id="the container of Ray"),
        pytest.param({}, ["health-check", "--address", "h:1"], id="outside of a cluster"),
    ],
)
def test_anything_else_is_asked_of_ray_itself(
    tmp_path: Path, environment: dict[str, str], words: list[str]
) -> None:
    assert ray(tmp_path, environment, *words) == (3, " ".join(words))
