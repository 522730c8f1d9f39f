"""`trainshed report` finds a run by a path or an address, and says what stands in its way."""

from pathlib import Path

import pytest

from tests.app.cli_here import trainshed_here
from tests.builders_run import make_ended_run
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import REPORT
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED


def test_it_says_where_the_report_is(place: Folder) -> None:
    run = make_ended_run().write(place)

    said = trainshed_here("report", str(run))

    assert (said.code, said.stderr) == (EXIT_SUCCEEDED, "")
    assert said.stdout == f"report: {run}/report.html\n"
    assert b"digits" in run.read(REPORT)


@pytest.mark.parametrize("words", ["{run}/", "file://{run}"])
def test_a_folder_may_be_written_in_several_ways(words: str, tmp_path: Path) -> None:
    run = make_ended_run().write(Disk(tmp_path))

    assert trainshed_here("report", words.format(run=run)).stdout == f"report: {run}/report.html\n"


def test_of_a_relative_path_it_says_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_ended_run().write(Disk(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert trainshed_here("report", "run").stdout == f"report: {run}/report.html\n"
    assert f"from {run}<".encode() in run.read(REPORT)


def test_the_address_of_something_else_is_refused(in_bucket: Bucket) -> None:
    said = trainshed_here("report", f"{in_bucket}/digits/")

    assert said.code == EXIT_INVALID
    assert f"{in_bucket}/digits is not the folder of a run: it has no run.json" in said.stderr
    assert in_bucket.tree() == []


@pytest.mark.usefixtures("in_bucket")
def test_a_bucket_that_is_not_there_is_named() -> None:
    said = trainshed_here("report", "s3://no-such-bucket/runs/local/digits")

    assert said.code == EXIT_INVALID
    assert "Invalid value for FOLDER: s3://no-such-bucket: no such bucket" in said.stderr


def test_credentials_that_do_not_allow_it_are_named(in_bucket: Bucket) -> None:
    said = trainshed_here("report", str(in_bucket), environment={"AWS_SECRET_ACCESS_KEY": "wrong"})

    assert said.code == EXIT_INVALID
    assert f"Invalid value for FOLDER: {in_bucket}" in said.stderr
    assert "access was denied, or the credentials have expired" in said.stderr


@pytest.mark.parametrize("address", ["hdfs://server/runs", "s3:///runs"])
def test_an_address_that_leads_nowhere_is_told_what_would(address: str) -> None:
    said = trainshed_here("report", address)

    assert said.code == EXIT_INVALID
    want = f"{address} is not a path, file://, or a bucket's address with one of s3://"
    assert f"Invalid value for FOLDER: {want}" in said.stderr


def test_a_folder_that_takes_no_report_is_named(tmp_path: Path) -> None:
    run = make_ended_run().write(Disk(tmp_path))
    (tmp_path / "run" / REPORT).mkdir()

    said = trainshed_here("report", str(run))

    assert said.code == EXIT_INVALID
    assert f"Invalid value for FOLDER: {run}/" in said.stderr
    assert "Is a directory" in said.stderr
