"""`make kind`, with programs that take notes in place of docker, kind, kubectl and helm."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hack.images.image import ROOT, version

PROGRAMS = {
    # Nobody has published the training image; the controller's can be pulled.
    "docker": 'case "$*" in "image inspect"*|"pull "*/app:*) exit 1;; esac',
    "kind": """
echo with "$KUBECONFIG" >>"$LOG"
[ "$1 $2" = "get clusters" ] && echo "$CLUSTERS"; exit 0""",
    "helm": "exit 0",
    "kubectl": """
case "$*" in
*.status.result.report*) [ "$PHASE" = Failed ] || echo /mnt/trainshed/report.html;;
*--output\\ name) echo pod/trainshed-head;;
*exec\\ pod/trainshed-head*cat\\ /mnt/trainshed/report.html) echo accuracy;;
*.status.phase*) echo "$PHASE";;
esac""",
}


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a clone with the programs in bin/ beside it."""
    root = tmp_path / "clone"
    for name in ("hack/kind.sh", "pyproject.toml", "manifests/trainingrun.yaml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    programs = {tmp_path / "bin" / name: does for name, does in PROGRAMS.items()}
    programs[root / "hack" / "lock-cpu.sh"] = "exit 0"
    for path, does in programs.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho {path.name} "$@" >>"$LOG"\n{does}\n')
        path.chmod(0o755)
    return root


def quick_start(
    clone: Path, *, clusters: str = "", phase: str = "Succeeded"
) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": f"{clone.parent / 'bin'}:/usr/bin:/bin",
        "LOG": str(clone.parent / "log"),
        "CLUSTERS": clusters,
        "PHASE": phase,
    }
    return subprocess.run(
        [clone / "hack" / "kind.sh"], env=environment, capture_output=True, text=True, check=False
    )


def test_the_report_of_the_run_is_fetched(clone: Path) -> None:
    done = quick_start(clone)

    assert (done.returncode, done.stderr.count("building it")) == (0, 1)
    assert (clone / ".trainshed" / "kind" / "report.html").read_text() == "accuracy\n"
    called = (clone.parent / "log").read_text().splitlines()
    images = [f"ghcr.io/trainshed/app:{version()}-cpu", f"ghcr.io/trainshed/controller:{version()}"]
    assert f"kind load docker-image --name trainshed {' '.join(images)}" in called
    [built] = [line for line in called if line.startswith("docker build")]
    assert "--build-arg LOCK=cpu.txt" in built
    assert called.index("lock-cpu.sh") < called.index(built)
    [install] = [line for line in called if line.startswith("helm upgrade --install")]
    assert install.endswith(f"--set preset=laptop,image.tag={version()}-cpu --wait --timeout 15m")
    own = f"with {clone / '.trainshed' / 'kind' / 'kubeconfig'}"
    assert {line for line in called if line.startswith("with")} == {own}


def test_a_cluster_that_exists_is_used(clone: Path) -> None:
    assert quick_start(clone, clusters="trainshed").returncode == 0
    assert "kind create" not in (clone.parent / "log").read_text()


def test_a_run_that_failed_is_created_again_and_fails_the_command(clone: Path) -> None:
    done = quick_start(clone, phase="Failed")

    assert done.returncode == 1
    assert done.stdout.endswith("the run ended as Failed\n")
    called = (clone.parent / "log").read_text()
    assert called.index("kubectl --namespace trainshed delete") < called.index("trainshed apply")


def test_a_program_that_is_missing_is_named(clone: Path) -> None:
    (clone.parent / "bin" / "kind").unlink()

    done = quick_start(clone)

    assert done.returncode == 1
    assert "got no program kind; expected docker, kind, kubectl and helm" in done.stderr
