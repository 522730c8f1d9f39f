"""Runs that lose a worker and then their driver or are told to stop, and what they leave."""

import time
from pathlib import Path

import pyarrow.parquet as pq
import torch
from pydantic import JsonValue

from tests.app.processes import Mark
from tests.app.ray_run import Output, finish, run_folder, start, wait_for_step
from tests.app.train_functions import make_network
from trainshed_api.names import EXIT_TERMINATED, STOPPED
from trainshed_api.progress import Started, WorkersLost

LAST_STEP = 30
# Of make_kills: the last checkpoint before the driver is lost.
RESUMED_AT = 16


def make_spec(
    folder: Path, config: dict[str, JsonValue], *, shuffle: JsonValue, cache: str, workers: int
) -> dict[str, JsonValue]:
    """Return a spec of 3 epochs of 10 steps with a checkpoint after each 4."""
    read: JsonValue = {"format": "parquet", "path": str(folder / "rows"), "columns": ["x", "y"]}
    train: JsonValue = {"read": read, "shuffle": shuffle, "cache": cache}
    return {
        "train": "tests.app.train_functions:regress",
        "config": config,
        "epochs": 3,
        "batchSize": 20,
        "seed": 3,
        "reproducible": True,
        "workers": {"count": workers, "resources": {"cpu": "500m"}},
        "checkpoint": {"everyEpochs": 0, "everySteps": 4},
        "data": {"cpus": 1, "datasets": {"train": train}},
    }


def make_kills(file: Path) -> dict[str, JsonValue]:
    """Return the config that kills a worker and then the driver of a file's run, once each."""
    return {"killWorkerAt": 10, "killDriverAt": 18, "run": str(run_folder(file))}


def last_weights(file: Path, model: str = "model") -> dict[str, torch.Tensor]:
    """Return the weights of a model in a run's last checkpoint."""
    found = run_folder(file).glob(f"attempts/*/ray/checkpoint_*/{model}.pt")
    last = max(found, key=lambda path: path.parent.name)
    assert f"{LAST_STEP:09}" in last.parent.name
    weights: dict[str, torch.Tensor] = torch.load(last, weights_only=True)
    return weights


def wait_for_the_end_of_its_ray(mark: Mark, timeout_seconds: float = 120) -> None:
    """Wait until nothing is left of a Ray whose driver was killed.

    But for its agents: they try for a minute to tell of it, and nobody is there to be told.
    """
    deadline = time.monotonic() + timeout_seconds
    while left := [command for command in mark.processes() if "Agent" not in command]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def assert_lost_and_resumed(first: Output, second: Output) -> None:
    """A run of make_kills lost a worker, and the next one went on at its last checkpoint."""
    assert any(isinstance(event, WorkersLost) for event in first.events)
    assert resumed_step(second) == RESUMED_AT


def make_slow(file: Path) -> dict[str, JsonValue]:
    """Return the config of a file's run that takes its time until it was stopped."""
    return {"hurry": str(file.with_suffix(".hurry"))}


def stop_within(file: Path, environment: dict[str, str], step: int) -> int:
    """Run a file of make_slow, stop it after a step, and return the step at which it did."""
    process = start("run", str(file), environment=environment)
    wait_for_step(file, step)
    process.terminate()
    output = finish(process)
    file.with_suffix(".hurry").touch()
    assert output.code == EXIT_TERMINATED, output.stderr
    assert output.finished.outcome == STOPPED
    _, _, stopped_at = output.finished.message.partition("stopped after step ")
    return int(stopped_at)


def resumed_step(output: Output) -> int:
    """Return the step of the checkpoint at which a run went on."""
    started = next(event for event in output.events if isinstance(event, Started))
    assert started.resumed_from
    assert started.resumed_from.step is not None
    return started.resumed_from.step


def assert_same_weights(want: dict[str, torch.Tensor], got: dict[str, torch.Tensor]) -> None:
    """Two runs ended with the very same bits."""
    assert all(torch.equal(want[name], got[name]) for name in want)


def loss_of(weights: dict[str, torch.Tensor], folder: Path) -> float:
    """Return the mean loss of a folder's rows, computed here and all at once."""
    network = make_network()
    network.load_state_dict(weights)
    network.eval()
    rows = pq.read_table(folder)
    x_BC = torch.tensor(rows["x"].to_pylist())
    y_B = torch.tensor(rows["y"].to_pylist())
    with torch.no_grad():
        return float(((network(x_BC).squeeze(1) - y_B) ** 2).mean())
