"""`trainshed predict` by two workers of a Ray of this module, and as a job of a cluster."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.cli_here import trainshed_here
from tests.app.predict.trained import train_own
from tests.app.ray_head import Head, start_here
from tests.app.ray_run import Output
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TRY_AGAIN

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a run that has predicted its rows in this process, for comparison."""
    home = tmp_path_factory.mktemp("home")
    (home / "run").symlink_to(train_own(home).path)
    for ending in ("jsonl", "parquet"):
        output = predict(home, f"here.{ending}")
        assert output.code == EXIT_SUCCEEDED, output.stderr
    with start_here(cpus=3):
        yield home


def predict(home: Path, output: str, *words: str) -> Output:
    given = ("predict", str(home / "run"), str(home / "rows"), "--cpu", "--scores")
    return trainshed_here(*given, "--output", str(home / output), *words)


def rows_of(folder: Path) -> list[JsonValue]:
    files = sorted(folder.glob("part-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_stopped_prediction_continues_without_a_row_missing_or_twice(home: Path) -> None:
    (home / "stop").touch()
    stopped = predict(home, "all.jsonl", "--workers", "2")
    (home / "stop").unlink()
    written = {file.name: file.stat().st_mtime_ns for file in (home / "all.jsonl").glob("part-*")}

    resumed = predict(home, "all.jsonl", "--workers", "2")

    assert (stopped.code, resumed.code) == (EXIT_INVALID, EXIT_SUCCEEDED), resumed.stderr
    assert "raised RuntimeError: stopped" in stopped.stderr
    assert "part-000003.jsonl" not in written
    kept = {name: (home / "all.jsonl" / name).stat().st_mtime_ns for name in written}
    assert kept == written
    assert "4 of 4 files written" in resumed.stderr
    here = [json.loads(line) for line in (home / "here.jsonl").read_text().splitlines()]
    assert rows_of(home / "all.jsonl") == here

    again = predict(home, "all.jsonl", "--workers", "2")
    assert again.code == EXIT_INVALID
    assert "expected a new folder; this one has all predictions" in again.stderr


def test_a_file_that_ends_its_workers_is_named(home: Path) -> None:
    (home / "stop").write_text("exit")
    output = predict(home, "lost.jsonl", "--workers", "2")
    (home / "stop").unlink()

    assert output.code == EXIT_TRY_AGAIN
    assert re.search(r"first file that is not predicted is \S*part-[23]\.parquet", output.stderr)


def test_parquet_files_have_the_rows_of_one_process_in_the_same_types(home: Path) -> None:
    output = predict(home, "all.parquet", "--workers", "2")

    assert output.code == EXIT_SUCCEEDED, output.stderr
    assert "40 rows predicted" in output.stdout
    here = pq.read_table(home / "here.parquet")
    there = pa.concat_tables(
        pq.ParquetFile(file).read() for file in sorted((home / "all.parquet").glob("part-*"))
    )
    assert there.equals(here)
    assert pq.read_table(home / "all.parquet").num_rows == 40


def test_a_worker_that_cannot_read_the_rows_ends_it_with_their_name(home: Path) -> None:
    (home / "broken").mkdir()
    (home / "broken" / "part-0.parquet").write_bytes((home / "here.parquet").read_bytes())
    words = ("--output", str(home / "lacking.jsonl"), "--workers", "2", "--cpu")

    output = trainshed_here("predict", str(home / "run"), str(home / "broken"), *words)

    assert output.code == EXIT_INVALID
    assert "part-0.parquet" in output.stderr


def test_a_job_of_a_cluster_has_the_rows_of_this_machine(home: Path, head: Head) -> None:
    sent = predict_in(head, home, "rows")
    refused = predict_in(head, home, "elsewhere")

    assert sent.code == EXIT_SUCCEEDED, sent.stderr
    assert re.search(r"predict-[0-9a-f]{8}-1 was submitted", sent.stderr)
    assert "4 of 4 files written, 40 rows predicted" in sent.stderr
    here = [json.loads(line) for line in (home / "here.jsonl").read_text().splitlines()]
    assert rows_of(home / "job.jsonl") == here
    assert refused.code == EXIT_INVALID
    assert "error: SOURCE: got" in refused.stderr
    assert "note: all nodes of the cluster must mount" in refused.stderr


def predict_in(head: Head, home: Path, rows: str) -> Output:
    given = ("predict", str(home / "run"), str(home / rows), "--cpu", "--scores")
    to = ("--output", str(home / "job.jsonl"), "--address", head.address)
    return trainshed_here(*given, *to, environment=head.access)
