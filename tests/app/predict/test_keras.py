"""Predictions of Keras runs. Runs where TensorFlow is installed: `make test-tensorflow`."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.app.cli_here import trainshed_here
from tests.builders import make_data, make_dataset
from trainshed.checkpoint import store
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_SUCCEEDED

pytestmark = pytest.mark.tensorflow


def train(home: Path, program: str, config: dict[str, JsonValue]) -> Left:
    write_rows(home / "rows", 40, files=2)
    left = train_alone(
        home,
        {
            "train": program,
            "framework": "tensorflow",
            "config": config,
            "epochs": 1,
            "batchSize": 8,
            "data": make_data(make_dataset()),
        },
    )
    assert left.finished.outcome == "Succeeded", left.finished.message
    return left


def test_numbers_of_the_perceptron_are_those_of_plain_keras(tmp_path: Path) -> None:
    import tf_keras

    config: dict[str, JsonValue] = {
        "features": ["x"],
        "inputs": 4,
        "label": "y",
        "task": "regression",
    }
    left = train(tmp_path, "trainshed.programs.keras_mlp:train", config)

    output = tmp_path / "out.parquet"
    said = trainshed_here(
        "predict", str(left.path), str(tmp_path / "rows"), "--output", str(output), "--cpu"
    )

    assert said.code == EXIT_SUCCEEDED, said.stderr
    checkpoint = store.candidates([left.folder.checkpoints(1)])[0].path
    assert checkpoint
    model = tf_keras.models.load_model(checkpoint / "model.keras")
    rows = pq.read_table(tmp_path / "rows")
    x = np.asarray(rows["x"].to_pylist(), np.float32)
    plain = np.concatenate([model.predict_on_batch(x[part : part + 20]) for part in (0, 20)])
    found = pq.read_table(output)
    assert found["row"].to_pylist() == list(range(40))
    assert found["prediction"].to_pylist() == plain[:, 0].tolist()


def test_an_own_function_predicts_from_arrays(tmp_path: Path) -> None:
    left = train(tmp_path, "tests.app.keras_functions:fit_for_predictions", {})

    model = trainshed.load(str(left.path), device="cpu")
    found = model.predict([{"x": [1.0, 2.0, 3.0, 4.0]}])

    assert found["sum"].tolist() == [10.0]
    assert found["prediction"].dtype == np.float32


def test_a_model_without_the_function_that_predicts_is_refused(tmp_path: Path) -> None:
    left = train(tmp_path, "tests.app.keras_functions:fit", {})

    with pytest.raises(SpecError, match="a checkpoint without predict; expected"):
        trainshed.load(str(left.path))
