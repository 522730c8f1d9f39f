"""What `trainshed predict --address` refuses before it sends a job."""

import pytest

from tests.app.cli_here import trainshed_here
from trainshed_api.names import EXIT_INVALID

TO_A_CLUSTER = ("--address", "http://127.0.0.1:1")
OUTPUT = ("--output", "s3://bucket/out.parquet")
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "rows of this machine": (
        ("digits", "rows", *OUTPUT, *TO_A_CLUSTER),
        "SOURCE: got rows; expected an address such as s3://bucket/rows, or an absolute path that",
    ),
    "a folder of this machine": (
        ("digits", "s3://bucket/rows", "--output", "out.parquet", *TO_A_CLUSTER),
        "--output: got out.parquet; expected an address such as s3://bucket/predictions.parquet",
    ),
    "a run of this machine": (
        ("runs/local/digits", "s3://bucket/rows", *OUTPUT, *TO_A_CLUSTER),
        "RUN: got runs/local/digits; expected an address such as s3://bucket/runs/local/digits",
    ),
    "no output": (
        ("digits", "s3://bucket/rows", *TO_A_CLUSTER),
        "--output: missing; expected a new folder that ends with .jsonl or .parquet",
    ),
    "one row": (
        ("digits", '{"x": 1}', *OUTPUT, "--workers", "2"),
        "expected files for several workers. Remove --workers and --address for one row",
    ),
    "an address of Ray instead of its dashboard": (
        ("digits", "s3://bucket/rows", *OUTPUT, "--address", "10.0.0.1:6379"),
        '--address: got "10.0.0.1:6379"; expected the address of the dashboard',
    ),
}


@pytest.mark.parametrize(("words", "want"), REFUSED.values(), ids=REFUSED)
def test_a_prediction_that_no_cluster_can_run_is_refused(words: tuple[str, ...], want: str) -> None:
    output = trainshed_here("predict", *words)

    assert output.code == EXIT_INVALID
    assert want in output.stderr
