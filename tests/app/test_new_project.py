"""`trainshed init` on tables and pictures: the file trains, and its model predicts."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import trainshed
from tests.app.alone import Left, train_alone
from tests.app.cli_here import trainshed_here
from tests.app.data.builders_formats import write_pictures
from trainshed_api.loading import load_file
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, SUCCEEDED

if TYPE_CHECKING:
    from pydantic import JsonValue


def write_table(file: Path, label: str = "kind", rows: int = 120) -> Path:
    random = np.random.default_rng(0)
    lines = [f"name,size,color,price,{label}"]
    for number in range(rows):
        size = random.normal()
        kind = ("small", "middle", "large")[int(np.digitize(size, [-0.4, 0.4]))]
        lines.append(
            f"n{number},{size:.4f},{'red' if number % 3 else 'blue'},{size * 2:.4f},{kind}"
        )
    file.write_text("\n".join(lines) + "\n")
    return file


def train_written(project: Path, *settings: str) -> Left:
    run = load_file(project / "run.yaml", settings)
    spec: dict[str, JsonValue] = run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return train_alone(project, spec)


def test_a_project_for_a_table_trains_and_predicts_the_classes(tmp_path: Path) -> None:
    table = write_table(tmp_path / "rows.csv")
    project = tmp_path / "My Flowers"

    said = trainshed_here("init", str(project), "--data", str(table), "--label", "kind")
    left = train_written(project, "spec.config.numBoostRound=8")
    row = {"name": "x", "size": 2.0, "color": "red", "price": 4.0}
    predicted = trainshed.load(str(left.path)).predict([row])

    assert said.code == EXIT_SUCCEEDED, said.stderr
    assert "classify rows by kind: large, middle, small, from size, color, price" in said.stdout
    assert "left out: name" in said.stdout
    assert load_file(project / "run.yaml").metadata.name == "my-flowers"
    assert left.finished.outcome == SUCCEEDED, left.finished.message
    assert predicted["prediction"].tolist() == ["large"]


def test_numbers_are_regressed(tmp_path: Path) -> None:
    table = write_table(tmp_path / "rows.csv")

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(table), "--label", "price")

    assert "predict the number price, from size, color, kind" in said.stdout
    config = load_file(tmp_path / "p" / "run.yaml").spec.config
    assert config["params"] == {"objective": "reg:squarederror"}


def test_a_project_for_pictures_trains(tmp_path: Path) -> None:
    write_pictures(tmp_path / "pictures", {"cat": 10, "ferret": 10})

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(tmp_path / "pictures"))
    left = train_written(tmp_path / "p", "spec.epochs=1", "spec.batchSize=8")

    assert "classify pictures of 2 folders: cat, ferret" in said.stdout
    assert left.finished.outcome == SUCCEEDED, left.finished.message


REFUSED = {
    "no label": ([], "--label: missing; expected the column to predict, one of name, size"),
    "other label": (["--label", "colour"], '--label: got "colour"; expected'),
    "no classes": (
        ["--label", "size", "--task", "classification"],
        "size",
    ),
}


def write_columns(folder: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return folder / "rows.parquet"


@pytest.mark.parametrize("amounts", [60, 200])
def test_sorted_integers_of_many_values_are_regressed(tmp_path: Path, amounts: int) -> None:
    count = 60_000  # of which the first 4096 have few values
    table = write_columns(
        tmp_path, size=np.arange(count) / 7, amount=np.arange(count) * amounts // count
    )

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(table), "--label", "amount")

    assert "predict the number amount" in said.stdout, said.stderr


def test_texts_that_repeat_seldom_are_features(tmp_path: Path) -> None:
    table = write_columns(
        tmp_path, city=[f"c{n % 200}" for n in range(3000)], label=np.arange(3000) % 2
    )

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(table))

    assert "classify rows by label: 0, 1, from city" in said.stdout, said.stderr


MOMENTS = np.arange(30).astype("datetime64[D]")
UNFIT: dict[str, tuple[object, list[str], str]] = {
    "a missing integer": ([None, *([0, 1] * 30)], [], "expected a value in each row"),
    "a missing number": ([None, *([0.5, 1.25] * 30)], [], "expected a value in each row"),
    "a late missing integer": ([*([0, 1] * 9000), None], [], "expected a value in each row"),
    "dates": (MOMENTS, [], "expected a column with one number or text in each row"),
    "texts to regress": (
        ["a", "b"] * 9,
        ["--task", "regression"],
        "--task: got regression; expected classification",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_labels_that_trees_cannot_learn_are_refused(tmp_path: Path, case: str) -> None:
    values, words, want = UNFIT[case]
    labels = pa.array(values)
    table = write_columns(tmp_path, size=np.arange(len(labels)) / 7, label=labels)

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(table), *words)

    assert want in said.stderr
    assert said.code == EXIT_INVALID


@pytest.mark.parametrize("case", REFUSED)
def test_a_label_that_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    words, want = REFUSED[case]
    table = write_table(tmp_path / "rows.csv")

    said = trainshed_here("init", str(tmp_path / "p"), "--data", str(table), *words)

    assert said.code == EXIT_INVALID
    assert want in said.stderr
    assert not (tmp_path / "p").exists()


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()

    said = trainshed_here("init", str(tmp_path), "--data", str(write_table(tmp_path / "rows.csv")))

    assert said.code == EXIT_INVALID
    assert "expected a folder without this file" in said.stderr


NAMES = {
    "2024-data": "data",
    "2024": "run",
    f"{'a' * 39}-long": "a" * 39,
    "Größe": "gr-e",
}


@pytest.mark.parametrize("folder", NAMES)
def test_any_folder_becomes_a_name_that_a_run_may_have(tmp_path: Path, folder: str) -> None:
    table = write_table(tmp_path / "rows.csv")

    said = trainshed_here("init", str(tmp_path / folder), "--data", str(table), "--label", "kind")

    assert said.code == EXIT_SUCCEEDED, said.stderr
    assert load_file(tmp_path / folder / "run.yaml").metadata.name == NAMES[folder]


def test_letters_of_all_languages_are_readable(tmp_path: Path) -> None:
    table = write_table(tmp_path / "rows.csv", label="größe")

    trainshed_here("init", str(tmp_path / "p"), "--data", str(table), "--label", "größe")

    assert "label: größe" in (tmp_path / "p" / "run.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("label", ["y", "1e3", "on"])
def test_a_column_keeps_its_name_in_the_file(tmp_path: Path, label: str) -> None:
    table = write_table(tmp_path / "rows.csv", label=label)

    trainshed_here("init", str(tmp_path / "p"), "--data", str(table), "--label", label)

    assert load_file(tmp_path / "p" / "run.yaml").spec.config["label"] == label
