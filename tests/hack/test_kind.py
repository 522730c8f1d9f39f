"""What is asked of kind, where Docker is there; programs that only take notes play both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.__main__ import choose_cluster
from hack.cluster.bare import BareCluster
from hack.cluster.failure import ClusterError
from hack.cluster.kind import NODE_IMAGE, KindCluster
from hack.tools.finder import find


class Machine:
    """A machine with Docker and kind."""

    def __init__(self, folder: Path) -> None:
        self.bin, self._notes = folder / "bin", folder / "notes"
        self.bin.mkdir()
        self.install("docker", "exit 0")
        self.install("kubectl", '[ "$1" = version ] && echo v1.35.4; exit 0')
        self.install("helm", "echo v3.22.0")
        self.has_clusters("")

    def install(self, program: str, does: str) -> None:
        path = self.bin / program
        path.write_text(f'#!/bin/sh\necho "{program} $*" >>{self._notes}\n{does}\n')
        path.chmod(0o755)

    def has_clusters(self, names: str, *, create: str = "true") -> None:
        self.install(
            "kind",
            f'case "$1 $2" in version*) echo kind v0.33.0;; "get clusters") echo {names};;'
            f' "create cluster") {create};; esac',
        )

    def asked(self, program: str) -> list[str]:
        """Return what a program was asked to do, without questions about versions."""
        lines = self._notes.read_text().splitlines()
        asked = [line.removeprefix(f"{program} ") for line in lines if line.startswith(program)]
        return [line for line in asked if not line.startswith("version")]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{machine.bin}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    find.cache_clear()
    yield machine
    find.cache_clear()


def test_docker_decides_for_kind(machine: Machine) -> None:
    assert choose_cluster("one", None) == KindCluster("one")
    machine.install("docker", "echo no daemon >&2; exit 1")
    assert choose_cluster("one", None) == BareCluster("one")


def test_up_makes_a_cluster_of_the_pinned_image_with_gpus(machine: Machine) -> None:
    cluster = KindCluster("one")

    assert cluster.up()

    kubeconfig = f"--kubeconfig={cluster.client.kubeconfig}"
    assert machine.asked("kind") == [
        "get clusters",
        f"create cluster --name=one {kubeconfig} --image={NODE_IMAGE} --wait=3m",
    ]
    [patch] = machine.asked("kubectl")
    assert patch.startswith("patch node one-control-plane --subresource=status --type=json")


def test_up_twice_is_harmless(machine: Machine) -> None:
    machine.has_clusters("other one")
    assert not KindCluster("one").up()
    assert [words.split()[0] for words in machine.asked("kind")] == ["get", "export"]


def test_an_up_that_fails_is_taken_down_again(machine: Machine) -> None:
    machine.has_clusters("", create="echo the disk is full >&2; exit 1")
    with pytest.raises(ClusterError, match=r"(?s)^kind create cluster .*: the disk is full$"):
        KindCluster("one").up()
    assert machine.asked("kind")[-1].startswith("delete cluster --name=one")


def test_images_are_loaded_by_archive_and_by_name(machine: Machine) -> None:
    cluster = KindCluster("one")
    cluster.load(Path("a.tar"))
    cluster.load_image("app:1")
    assert machine.asked("kind") == [
        "load image-archive a.tar --name=one",
        "load docker-image app:1 --name=one",
    ]


def test_a_docker_that_is_gone_is_one_line(machine: Machine) -> None:
    machine.install("docker", "exit 1")
    with pytest.raises(ClusterError, match=r"^Docker does not answer any more: start it, or"):
        KindCluster("one").down()
