"""Each run of manifests/samples/data reads real bytes of what it is about, and gives their rows."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, JsonValue

from tests.app.alone import train_alone
from tests.app.conftest import set_environment
from tests.app.data.builders_samples import SAMPLES, open_sample
from tests.app.data.sample_cases import HERE, IN_RAY, SERVED
from tests.bundle.repository import ROOT
from tests.s3 import S3Server
from tests.web import WebServer
from trainshed_api.data import DatasetSpec, DataSpec, FeedSpec, ShuffleSpec
from trainshed_api.formats import FORMATS
from trainshed_api.loading import load_file
from trainshed_api.names import SUCCEEDED
from trainshed_api.rows import HoldoutSpec, ReadSpec
from trainshed_api.transforms import AugmentSpec, TaskSpec, TransformSpec

READ = "spec.data.datasets.train.read"
PAGE = (ROOT / "docs" / "data" / "sources.md").read_text("utf-8")
FILES = sorted(SAMPLES.glob("*.yaml"))
# Whose files tell their rows, and whose data no other than Ray Data has to make.
TRAINED = ("parquet", "images", "binary", "numpy", "delta", "iceberg", "lance", "audio", "feeding")
# What no sample shows, and why.
NOT_SHOWN = {
    "collate": "manifests/samples/collate.yaml is a whole run of it",
    "loader": "deprecated",
    "loaderProcesses": "deprecated",
    "requesterPays": "buckets whose readers pay are few",
}
# Values of which each has to be shown: those of a format, and of what is chosen from a list.
VALUES: dict[str, tuple[str, ...]] = {
    "format": FORMATS,
    "cache": ("none", "objects", "workers", "disk"),
    "mode": ("files", "blocks", "local", "global"),
    "kind": ("filter", "rows", "groups"),
}


@pytest.mark.parametrize("name", HERE)
def test_a_sample_gives_the_rows_that_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case = HERE[name]
    monkeypatch.chdir(tmp_path)  # where the catalog of Iceberg lies
    case.write(tmp_path)

    sample = open_sample(tmp_path, name, case.settings)

    case.check(sample)
    if name in FORMATS:
        source = sample.plans["train"].source
        assert source
        assert (source.rows is not None) is has_row_counts(name)


def has_row_counts(form: str) -> bool:
    """Return whether docs/data/sources.md says that the metadata of a format has row counts."""
    [rows] = re.findall(rf"^\| `{form}` \| .* \| (\w+)[^|]* \| (?:yes|`\w+`) \|$", PAGE, re.M)
    return {"known": True, "counted": False}[rows]


def test_the_sample_of_the_web_gives_the_rows_of_a_file_there(
    tmp_path: Path, web: WebServer, own_node: Path
) -> None:
    case = SERVED["http"]
    case.write(tmp_path)
    web.files["/flights.parquet"] = (tmp_path / "flights.parquet").read_bytes()

    case.check(open_sample(tmp_path, "http", [f"{READ}.path={web.url}/flights.parquet"]))

    assert not web.count("GET")  # ranges alone


@pytest.mark.s3
def test_the_sample_of_a_bucket_fetches_each_object_once(
    tmp_path: Path, s3: S3Server, bucket: str, own_node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = SERVED["bucket"]
    case.write(s3.folder_of(bucket))
    set_environment(monkeypatch, {**s3.environment, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"})
    # The server of these tests knows nobody without a key: test_reach.py has who shows none.
    there = [
        f"{READ}.path=s3://{bucket}/train",
        f"{READ}.endpoint={s3.endpoint}",
        f"{READ}.region=us-east-1",
        f"{READ}.anonymous=false",
    ]
    sample = open_sample(tmp_path, "bucket", there)

    case.check(sample)
    s3.stop()
    case.check(sample)


@pytest.mark.parametrize("name", TRAINED)
def test_a_sample_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    HERE[name].write(tmp_path)
    here = ["spec.batchSize=2", "spec.epochs=1"]
    run = load_file(SAMPLES / f"{name}.yaml", here)

    left = train_alone(
        tmp_path, run.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    )

    assert left.finished.outcome == SUCCEEDED, left.finished.message


def test_every_sample_is_read_by_a_test() -> None:
    assert sorted([*HERE, *SERVED, *IN_RAY]) == [file.stem for file in FILES]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_says_how_long_it_trains(file: Path) -> None:
    assert load_file(file).spec.epochs


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_sample_is_short_and_its_first_line_says_what_it_shows(file: Path) -> None:
    lines = file.read_text("utf-8").splitlines()

    assert len(lines) < 30
    assert lines[0].startswith("# ")
    assert lines[1].startswith("apiVersion:")


def test_every_field_of_data_is_shown() -> None:
    models: tuple[type[BaseModel], ...] = (
        *(DataSpec, DatasetSpec, ReadSpec, HoldoutSpec, ShuffleSpec, FeedSpec),
        *(TransformSpec, AugmentSpec, TaskSpec),
    )
    fields = {field.alias or name for model in models for name, field in model.model_fields.items()}

    assert fields - {name for name, _ in _said()} == NOT_SHOWN.keys()


@pytest.mark.parametrize("field", VALUES)
def test_every_choice_is_shown(field: str) -> None:
    shown = {value for name, value in _said() if name == field}

    assert set(VALUES[field]) <= shown


def _said() -> Iterator[tuple[str, object]]:
    """Yield each field of the samples' data with its value, and those of lists and maps below."""
    for file in FILES:
        yield from _fields(yaml.safe_load(file.read_text("utf-8"))["spec"]["data"])


def _fields(value: JsonValue) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield name, below
            yield from _fields(below)
    elif isinstance(value, list):
        for below in value:
            yield from _fields(below)
