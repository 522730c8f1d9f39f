"""`trainshed export` of runs of one worker in this process."""

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import xgboost
from pydantic import JsonValue

import trainshed
from tests.app.alone import Left
from tests.app.cli_here import trainshed_here
from tests.app.predict.functions import build
from tests.app.predict.trained import newest, train_own, train_to_end, write_table
from trainshed.data.sources.column_arrays import Columns
from trainshed.predict.export import export_model
from trainshed.predict.torch_export import inputs_of
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED

DATASET: JsonValue = {"read": {"format": "csv", "path": "rows.csv"}}
X = torch.arange(12, dtype=torch.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Left:
    return train_own(tmp_path_factory.mktemp("own"))


def export(run: Left, rows: Path, form: str, output: Path) -> Path:
    words = ("export", str(run.path), str(rows), "--to", form, "--output", str(output))
    said = trainshed_here(*words)
    assert said.code == EXIT_SUCCEEDED, said.stderr
    return output


def rows_of(own: Left) -> Path:
    return own.path.parents[2] / "rows"


def plain_outputs(own: Left) -> torch.Tensor:
    model = build({"width": 4})
    model.load_state_dict(torch.load(newest(own).path / "model.pt", weights_only=True))
    with torch.no_grad():
        found: torch.Tensor = model(X)
    return found


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_torchscript_has_the_outputs_of_the_run(own: Left, tmp_path: Path) -> None:
    file = export(own, rows_of(own), "torchscript", tmp_path / "model.pt")

    loaded = torch.jit.load(file)  # type: ignore[no-untyped-call]
    assert torch.equal(loaded(X), plain_outputs(own))
    assert [each.name for each in tmp_path.iterdir()] == ["model.pt"]


@pytest.mark.trainers  # whose lock has the package
def test_safetensors_have_the_weights_of_the_run(own: Left, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = export(own, rows_of(own), "safetensors", tmp_path / "model.safetensors")

    model = build({"width": 4})
    model.load_state_dict(safetensors.load_file(file))
    assert torch.equal(model(X), plain_outputs(own))


def test_onnx_has_the_outputs_of_the_run(own: Left, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    file = export(own, rows_of(own), "onnx", tmp_path / "model.onnx")

    session = onnxruntime.InferenceSession(file)
    (found,) = session.run(None, {session.get_inputs()[0].name: X.numpy()})
    np.testing.assert_allclose(found, plain_outputs(own).numpy(), rtol=1e-5)


def test_trees_end_at_the_best_round_and_have_the_objective_of_training(tmp_path: Path) -> None:
    table = write_table(tmp_path / "rows.csv")
    left = train_to_end(
        tmp_path,
        {
            "train": "trainshed.programs.boosted_trees:train",
            "framework": "xgboost",
            "config": {
                "params": {"objective": "multi:softmax", "num_class": 3, "eta": 1.0},
                "numBoostRound": 40,
                "earlyStoppingRounds": 2,
                "features": ["a", "b"],
                "label": "kind",
            },
            "data": {"datasets": {"train": DATASET, "valid": DATASET}},
        },
    )

    file = export(left, table, "ubj", tmp_path / "model.ubj")

    exported = xgboost.Booster(model_file=file)
    stored = xgboost.Booster(model_file=newest(left).path / "model.ubj")
    assert exported.num_boosted_rounds() == int(stored.attr("best_iteration") or 0) + 1
    config = json.loads(exported.save_config())
    assert config["learner"]["objective"]["name"] == "multi:softmax"


def test_a_format_of_another_framework_is_refused(own: Left, tmp_path: Path) -> None:
    rows, file = str(rows_of(own)), str(tmp_path / "model.ubj")
    said = trainshed_here("export", str(own.path), rows, "--to", "ubj", "--output", file)

    assert said.code == EXIT_INVALID
    assert "--to: got ubj; expected onnx or torchscript or safetensors" in said.stderr


def test_a_missing_exporter_is_refused_with_what_to_install(
    own: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    file = str(tmp_path / "model.onnx")
    said = trainshed_here(
        "export", str(own.path), str(rows_of(own)), "--to", "onnx", "--output", file
    )

    assert said.code == EXIT_INVALID
    assert "pip install onnx onnxruntime onnxscript" in said.stderr


def test_a_condition_on_values_is_refused_for_torchscript(own: Left, tmp_path: Path) -> None:
    model = trainshed.load(str(own.path), device="cpu")
    assert isinstance(model.model, torch.nn.Module)
    model.model.register_forward_hook(lambda _, __, x: x / 255 if x.max() > 255 else x)

    with pytest.raises(SpecError, match=r"as a condition does in .*test_export\.py:\d+\. Use"):
        export_model(model, read_rows(rows_of(own)), "torchscript", tmp_path / "model.pt")

    assert list(tmp_path.iterdir()) == []


def test_tensors_by_name_are_refused_with_their_names() -> None:
    class Masked(torch.nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return x * mask

    model = Masked()
    with pytest.raises(SpecError, match="RUN: got Tensor, mask=Tensor; expected"):
        inputs_of(model, lambda: model(X, mask=X))


def test_a_file_in_a_folder_that_does_not_exist_is_refused(own: Left, tmp_path: Path) -> None:
    model = trainshed.load(str(own.path), device="cpu")

    with pytest.raises(SpecError, match=r"--output: got .*model\.pt; expected a file in an"):
        export_model(model, {}, "torchscript", tmp_path / "missing" / "model.pt")


def test_a_file_with_other_outputs_gets_no_name(own: Left, tmp_path: Path) -> None:
    model = trainshed.load(str(own.path), device="cpu")
    assert isinstance(model.model, torch.nn.Module)
    # Traced once, a model that draws numbers has other outputs in each call.
    model.model.register_forward_hook(lambda _, __, found: found + torch.rand(1))

    with pytest.raises(SpecError, match="--to: got torchscript; expected a format in which"):
        export_model(model, read_rows(rows_of(own)), "torchscript", tmp_path / "model.pt")

    assert list(tmp_path.iterdir()) == []


def read_rows(folder: Path) -> Columns:
    columns = pq.read_table(folder).to_pydict()
    return {name: np.asarray(each) for name, each in columns.items()}
