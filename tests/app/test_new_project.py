"""`trainshed init` on tables and pictures: the file trains, and its model predicts."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
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
