"""A job that cannot begin says so to its user and to its controller."""

import time
from pathlib import Path

import pytest

from tests.app.jobs.server import serve
from tests.builders import make_run
from trainshed.begin import Wish, begin_job
from trainshed.signals import Stop
from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.names import EXIT_INVALID, INVALID
from trainshed_api.snapshot import Snapshot, final_snapshot

# Nobody is there: whoever tries to join has already been found to be in order.
ADDRESS = "127.0.0.1:1"


def begin(monkeypatch: pytest.MonkeyPatch, *settings: str, **environment: str) -> None:
    """Begin as a job whose environment has these variables, TRAINSHED_ and all before them."""
    for name in ("RAY_ADDRESS", "TRAINSHED_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    begin_job(settings, Wish(fresh=False, started=time.time(), stop=Stop()))


def test_a_job_joins_the_cluster_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="RAY_ADDRESS: not set; TRAINSHED_SPEC is for Ray jobs"):
        begin(monkeypatch, TRAINSHED_SPEC=encode_run(make_run()), TRAINSHED_HOME="/home")


def test_a_job_does_not_guess_where_its_files_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="TRAINSHED_HOME: not set in this cluster; it names"):
        begin(monkeypatch, TRAINSHED_SPEC=encode_run(make_run()), RAY_ADDRESS=ADDRESS)


def test_a_run_that_is_refused_is_told_to_user_log_and_controller(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    want = 'spec.epochs: got "three", want an integer >= 1'
    with (
        serve(lambda *_: (200, '{"stop": null}')) as server,
        pytest.raises(SpecError) as caught,
    ):
        begin(
            monkeypatch,
            "spec.epochs=three",
            RAY_ADDRESS=ADDRESS,
            TRAINSHED_HOME=str(tmp_path),
            TRAINSHED_SPEC=encode_run(make_run()),
            TRAINSHED_NAMESPACE="team-a",
            TRAINSHED_UID="0d9f1c2e",
            TRAINSHED_ATTEMPT="1",
            TRAINSHED_PROGRESS_URL=server.address,
            TRAINSHED_PROGRESS_TOKEN="secret",
        )

    assert str(caught.value) == want
    told = [Snapshot.model_validate_json(body) for _, body in server.asked]
    assert [(s.cause, s.exit_code, s.message) for s in told] == [(INVALID, EXIT_INVALID, want)]
    logged = final_snapshot(capsys.readouterr().out)
    assert logged
    assert logged.message == want
    assert list(tmp_path.iterdir()) == []
