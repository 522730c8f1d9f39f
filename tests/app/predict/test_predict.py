"""`trainshed predict` and `trainshed.load` on runs of one worker in this process."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import xgboost
from pydantic import JsonValue

import trainshed
from tests.app.alone import Left
from tests.app.builders_rows import write_rows
from tests.app.cli_here import trainshed_here
from tests.app.data.builders_formats import write_pictures
from tests.app.predict import functions
from tests.app.predict.functions import build
from tests.app.predict.trained import FUNCTIONS, newest, train_own, train_to_end, write_table
from tests.app.ray_run import finish, start
from tests.builders import make_data, make_dataset
from trainshed.checkpoint.manifest import Prediction
from trainshed.data.sources.errors import DataError
from trainshed.predict.predictor import as_columns
from trainshed.programs import tabular, vision
from trainshed.programs.class_scores import class_scores
from trainshed_api.errors import SpecError
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED


def lines_of(file: Path) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def predict(run: Path, *words: str) -> None:
    output = trainshed_here("predict", str(run), *words, "--cpu")
    assert output.code == EXIT_SUCCEEDED, output.stderr


def test_numbers_of_the_tabular_program_are_those_of_plain_pytorch(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 40, files=2)
    config: dict[str, JsonValue] = {
        "features": ["x"],
        "inputs": 4,
        "label": "y",
        "task": "regression",
    }
    left = train_to_end(
        tmp_path,
        {
            "train": "trainshed.programs.tabular:train",
            "config": config,
            "epochs": 1,
            "batchSize": 8,
            "data": make_data(make_dataset()),
        },
    )

    predict(left.path, str(tmp_path / "rows"), "--output", str(tmp_path / "out.parquet"))

    model = tabular.build_model({**config})
    model.load_state_dict(torch.load(newest(left).path / "model.pt", weights_only=True))
    found = pq.read_table(tmp_path / "out.parquet").to_pydict()
    rows = [row for file in sorted((tmp_path / "rows").iterdir()) for row in read_x(file)]
    x = torch.tensor(rows, dtype=torch.float32)
    with torch.inference_mode():
        plain = torch.cat([model.eval()(x[part : part + 20]).squeeze(1) for part in (0, 20)])
    assert found["row"] == list(range(40))
    assert found["prediction"] == plain.tolist()


def read_x(file: Path) -> list[list[float]]:
    rows: list[list[float]] = pq.read_table(file)["x"].to_pylist()
    return rows


def test_classes_of_trees_are_those_of_plain_xgboost_under_their_names(tmp_path: Path) -> None:
    table = write_table(tmp_path / "rows.csv")
    dataset: JsonValue = {"read": {"format": "csv", "path": "rows.csv"}}
    left = train_to_end(
        tmp_path,
        {
            "train": "trainshed.programs.boosted_trees:train",
            "framework": "xgboost",
            "config": {
                "params": {"objective": "multi:softprob", "num_class": 3, "max_depth": 3},
                "numBoostRound": 4,
                "features": ["a", "b", "color"],
                "label": "kind",
            },
            "data": {"datasets": {"train": dataset}},
        },
    )

    predict(left.path, str(table), "--scores", "--output", str(tmp_path / "out.jsonl"))

    found = lines_of(tmp_path / "out.jsonl")
    booster = xgboost.Booster(model_file=str(newest(left).path / "model.ubj"))
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    features = np.asarray(
        [[float(a), float(b), float(color == "red")] for _, a, b, color, _ in rows], np.float32
    )
    matrix = xgboost.DMatrix(
        features,
        feature_names=["a", "b", "color"],
        feature_types=["q", "q", "c"],
        enable_categorical=True,
    )
    scores = booster.predict(matrix)
    assert [row["scores"] for row in found] == scores.tolist()
    assert [row["prediction"] for row in found] == [
        ("odd", "plain", "rare")[number] for number in scores.argmax(axis=1)
    ]
    assert [row["id"] for row in found] == [row[0] for row in rows]


TREES: JsonValue = {
    "params": {"objective": "multi:softprob", "num_class": 3, "max_depth": 3},
    "numBoostRound": 4,
    "features": ["a", "b", "color"],
    "label": "kind",
}


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """A run whose feature `color` holds the texts 1 and 01, and `a` and `b` numbers."""
    home = tmp_path_factory.mktemp("trees")
    text = write_table(home / "rows.csv").read_text()
    (home / "rows.csv").write_text(text.replace("red", "01").replace("blue", "1"))
    options: JsonValue = {"types": {"color": "string", "kind": "string"}}
    dataset: JsonValue = {"read": {"format": "csv", "path": "rows.csv", "options": options}}
    return train_to_end(
        home,
        {
            "train": "trainshed.programs.boosted_trees:train",
            "framework": "xgboost",
            "config": TREES,
            "data": {"datasets": {"train": dataset}},
        },
    )


def test_texts_of_digits_are_texts_in_other_files_too(trees: Left, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b,color\n-1,0.1,01\n-1,0.1,1\n")
    model = trainshed.load(str(trees.path))

    predict(trees.path, str(tmp_path / "new.csv"), "--output", str(tmp_path / "out.jsonl"))

    rows: dict[str, object] = {"a": [-1.0, -1.0], "b": [0.1, 0.1], "color": ["01", "1"]}
    assert [row["probability"] for row in lines_of(tmp_path / "out.jsonl")] == (
        model.predict(rows)["probability"].tolist()
    )
    assert not model.uses_gpu


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "numbers for texts": ({"a": [1.0], "b": [1.0], "color": [1]}, "column color: got 1; expected"),
    "bytes for texts": (
        {"a": [1.0], "b": [1.0], "color": [b"1"]},
        "expected texts, as in training",
    ),
    "a date for a number": (
        {"a": np.asarray(["2020-01-01"], "datetime64[D]"), "b": [1.0], "color": ["1"]},
        "column a: got datetime64",
    ),
}


@pytest.mark.parametrize(("rows", "want"), REFUSED.values(), ids=REFUSED)
def test_values_of_another_kind_than_in_training_are_refused(
    trees: Left, rows: dict[str, object], want: str
) -> None:
    with pytest.raises(DataError, match=want):
        trainshed.load(str(trees.path)).predict(rows)


def test_a_column_with_the_name_of_a_prediction_is_refused(trees: Left, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("a,b,color,prediction\n-1,0.1,01,mine\n")

    said = trainshed_here("predict", str(trees.path), str(tmp_path / "new.csv"), "--cpu")

    assert said.code != EXIT_SUCCEEDED
    assert "column prediction: got a column of the source" in said.stderr


def test_a_best_run_with_an_unreadable_manifest_is_refused(trees: Left, tmp_path: Path) -> None:
    shutil.copytree(trees.path, tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    record["spec"].setdefault("checkpoint", {})["best"] = {"metric": "loss", "mode": "min"}
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    for manifest in (tmp_path / "run").rglob("manifest.json"):
        manifest.write_text("{")

    with pytest.raises(SpecError, match="cannot be read"):
        trainshed.load(str(tmp_path / "run"))


def test_scores_that_are_no_numbers_are_no_class() -> None:
    with pytest.raises(ValueError, match="row 1 of the batch: got NaN"):
        class_scores(torch.tensor([[1.0, 2.0], [float("nan"), 0.0]]))


def test_a_class_without_a_name_is_refused() -> None:
    about = Prediction(classes=("low", "high"))

    for number in (-1, 2):
        with pytest.raises(DataError, match=f"got class {number}; expected one from 0 to 1"):
            as_columns(np.asarray([0, number]), {"x": np.zeros(2)}, about)


def test_pictures_in_one_folder_get_the_name_of_a_class(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", {"cat": 6, "ferret": 6})
    config: dict[str, JsonValue] = {"imageSize": 8, "width": 4, "depth": 1, "classes": 2}
    decode: JsonValue = {"use": "trainshed.transforms:decode_image", "options": {"size": 8}}
    dataset: JsonValue = {"read": {"format": "images", "path": "pictures"}, "transforms": [decode]}
    left = train_to_end(
        tmp_path,
        {
            "train": "trainshed.programs.vision:train",
            "config": config,
            "epochs": 1,
            "batchSize": 6,
            "data": {"datasets": {"train": dataset}},
        },
    )
    unsorted = tmp_path / "unsorted"
    unsorted.mkdir()
    for name in ("cat", "ferret"):
        shutil.copy(tmp_path / "pictures" / name / "0000.png", unsorted / f"{name}.png")

    predict(left.path, str(unsorted), "--output", str(tmp_path / "out.jsonl"))

    found = lines_of(tmp_path / "out.jsonl")
    model = vision.build_model({**config})
    model.load_state_dict(torch.load(newest(left).path / "model.pt", weights_only=True))
    pixels = torch.tensor([[0, 3, 0], [0, 6, 0]]).reshape(2, 3, 1, 1).expand(2, 3, 8, 8)
    with torch.inference_mode():
        scores = model.eval()(pixels.float() / 127.5 - 1).softmax(dim=1)
    assert [row["path"] for row in found] == ["cat.png", "ferret.png"]
    assert [row["prediction"] for row in found] == [
        ("cat", "ferret")[number] for number in scores.argmax(dim=1).tolist()
    ]
    assert [row["probability"] for row in found] == pytest.approx(scores.amax(dim=1).tolist())
    assert set(found[0]) == {"path", "prediction", "probability"}


def test_an_own_function_predicts_the_rows_of_a_program(tmp_path: Path) -> None:
    left = train_own(tmp_path)

    model = trainshed.load(str(left.path), device="cpu")
    found = model.predict([{"x": [1.0, 2.0, 3.0, 4.0], "row": 0}])

    assert found["sum"].tolist() == [10.0]
    assert found["prediction"].tolist()[0] in {"low", "middle", "high"}
    assert isinstance(model.model, type(build({"width": 4})))


def test_an_interrupted_prediction_continues_without_a_row_missing_or_twice(
    tmp_path: Path,
) -> None:
    left = train_own(tmp_path)
    words = ("predict", str(left.path), str(tmp_path / "rows"), "--cpu", "--output")
    (tmp_path / "stop").touch()
    stopped = trainshed_here(*words, str(tmp_path / "out.jsonl"))
    left_behind = {file.name for file in (tmp_path / "out.jsonl.parts").iterdir()}
    (tmp_path / "stop").unlink()

    # The identity of the parts must not depend on the process.
    resumed = finish(start(*words, str(tmp_path / "out.jsonl")))

    assert stopped.code == EXIT_INVALID
    assert "raised RuntimeError: stopped" in stopped.stderr
    assert left_behind == {"identity", "part-000000", "part-000001", "underway"}
    assert "20 rows predicted" in resumed.stdout
    assert [row["row"] for row in lines_of(tmp_path / "out.jsonl")] == list(range(40))
    assert not (tmp_path / "out.jsonl.parts").exists()


@pytest.mark.parametrize("value", [[1, 2], b"bytes"], ids=["lists", "bytes"])
def test_a_column_that_is_left_out_may_have_no_value_in_some_files(
    value: list[int] | bytes, tmp_path: Path
) -> None:
    left = train_own(tmp_path)
    for number, file in enumerate(sorted((tmp_path / "rows").iterdir())):
        rows = pq.read_table(file)
        values = pa.array([value if number else None] * len(rows), pa.infer_type([value]))
        pq.write_table(rows.append_column("more", values), file)

    predict(left.path, str(tmp_path / "rows"), "--output", str(tmp_path / "out.parquet"))

    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column_names == ["y", "row", "prediction", "sum"]
    assert found["row"].to_pylist() == list(range(40))


def test_a_gpu_that_this_machine_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    output = trainshed_here("predict", "digits", "rows", "--gpu")

    assert output.code == EXIT_INVALID
    assert "--gpu: got a machine without GPUs; expected one with a GPU" in output.stderr


@pytest.mark.parametrize("changed", [["--scores"], ["--columns", "x,row"]])
def test_parts_of_other_arguments_are_discarded(tmp_path: Path, changed: list[str]) -> None:
    left = train_own(tmp_path)
    words = ("predict", str(left.path), str(tmp_path / "rows"), "--cpu", "--output")
    (tmp_path / "stop").touch()
    trainshed_here(*words, str(tmp_path / "out.parquet"))
    (tmp_path / "stop").unlink()

    again = trainshed_here(*words, str(tmp_path / "out.parquet"), *changed)

    assert "40 rows predicted" in again.stdout
    assert pq.read_table(tmp_path / "out.parquet")["row"].to_pylist() == list(range(40))


def test_parts_of_other_format_options_are_discarded(tmp_path: Path) -> None:
    left = train_own(tmp_path)
    for file in (tmp_path / "rows").iterdir():
        lines = (json.dumps(row) for row in pq.read_table(file).to_pylist())
        file.with_suffix(".jsonl").write_text("\n".join(lines))
        file.unlink()
    words = ("predict", str(left.path), str(tmp_path / "rows"), "--cpu", "--output")
    (tmp_path / "stop").touch()
    trainshed_here(*words, str(tmp_path / "out.jsonl"))
    (tmp_path / "stop").unlink()

    again = trainshed_here(*words, str(tmp_path / "out.jsonl"), "--option", "types.y=float32")

    assert "40 rows predicted" in again.stdout, again.stderr


def test_parts_of_a_changed_function_are_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module = tmp_path / "own_functions.py"
    module.write_text(Path(functions.__file__).read_text())
    left = train_own(tmp_path, "own_functions")
    words = ("predict", str(left.path), str(tmp_path / "rows"), "--cpu", "--output")
    (tmp_path / "stop").touch()
    trainshed_here(*words, str(tmp_path / "out.jsonl"))
    (tmp_path / "stop").unlink()
    module.write_text(f"{module.read_text()}# changed\n")

    again = trainshed_here(*words, str(tmp_path / "out.jsonl"))

    assert "40 rows predicted" in again.stdout


def test_a_checkpoint_without_a_description_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows", 16, files=1)
    left = train_to_end(
        tmp_path,
        {
            "train": f"{FUNCTIONS}:train_without_description",
            "config": {"width": 4},
            "epochs": 1,
            "batchSize": 8,
            "data": make_data(make_dataset()),
        },
    )

    with pytest.raises(SpecError, match=r"^RUN: got a checkpoint without builder; expected .*Call"):
        trainshed.load(str(newest(left)))


def test_an_existing_output_is_not_overwritten(tmp_path: Path) -> None:
    left = train_own(tmp_path)
    (tmp_path / "out.jsonl").touch()
    words = [str(left.path), str(tmp_path / "rows"), "--output", str(tmp_path / "out.jsonl")]

    output = trainshed_here("predict", *words)

    assert output.code == EXIT_INVALID
    assert "expected a new file" in output.stderr


def test_an_address_as_output_is_refused() -> None:
    output = trainshed_here("predict", "run", "rows", "--output", "s3://bucket/out.jsonl")

    assert output.code == EXIT_INVALID
    assert "--output: got s3://bucket/out.jsonl; expected a path on this machine" in output.stderr


def test_an_unknown_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        SpecError, match=r"^RUN: got absent; expected a run's name below runs/local"
    ):
        trainshed.load("absent")
