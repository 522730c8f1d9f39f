"""A run over files with broken records."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.app.ray_head import Head
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import BadRecords, WarningEvent
from trainshed_api.records import ResultRecord

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

FUNCTIONS = "tests.app.data.sample_functions"
# Of each file of 60 rows.
BROKEN_LINES = {3: "{broken", 31: "null", 59: '{"id": "no number"}'}
BAD_ROW = 17
EPOCHS = 3


def write_lines(folder: Path, files: int) -> None:
    """Write rows with broken lines between them, the last line one of them."""
    folder.mkdir()
    for number in range(files):
        lines = []
        for row in range(60):
            x = [row / 60, number, 1.0, row % 7]
            lines.append(json.dumps({"id": 60 * number + row, "x": x, "y": row / 60}))
            if row in BROKEN_LINES:
                lines.append(BROKEN_LINES[row])
        (folder / f"{number}.jsonl").write_text("\n".join(lines) + "\n")


def dataset(path: str, **fields: JsonValue) -> dict[str, JsonValue]:
    types: JsonValue = {"types": {"id": "int64", "y": "float32"}}
    dtypes: JsonValue = {"dtypes": {"x": "float32"}, "lastBatch": "keep"}
    read: JsonValue = {"format": "json", "path": path, "options": types}
    return {"read": read, "onBadRecord": "skip", "feed": dtypes, **fields}


def write_bad_run(folder: Path) -> Path:
    write_lines(folder / "train", 3)
    write_lines(folder / "valid", 1)
    transforms: JsonValue = [{"use": f"{FUNCTIONS}:broken", "options": {"at": BAD_ROW}}]
    datasets: JsonValue = {
        "train": dataset("train", transforms=transforms, cache="none"),
        "valid": dataset("valid"),
    }
    return write_run(
        folder,
        train="tests.app.train_functions:regress",
        epochs=EPOCHS,
        batchSize=32,
        workers={"count": 2, "resources": {"cpu": "500m"}},
        data={"cpus": 1, "datasets": datasets},
    )


def test_what_is_left_out_is_told_by_log_result_and_report_and_once(
    head: Head, tmp_path: Path
) -> None:
    """Joins a Ray: tasks of Ray Data tell the coordinator, which tells the driver."""
    file = write_bad_run(tmp_path)

    output = trainshed("run", str(file), environment=head.joining)

    assert output.code == EXIT_SUCCEEDED, output.stderr
    result = ResultRecord.model_validate_json((run_folder(file) / "result.json").read_text())
    train, valid = result.bad_records["train"], result.bad_records["valid"]
    assert (train.rows, valid.rows) == (10, 3)
    assert len(train.first) == 10
    assert len({line.partition(": ")[0] for line in train.first}) == 3
    raised = [line for line in train.first if "raised ValueError" in line]
    assert len(raised) == 1
    assert f"row {BAD_ROW} is bad" in raised[0]
    # The line before it is broken, and counted.
    assert f"0.jsonl: row {BAD_ROW + 1}:" in raised[0]
    told = [event for event in output.events if isinstance(event, BadRecords)]
    assert max(event.rows for event in told if event.dataset == "train") == 10
    assert sum(len(event.first) for event in told if event.dataset == "train") == 10
    warnings = [event.message for event in output.events if isinstance(event, WarningEvent)]
    assert len([each for each in warnings if "train: rows that cannot be used are" in each]) == 1
    assert len([each for each in warnings if "train: 10 rows in all" in each]) == 1
    assert any("datasets.valid: 1 of the rows that were looked at" in each for each in warnings)
    page = (run_folder(file) / "report.html").read_text(encoding="utf-8")
    assert "Rows that were left out" in page
    assert f"row {BAD_ROW} is bad" in page
