"""`trainshed explain FILE --measure`: rows are prepared as in a run, and nothing is trained."""

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.app.cli_here import trainshed_here
from tests.app.ray_head import Head
from tests.app.ray_run import end_group, run_folder, start, trainshed, write_run
from tests.builders import make_data, make_dataset
from trainshed_api.names import EXIT_INTERRUPTED, EXIT_INVALID, EXIT_SUCCEEDED

if TYPE_CHECKING:
    from pydantic import JsonValue

pytestmark = [pytest.mark.timeout(600)]

DECODE = "trainshed.transforms:decode_image"


def write_digits_run(head: Head, folder: Path) -> Path:
    """Write a run that would train on the digits of the cluster's home, on a GPU."""
    digits = str(head.home / "digits" / "train")
    read: JsonValue = {"format": "parquet", "path": digits, "columns": ["image", "label"]}
    decode: JsonValue = {"use": DECODE, "options": {"size": 8, "mode": "L"}}
    return write_run(
        folder,
        train="tests.app.train_functions:regress",
        batchSize=64,
        epochs=2,
        workers={"count": 2, "resources": {"cpu": "0.5", "gpu": 1}},
        data=make_data(make_dataset(read=read, transforms=[decode], cache="none"), cpus=1),
    )


@pytest.mark.ray
def test_each_stage_of_the_digits_is_told_and_what_to_change(tmp_path: Path, head: Head) -> None:
    file = write_digits_run(head, tmp_path)

    measured = trainshed(
        "explain", str(file), "--measure", "--seconds", "3", environment=head.joining
    )

    assert measured.code == EXIT_SUCCEEDED, measured.stderr
    said = measured.stdout
    for stage in ("reading parquet", f"transform {DECODE}", "making batches"):
        assert re.search(rf"^{stage} +[\d.e-]+ +[\d,]+  \d ", said, re.MULTILINE), said
    assert re.search(r"^first batch after [\d.]+ s$", said, re.MULTILINE)
    assert re.search(r"^all: [1-9][\d,]* rows/s, \d+ epochs begun$", said, re.MULTILINE), said
    assert re.search(r"^slowest: .* needs .* ms a row on ", said, re.MULTILINE)
    assert not run_folder(file).exists()


@pytest.mark.e2e
def test_ctrl_c_ends_it_with_what_is_known_by_then(tmp_path: Path, head: Head) -> None:
    file = write_digits_run(head, tmp_path)
    words = ("explain", str(file), "--measure", "--seconds", "300")
    with start(*words, environment=head.joining) as process:
        try:
            assert process.stdout
            assert process.stderr
            assert any(line.startswith("taking batches") for line in process.stdout)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            said = process.stdout.read()
            assert process.wait(60) == EXIT_INTERRUPTED
            assert said.startswith("stage ")
            assert "Traceback" not in process.stderr.read()
        finally:
            end_group(process)


def test_a_run_without_datasets_has_nothing_to_measure(tmp_path: Path) -> None:
    file = write_run(tmp_path, train="tests.app.train_functions:regress", batchSize=8)

    ended = trainshed_here("explain", str(file), "--measure")

    assert ended.code == EXIT_INVALID
    assert "nothing to measure" in ended.stderr
