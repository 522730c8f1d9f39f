"""`trainshed apply` against a real API server, with code brought to a real bucket."""

import json
import subprocess
from pathlib import Path

import pytest

from hack.tools.finder import find
from tests.app.cli_here import trainshed_here
from tests.app.ray_run import Output, write_run
from tests.control_plane.plugin import ControlPlane
from tests.s3 import S3Server
from trainshed.storage.bucket import Bucket
from trainshed_api.names import EXIT_APPLICATION, EXIT_INVALID, EXIT_SUCCEEDED


@pytest.fixture
def kubectl(
    control_plane: ControlPlane,
    trainingrun_crd: str,
    namespace: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> list[str]:
    """Have kubectl on the PATH, its cluster the tests'; return its words."""
    assert trainingrun_crd
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(find("kubectl"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    return ["kubectl", "-n", namespace]


def write_with_code(folder: Path) -> Path:
    """Write a run with its code beside it."""
    (folder / "src").mkdir(exist_ok=True)
    (folder / "src" / "mine.py").write_text("def train(): pass\n")
    return write_run(folder, "digits", train="mine:train", code={"workingDir": "src"})


def apply(file: Path, namespace: str, *words: str) -> Output:
    """Apply a file."""
    return trainshed_here("apply", str(file), "--namespace", namespace, *words)


def test_the_code_beside_a_file_is_in_the_bucket_and_the_object_names_it(
    kubectl: list[str], in_storage: Bucket, tmp_path: Path
) -> None:
    file = write_with_code(tmp_path)
    words = ("--no-wait", "--storage", str(in_storage))

    first = apply(file, kubectl[-1], *words)
    assert first.code == EXIT_SUCCEEDED, first.stderr
    assert "trainingrun.trainshed.dev/digits created" in first.stdout

    found = json.loads(
        subprocess.run(
            [*kubectl, "get", "trainingrun", "digits", "-o", "json"],
            capture_output=True,
            check=True,
        ).stdout
    )
    address = found["spec"]["code"]["workingDir"]
    assert address.startswith(f"{in_storage}/code/")
    assert (in_storage / "code").names() == [address.rpartition("/")[2]]

    again = apply(file, kubectl[-1], *words)
    assert "there already" in again.stdout
    assert "unchanged" in again.stdout
    (tmp_path / "src" / "mine.py").write_text("def train(): return 1\n")
    changed = apply(file, kubectl[-1], *words, "--set", "spec.suspend=true")
    assert "there already" not in changed.stdout
    assert len((in_storage / "code").names()) == 2


@pytest.mark.parametrize(
    ("phase", "code"), [("Succeeded", EXIT_SUCCEEDED), ("Failed", EXIT_APPLICATION)]
)
def test_a_run_is_followed_to_its_end(
    phase: str, code: int, kubectl: list[str], tmp_path: Path
) -> None:
    file = write_run(tmp_path, "digits", train="mine:train")
    apply(file, kubectl[-1], "--no-wait")
    status = {"status": {"phase": phase, "progress": {"step": 3, "steps": 3, "loss": "0.5"}}}
    subprocess.run(
        [
            *kubectl,
            *("patch", "trainingrun", "digits", "--subresource", "status", "--type", "merge"),
            *("--patch", json.dumps(status)),
        ],
        check=True,
        capture_output=True,
    )

    followed = apply(file, kubectl[-1])

    assert followed.code == code
    assert f"{phase}, step 3 of 3, loss 0.5" in followed.stdout


def test_code_without_a_bucket_to_bring_it_to_is_refused_before_anything_is_sent(
    kubectl: list[str], tmp_path: Path
) -> None:
    refused = apply(write_with_code(tmp_path), kubectl[-1], "--no-wait")

    assert refused.code == EXIT_INVALID
    assert "spec.code.workingDir" in refused.stderr
    assert "--storage" in refused.stderr
    listed = subprocess.run(
        [*kubectl, "get", "trainingruns", "-o", "name"], capture_output=True, check=True, text=True
    )
    assert listed.stdout == ""


def test_what_the_api_server_refuses_is_said(kubectl: list[str], tmp_path: Path) -> None:
    file = write_run(tmp_path, "digits", train="mine:train")

    refused = trainshed_here("apply", str(file), "--namespace", f"{kubectl[-1]}-nowhere")

    assert refused.code == EXIT_INVALID
    assert "not found" in refused.stderr


@pytest.fixture
def in_storage(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The storage of a cluster, which this process may use."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return Bucket(f"s3://{s3.make_bucket()}", "trainshed")
