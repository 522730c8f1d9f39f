"""`apply` follows a TrainingRun, with a kubectl that a test scripts."""

import json
from pathlib import Path

import pytest

from tests.app.cli_here import trainshed_here
from tests.app.jobs.kubectl_stand_in import make_object, write_kubectl
from tests.app.ray_run import Output, write_run
from trainshed.cli import apply
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TERMINATED, EXIT_TRY_AGAIN

REFUSED = "The connection to the server was refused - did you specify the right host or port?"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(apply, "SECONDS_BETWEEN_LOOKS", 0.0)
    return write_kubectl(tmp_path, monkeypatch)


def follow(world: Path, phase: str) -> Output:
    """Apply a run that is in a phase."""
    (world / "run").write_text(json.dumps(make_object(phase)))
    file = write_run(world, "digits", train="mine:train")
    return trainshed_here("apply", str(file), "-n", "team")


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (f"E1128 memcache.go:265] dial tcp\n{REFUSED}", EXIT_TRY_AGAIN),
        ("Unable to connect to the server: net/http: TLS handshake timeout", EXIT_TRY_AGAIN),
        ("failed to download openapi: dial tcp 10.0.0.1:443: i/o timeout", EXIT_TRY_AGAIN),
        ("Unable to connect to the server: dial tcp: connect: no route to host", EXIT_TRY_AGAIN),
        ("Error from server (ServiceUnavailable): apiserver not ready", EXIT_TRY_AGAIN),
        ('Error from server (NotFound): namespaces "team" not found', EXIT_INVALID),
        ("Unable to connect to the server: x509: certificate has expired", EXIT_INVALID),
    ],
)
def test_an_api_server_that_does_not_answer_is_asked_again_later(
    said: str, code: int, world: Path
) -> None:
    (world / "apply_error").write_text(said)
    ended = follow(world, "Succeeded")
    assert ended.code == code
    assert said.splitlines()[-1] in ended.stderr
    assert "memcache" not in ended.stderr


def test_a_run_is_followed_through_an_outage_of_the_api_server(world: Path) -> None:
    (world / "get_error").write_text(REFUSED)
    ended = follow(world, "Succeeded")
    assert ended.code == EXIT_SUCCEEDED
    assert f"the cluster does not answer: {REFUSED}\nSucceeded, step 5" in ended.stdout


def test_an_outage_ends_the_following_after_a_while(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SECONDS_WITHOUT_ANSWER", 0.0)
    (world / "get_error").write_text(REFUSED)
    assert follow(world, "Succeeded").code == EXIT_TRY_AGAIN


def test_a_suspended_run_is_no_longer_followed(world: Path) -> None:
    ended = follow(world, "Suspended")
    assert ended.code == EXIT_TERMINATED
    assert "to resume: the same command with --set spec.suspend=false" in ended.stdout


def test_a_run_that_was_just_resumed_is_followed(world: Path) -> None:
    resumed = make_object("Suspended") | {"spec": {"suspend": False}}
    (world / "first_run").write_text(json.dumps(resumed))
    assert follow(world, "Succeeded").code == EXIT_SUCCEEDED


def test_a_run_that_no_controller_serves_is_explained(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply, "SECONDS_WITHOUT_CONTROLLER", 0.0)
    (world / "first_run").write_text(json.dumps(make_object("") | {"status": {}}))
    ended = follow(world, "Succeeded")
    assert "A controller serves only its own namespace" in ended.stdout
    assert ended.code == EXIT_SUCCEEDED
