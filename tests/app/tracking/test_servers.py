"""Runs of several attempts in the real servers of MLflow and TensorBoard, and in W&B's client."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.tracking.test_session import end, track, track_to_files
from trainshed.storage.disk import Disk
from trainshed.tracking.on_mlflow import MLflow
from trainshed.tracking.on_tensorboard import TensorBoard
from trainshed_api.tracking import MLflowSpec, WandbSpec

# Where hack/trackers.sh has installed the servers.
SERVERS = os.environ.get("TRAINSHED_TRACKERS", "")

pytestmark = [
    pytest.mark.trackers,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not SERVERS, reason="the servers are not installed: make test-trackers"),
]

SHOW = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
shown = EventAccumulator(sys.argv[1]).Reload()
print(json.dumps([[e.step, e.value] for e in shown.Scalars("loss")]))
"""


def test_tensorboard_shows_each_step_once(tmp_path: Path) -> None:
    folder = Disk(tmp_path)
    track_to_files(folder, 1, range(1, 8))
    track_to_files(folder, 2, range(5, 11), resumed=4)
    end(track(TensorBoard(), folder, 3, range(9, 13), resumed=8))

    command = [f"{SERVERS}/python", "-c", SHOW, str(tmp_path / "tensorboard" / "1")]
    shown = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))

    assert [step for step, _ in shown] == [*range(1, 13)]
    assert [int(value) for _, value in shown] == [2, *[1] * 3, *[2] * 4, *[3] * 4]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a server of MLflow."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [
            *(f"{SERVERS}/mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
            *("--backend-store-uri", f"sqlite:///{folder}/runs.db", "--workers", "1"),
            *("--default-artifact-root", str(folder / "artifacts")),
        ],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": "", "PATH": f"{SERVERS}:{os.environ['PATH']}"},
        start_new_session=True,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        while not answers(f"{address}/health"):
            assert server.poll() is None
            time.sleep(0.2)
        yield address
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def ask(address: str, path: str, content: JsonValue = None) -> dict[str, JsonValue]:
    data = json.dumps(content).encode() if content else None
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{address}/api/2.0/mlflow/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        answer: dict[str, JsonValue] = json.loads(response.read())
        return answer


def test_mlflow_has_one_run_with_each_step_once(mlflow: str) -> None:
    spec, folder = MLflowSpec(tracking_uri=mlflow, experiment="digits"), Disk(Path("unused"))
    for attempt, steps, resumed in ((1, range(1, 8), None), (2, range(5, 11), 4)):
        track(MLflow(spec), folder, attempt, steps, resumed)
        wait_for_step(mlflow, steps[-1])
    tracking = track(MLflow(spec), folder, 3, range(9, 13), resumed=8)
    assert end(tracking) == []

    (run,) = runs_of(mlflow)
    assert run["info"]["status"] == "FINISHED"
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    assert (tags["outcome"], tags["report"], tags["attempt"]) == ("Succeeded", "report.html", "3")
    assert {"key": "config.rate", "value": "0.1"} in run["data"]["params"]
    assert steps_in(mlflow, run["info"]["run_id"]) == [*range(1, 13)]


def runs_of(address: str) -> list:  # type: ignore[type-arg]  # JSON
    experiment = ask(address, "experiments/get-by-name?experiment_name=digits")["experiment"]
    ids = [experiment["experiment_id"]]  # type: ignore[call-overload, index]  # JSON
    found = ask(address, "runs/search", {"experiment_ids": ids})
    return found.get("runs", [])  # type: ignore[return-value]  # JSON


def steps_in(address: str, run_id: str) -> list[int]:
    answer = ask(address, f"metrics/get-history?run_id={run_id}&metric_key=loss")
    return [metric["step"] for metric in answer.get("metrics", [])]  # type: ignore[union-attr, index, call-overload, misc]  # JSON


def wait_for_step(address: str, step: int) -> None:
    while True:
        try:
            (run,) = runs_of(address)
            if step in steps_in(address, run["info"]["run_id"]):
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.1)


def test_wandb_writes_a_run_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainshed.tracking.on_wandb import Wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    for attempt, resumed in ((1, None), (2, 4)):
        tracker = Wandb(WandbSpec(project="digits"))
        assert end(track(tracker, Disk(tmp_path), attempt, range(1, 5), resumed)) == []

    written = sorted((tmp_path / "wandb").glob("offline-run-*-digits-1-abc/run-digits-1-abc.wandb"))
    assert written
    assert all(b"config.rate" in file.read_bytes() for file in written)
