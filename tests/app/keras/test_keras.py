"""Keras from the same file: plain files of models, losses, and the same as without us.

Runs where TensorFlow is installed: `make test-tensorflow`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app import train_functions
from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.app.ray_head import Head
from tests.app.ray_run import Output, run_folder, trainshed, write_run
from tests.app.recovery import (
    assert_lost_and_resumed,
    make_kills,
    make_slow,
    resumed_step,
    stop_within,
)
from tests.app.tables import write_digits_table
from trainshed.attempt.signals import Stop
from trainshed.failures import classify
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_SUCCEEDED, STOPPED, SUCCEEDED
from trainshed_api.progress import Evaluated

pytestmark = [pytest.mark.tensorflow, pytest.mark.ray, pytest.mark.timeout(900)]

STEPS = 30


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    """Set it before a test makes something: afterwards it can be set to no other number."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)


def make_spec(
    folder: Path, config: dict[str, JsonValue] | None = None, workers: int = 2
) -> dict[str, JsonValue]:
    """Return a spec of 3 epochs of 10 steps with a checkpoint after each."""
    datasets: dict[str, JsonValue] = {
        name: {
            "read": {"format": "parquet", "path": str(folder / name), "columns": ["x", "y"]},
            "shuffle": {"mode": mode},
        }
        for name, mode in (("train", "global"), ("valid", "none"))
    }
    return {
        "train": "tests.app.keras_functions:fit",
        "framework": "tensorflow",
        "config": config or {},
        "epochs": 3,
        "batchSize": 21,
        "seed": 3,
        "reproducible": True,
        "workers": {"count": workers, "resources": {"cpu": "500m"}},
        "checkpoint": {"everySteps": 4},
        "data": {"cpus": 1, "datasets": datasets},
    }


def write_data(folder: Path) -> None:
    """Write rows to train on, and as many to score that no number of workers shares evenly."""
    write_rows(folder / "train", 210)
    write_rows(folder / "valid", 43)


def last_model(run: Path) -> Path:
    """Return the file of a run's last model."""
    models = run.glob(f"attempts/*/ray/checkpoint_{STEPS:09}_epoch0003/model.keras")
    return max(models, key=lambda path: path.parts[-4])


def weights_of(model: Path) -> list[np.ndarray]:
    """Return the weights of a model that plain Keras loads."""
    import tf_keras

    loaded = tf_keras.models.load_model(model)
    assert int(loaded.optimizer.iterations) == STEPS
    found: list[np.ndarray] = loaded.get_weights()
    return found


def scores(output: Output | Left) -> list[float]:
    """Return the losses on the rows to score, by epoch."""
    return [
        event.metrics["valid.loss"] or 0.0
        for event in output.events
        if isinstance(event, Evaluated)
    ]


@dataclass(frozen=True)
class Plain:
    """A run of two workers that was left alone.

    Args:
        folder: of its rows.
        output: of its command.
        weights: of its last model.
    """

    folder: Path
    output: Output
    weights: list[np.ndarray]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, head: Head) -> Plain:
    """Run to the end what others do not leave alone."""
    folder = tmp_path_factory.mktemp("plain")
    write_data(folder)
    file = write_run(folder, "plain", **make_spec(folder))
    output = trainshed("run", str(file), environment=head.joining)
    assert output.code == EXIT_SUCCEEDED, output.stderr
    return Plain(folder, output, weights_of(last_model(run_folder(file))))


def assert_as_left_alone(plain: Plain, file: Path, output: Output) -> None:
    """A run that was not left alone came to the same."""
    assert output.code == EXIT_SUCCEEDED, output.stderr
    got = weights_of(last_model(run_folder(file)))
    for one, other in zip(plain.weights, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert scores(output)[-1] == pytest.approx(scores(plain.output)[-1], rel=1e-4)


def test_losing_a_worker_and_then_the_driver_changes_nothing_that_counts(
    tmp_path: Path, head: Head, plain: Plain
) -> None:
    killed = tmp_path / "killed.yaml"
    write_run(tmp_path, "killed", **make_spec(plain.folder, make_kills(killed)))
    first = trainshed("run", str(killed), environment=head.joining)
    assert first.code == -9, first.stderr
    second = trainshed("run", str(killed), environment=head.joining)

    assert_lost_and_resumed(first, second)
    assert_as_left_alone(plain, killed, second)


def test_a_stopped_run_goes_on_at_that_very_step(tmp_path: Path, head: Head, plain: Plain) -> None:
    file = tmp_path / "stopped.yaml"
    write_run(tmp_path, "stopped", **make_spec(plain.folder, make_slow(file)))

    stopped_at = stop_within(file, head.joining, 5)
    output = trainshed("run", str(file), environment=head.joining)

    assert 5 <= stopped_at < STEPS
    assert resumed_step(output) == stopped_at
    assert_as_left_alone(plain, file, output)


def test_evaluation_is_of_every_row_once_on_any_number_of_workers(
    tmp_path: Path, head: Head
) -> None:
    import tf_keras

    write_data(tmp_path)
    file = write_run(tmp_path, "three", **make_spec(tmp_path, workers=3))
    output = trainshed("run", str(file), environment=head.joining)
    assert output.code == EXIT_SUCCEEDED, output.stderr

    rows = pq.read_table(tmp_path / "valid")
    model = tf_keras.models.load_model(last_model(run_folder(file)))
    predicted = model.predict(np.asarray(rows["x"].to_pylist(), np.float32), verbose=0)
    want = float(np.square(predicted[:, 0] - np.asarray(rows["y"].to_pylist())).mean())
    assert scores(output)[-1] == pytest.approx(want, rel=1e-4)


def test_another_number_of_workers_goes_on(tmp_path: Path, head: Head) -> None:
    write_data(tmp_path)
    config: dict[str, JsonValue] = {"killDriverAt": 14, "run": str(tmp_path / "runs/local/less")}
    file = write_run(tmp_path, "less", **make_spec(tmp_path, config))
    assert trainshed("run", str(file), environment=head.joining).code == -9

    output = trainshed("run", str(file), "--set", "spec.workers.count=1", environment=head.joining)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert resumed_step(output) == 12
    assert output.finished.metrics["valid.loss"] is not None


def test_the_perceptron_learns_to_read_digits(tmp_path: Path) -> None:
    write_digits_table(tmp_path)
    datasets: dict[str, JsonValue] = {
        name: {"read": {"format": "parquet", "path": name}} for name in ("train", "valid")
    }
    spec: dict[str, JsonValue] = {
        "train": "trainshed.programs.keras_mlp:train",
        "framework": "tensorflow",
        "epochs": 20,
        "config": {
            "features": [f"p{place:02}" for place in range(64)],
            "classes": 10,
            "learningRate": 0.01,
        },
        "data": {"datasets": datasets},
    }

    left = train_alone(tmp_path, spec)

    assert left.finished.outcome == SUCCEEDED, left.finished.message
    assert (left.finished.metrics["valid.accuracy"] or 0) >= 0.95


def test_a_model_that_nobody_tracked_is_asked_for(tmp_path: Path) -> None:
    write_data(tmp_path)
    spec = make_spec(tmp_path, workers=1) | {"train": "tests.app.keras_functions:never_track"}

    left = train_alone(tmp_path, spec)

    assert "fit and evaluate need track(model) before" in left.finished.message


def test_callbacks_stop_early_at_the_same_epoch_though_the_run_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path)
    notes = {name: tmp_path / f"{name}.txt" for name in ("whole", "parts")}
    spec = make_spec(tmp_path, workers=1) | {
        "train": "tests.app.keras_functions:stop_early",
        "epochs": 9,
    }

    def train(name: str, stop: Stop | None = None) -> Left:
        config: JsonValue = {"suspendAt": 24, "notes": str(notes[name])}
        monkeypatch.setattr(train_functions, "stop", stop)
        return train_alone(tmp_path / name, spec | {"config": config}, stop=stop)

    whole = train("whole")
    suspended = train("parts", Stop())
    resumed = train("parts")

    assert whole.finished.outcome == SUCCEEDED, whole.finished.message
    assert whole.finished.message.startswith("Stopped early after epoch 4 of 9")
    assert resumed.finished.outcome == SUCCEEDED, resumed.finished.message
    assert suspended.finished.outcome == STOPPED
    # In the middle of the third of four epochs, whose rate was set when it began.
    want = ["0 0.005000", "1 0.002500", "2 0.001250", "3 0.000625"]
    assert notes["whole"].read_text(encoding="utf-8").splitlines() == want
    assert notes["parts"].read_text(encoding="utf-8").splitlines() == want


def test_what_steps_wait_for_their_rows_counts_as_waiting(tmp_path: Path) -> None:
    from tests.app.keras_functions import LINGER_SECONDS

    write_data(tmp_path)
    rows: JsonValue = {
        "read": {"format": "parquet", "path": str(tmp_path / "train"), "columns": ["x", "y"]},
        "augment": [{"use": "tests.app.keras_functions:linger_over_rows"}],
        # Nothing is made ready while another step trains.
        "feed": {"prefetchBatches": 0},
    }
    spec = make_spec(tmp_path, workers=1) | {
        "data": {"datasets": {"train": rows}},
    }

    left = train_alone(tmp_path, spec)

    assert left.finished.outcome == SUCCEEDED, left.finished.message
    assert left.finished.seconds.waiting_for_data >= STEPS * LINGER_SECONDS


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("keras 3", "expected one of tf.keras, which is Keras 2 here"),
        ("legacy", "expected tf.keras.optimizers.SGD"),
        ("pair", "pair: got ndarray; expected (inputs, targets)"),
        ("shape", "expected the same for all, such as texts padded to one length"),
    ],
)
def test_what_could_not_be_gone_on_with_is_refused(tmp_path: Path, mistake: str, said: str) -> None:
    write_data(tmp_path)
    spec = make_spec(tmp_path, {"mistake": mistake}, workers=1)

    left = train_alone(tmp_path, spec | {"train": "tests.app.keras_functions:fit_wrongly"})

    assert said in left.finished.message


def test_a_gpu_that_tensorflow_does_not_see_is_said() -> None:
    from trainshed.keras.tf_config import prepare

    with pytest.raises(
        SpecError, match=r"spec\.workers\.resources\.gpu: got 1; expected 0: .*and-cuda"
    ):
        prepare(1, has_gpu=True)


def test_a_port_that_was_taken_meanwhile_is_no_fault_of_the_function() -> None:
    import tensorflow as tf

    error = tf.errors.UnknownError(None, None, "Could not start gRPC server")

    assert classify(error) == "network"
    assert classify(tf.errors.UnknownError(None, None, "no such op")) is None
