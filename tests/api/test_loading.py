"""One loader for all commands: what it takes, and what it says about mistakes."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.builders import make_data, make_dataset, make_document, make_run
from trainshed_api.errors import SpecError
from trainshed_api.loading import Document, load_document, load_file, load_text, set_value
from trainshed_api.validation import validate_document

READ: Document = {"format": "parquet", "path": "rows"}
GROUPS: Document = {"use": "a:b", "kind": "groups", "by": ["user"]}


class Mistake(NamedTuple):
    """A spec with a mistake, and the whole error text."""

    spec: Document
    want: str


def make_mix(
    *,
    train: Document | None = None,
    b: Document | None = None,
    weights: Document | None = None,
) -> Document:
    """Return a spec whose dataset `train` mixes a and b."""
    read: Document = {"read": {"mix": weights or {"a": 0.7, "b": 0.3}}}
    datasets: Document = {"train": {**read, **(train or {})}, "a": make_dataset()}
    return {"data": {"datasets": {**datasets, "b": b or make_dataset()}}}


def train_dataset(**fields: JsonValue) -> Document:
    """Return a spec whose dataset `train` has these fields."""
    return {"data": make_data(make_dataset(**fields))}


MISTAKES: dict[str, Mistake] = {
    "a misspelt field": Mistake({"epoch": 3}, 'spec.epoch: unknown field; did you mean "epochs"?'),
    "a field in Python's spelling": Mistake(
        {"batch_size": 3}, 'spec.batch_size: unknown field; did you mean "batchSize"?'
    ),
    "a field in the wrong place": Mistake(
        {"workers": {"zzz": 1}},
        "spec.workers.zzz: unknown field; valid here: count, resources, group",
    ),
    "a field of a later version": Mistake(
        {"data": {"objectStoreMemory": "1Gi"}},
        "spec.data.objectStoreMemory: not yet supported in this version",
    ),
    "two clusters": Mistake(
        {"cluster": {"shared": "a", "dedicated": {}}},
        "spec.cluster: got both shared and dedicated; expected exactly one: shared (a RayCluster's "
        "name) or dedicated (a class)",
    ),
    "no cluster in cluster": Mistake(
        {"cluster": {}},
        "spec.cluster: got neither shared nor dedicated; expected exactly one: shared (a "
        "RayCluster's name) or dedicated (a class)",
    ),
    "a class that is no name": Mistake(
        {"cluster": {"dedicated": {"class": "Big"}}},
        'spec.cluster.dedicated.class: got "Big"; expected a name of at most 63 of a-z, 0-9 and '
        "-, no - first or last",
    ),
    "an image without its digest": Mistake(
        {"cluster": {"dedicated": {}}, "image": "registry.example.com/team/train:v1"},
        'spec.image: got "registry.example.com/team/train:v1"; expected an image with its digest, '
        "such as registry.example.com/team/train@sha256:DIGEST",
    ),
    "a Secret for a shared cluster": Mistake(
        {"envFrom": [{"secretRef": {"name": "wandb"}}]},
        "spec.envFrom: got 1 of them; expected no value without cluster.dedicated: Pods of a "
        "shared cluster exist before the run",
    ),
    "an environment from nowhere": Mistake(
        {"cluster": {"dedicated": {}}, "envFrom": [{}]},
        "spec.envFrom[0]: got neither of them; expected exactly one: secretRef or configMapRef",
    ),
    "a Secret whose name is none": Mistake(
        {"cluster": {"dedicated": {}}, "envFrom": [{"secretRef": {"name": "A"}}]},
        'spec.envFrom[0].secretRef.name: got "A"; expected a name of at most 253 of a-z, 0-9, - '
        "and ., none of the last two first or last",
    ),
    "a failure rule for everything": Mistake(
        {"failurePolicy": {"rules": [{"action": "Fail"}]}},
        "spec.failurePolicy.rules[0]: got neither exitCodes nor logPattern; expected exitCodes, "
        "logPattern or both: a rule for every failure is the two budgets",
    ),
    "a bare fraction": Mistake(
        {"workers": {"resources": {"cpu": 0.5}}},
        'spec.workers.resources.cpu: got 0.5; expected "0.5" in quotes: Kubernetes takes bare '
        "whole numbers only",
    ),
    "a nested field of a later version": Mistake(
        {"workers": {"min": 1}}, "spec.workers.min: not yet supported in this version"
    ),
    "batches of a framework that has none": Mistake(
        {"framework": "xgboost", "batchSize": 8},
        "spec.batchSize: got 8; expected no value with framework xgboost: every round looks at all "
        "rows",
    ),
    "a shuffle of a framework that has none": Mistake(
        train_dataset(shuffle={"mode": "global"}) | {"framework": "xgboost"},
        'spec.data.datasets.train.shuffle.mode: got "global"; expected no value with framework '
        "xgboost: every round looks at all rows",
    ),
    "more GPUs of a worker than Keras takes": Mistake(
        {"framework": "tensorflow", "workers": {"resources": {"gpu": 2}}},
        "spec.workers.resources.gpu: got 2; expected at most 1 with framework tensorflow, and more "
        "workers",
    ),
    "a type that Keras cannot be given": Mistake(
        train_dataset(feed={"dtypes": {"x": "bfloat16"}}) | {"framework": "tensorflow"},
        'spec.data.datasets.train.feed.dtypes.x: got "bfloat16"; expected another one with '
        "framework tensorflow",
    ),
    "one type for all columns that is no map": Mistake(
        train_dataset(feed={"dtypes": "float32"}),
        'spec.data.datasets.train.feed.dtypes: got "float32"; expected a map such as {x: '
        'float32}, or {"*": float32} for all columns of numbers',
    ),
    "a type that numpy has not for a function that is given arrays": Mistake(
        train_dataset(feed={"dtypes": {"*": "bfloat16"}, "collate": {"use": "a:b"}}),
        'spec.data.datasets.train.feed.dtypes.*: got "bfloat16"; expected no bfloat16 with '
        "feed.collate, whose function gets NumPy arrays",
    ),
    "a function of batches where a matrix is made": Mistake(
        train_dataset(feed={"collate": {"use": "a:b"}}) | {"framework": "xgboost"},
        'spec.data.datasets.train.feed.collate: got {"use": "a:b", "options": {}, "init": {}}; '
        "expected no value with framework xgboost: a matrix of numbers is made of all columns of "
        "rows",
    ),
    "a precision that Keras sets by itself": Mistake(
        {"framework": "tensorflow", "precision": "bfloat16"},
        'spec.precision: got "bfloat16"; expected no value with framework tensorflow: a program of '
        "Keras sets it by tf.keras.mixed_precision",
    ),
    "an unknown read format": Mistake(
        train_dataset(read={"format": "xls", "path": "x"}),
        'spec.data.datasets.train.read.format: got "xls"; expected one of parquet, csv, json, '
        "text, images, binary, numpy, tfrecords, webdataset, audio, video, lance, delta, iceberg",
    ),
    "a transform of no kind": Mistake(
        train_dataset(transforms=[{"use": "a:b", "kind": "sort"}]),
        'spec.data.datasets.train.transforms[0].kind: got "sort"; expected one of batches, rows, '
        "filter, groups",
    ),
    "a framework nobody knows": Mistake(
        {"framework": "jax"},
        'spec.framework: got "jax"; expected one of torch, xgboost, tensorflow',
    ),
    "a text for a number": Mistake(
        {"batchSize": "lots"},
        'spec.batchSize: got "lots"; expected an integer >= 1 and <= 2147483647',
    ),
    "a number in quotes": Mistake(
        {"epochs": "3"}, 'spec.epochs: got "3"; expected an integer >= 1 and <= 2147483647'
    ),
    "a truth value for a number": Mistake(
        {"workers": {"count": True}},
        "spec.workers.count: got true; expected an integer >= 1 and <= 2147483647",
    ),
    "a fraction for an integer": Mistake(
        {"epochs": 1.5}, "spec.epochs: got 1.5; expected an integer >= 1 and <= 2147483647"
    ),
    "a number below the bound": Mistake(
        {"epochs": 0}, "spec.epochs: got 0; expected an integer >= 1 and <= 2147483647"
    ),
    "a seed no generator takes": Mistake(
        {"seed": 2**32}, "spec.seed: got 4294967296; expected an integer >= 0 and <= 4294967295"
    ),
    "a text for a truth value": Mistake(
        {"reproducible": "on"}, 'spec.reproducible: got "on"; expected true or false'
    ),
    "a number as environment variable": Mistake(
        {"env": {"A": 1}}, "spec.env.A: got 1; expected a text; put it in quotes"
    ),
    "a truth value as environment variable": Mistake(
        {"env": {"A": True}},
        "spec.env.A: got true; expected a text. YAML takes y, n, yes, no, on and off for truth "
        "values: write them in quotes",
    ),
    "an environment variable of ours": Mistake(
        {"env": {"TRAINSHED_HOME": "/"}},
        "spec.env.TRAINSHED_HOME: set by Trainshed. Choose a name without the prefix TRAINSHED_",
    ),
    "an environment variable no shell takes": Mistake(
        {"env": {"1A": "x"}},
        "spec.env.1A: expected a name of letters, digits and _ that starts with no digit",
    ),
    "a list for a map": Mistake({"config": [1]}, "spec.config: got [1]; expected a map"),
    "a map for a list": Mistake(
        train_dataset(transforms={}), "spec.data.datasets.train.transforms: got {}; expected a list"
    ),
    "no number in the config": Mistake(
        {"config": {"a": [float("nan")]}},
        "spec.config.a[0]: got nan; expected a finite number, JSON has no other",
    ),
    "a function without its module": Mistake(
        {"train": "train"},
        'spec.train: got "train"; expected module:function, such as my_package.my_module:train',
    ),
    "no program": Mistake(
        {"train": None},
        "spec: got neither train nor entrypoint; expected exactly one: train (a function) or "
        "entrypoint (a command)",
    ),
    "two programs": Mistake(
        {"train": "a:b", "entrypoint": ["python"]},
        "spec: got both train and entrypoint; expected exactly one: train (a function) or "
        "entrypoint (a command)",
    ),
    "an empty command": Mistake(
        {"entrypoint": []}, "spec.entrypoint: got []; expected a list that is not empty"
    ),
    "a batch smaller than the workers": Mistake(
        {"batchSize": 2, "workers": {"count": 3}},
        "spec.batchSize: got 2; expected at least workers.count (3): each worker needs a row of "
        "every batch",
    ),
    "no CPU": Mistake(
        {"workers": {"resources": {"cpu": 0}}},
        'spec.workers.resources.cpu: got "0"; expected a Kubernetes quantity above 0 and at most '
        "1M, such as 2 or 500m",
    ),
    "more CPUs than there are": Mistake(
        {"workers": {"resources": {"cpu": 2_000_000}}},
        'spec.workers.resources.cpu: got "2000000"; expected a Kubernetes quantity above 0 and at '
        "most 1M, such as 2 or 500m",
    ),
    "memory without end": Mistake(
        {"workers": {"resources": {"memory": "1e309"}}},
        'spec.workers.resources.memory: got "1e309"; expected a Kubernetes quantity above 0 and at '
        "most 1E, such as 8Gi",
    ),
    "more GPUs than anybody counts": Mistake(
        {"workers": {"resources": {"gpu": 2**31}}},
        "spec.workers.resources.gpu: got 2147483648; expected an integer >= 0 and <= 2147483647",
    ),
    "memory in no known unit": Mistake(
        {"workers": {"resources": {"memory": "8GB"}}},
        'spec.workers.resources.memory: got "8GB"; expected a Kubernetes quantity above 0 and at '
        "most 1E, such as 8Gi",
    ),
    "a dataset without read": Mistake(
        {"data": {"datasets": {"train": {}}}},
        "spec.data.datasets.train.read: missing; expected a map",
    ),
    "a read of two kinds": Mistake(
        train_dataset(read=READ | {"use": "a:b"}),
        "spec.data.datasets.train.read: got format and use; expected exactly one: format (with "
        "path), use, reader or mix",
    ),
    "a read of no kind": Mistake(
        train_dataset(read={"path": "x"}),
        "spec.data.datasets.train.read: got none of format, use, reader and mix; expected exactly "
        "one: format (with path), use, reader or mix",
    ),
    "no credentials for a path": Mistake(
        train_dataset(read=READ | {"anonymous": True}),
        "spec.data.datasets.train.read.anonymous: got true; expected no value without a path at "
        "s3://, gs://, abfs://, abfss://, az://",
    ),
    "a payer of another store's requests": Mistake(
        train_dataset(read=READ | {"path": "gs://b/rows", "requesterPays": True}),
        "spec.data.datasets.train.read.requesterPays: got true; expected no value without a path "
        "at s3://",
    ),
    "an endpoint with a path": Mistake(
        train_dataset(read=READ | {"path": "s3://b/rows", "endpoint": "https://x.example/b"}),
        'spec.data.datasets.train.read.endpoint: got "https://x.example/b"; expected a URL of '
        "scheme, host and port, such as https://s3.eu-central-1.amazonaws.com",
    ),
    "a region of a disk": Mistake(
        train_dataset(read=READ | {"region": "eu-x"}),
        'spec.data.datasets.train.read.region: got "eu-x"; expected no value without a path at '
        "s3://",
    ),
    "a cache in no known unit": Mistake(
        train_dataset(read=READ | {"localCache": "20GB"}),
        'spec.data.datasets.train.read.localCache: got "20GB"; expected a Kubernetes quantity '
        "above 0 and at most 1E, such as 8Gi",
    ),
    "a cache of a table": Mistake(
        train_dataset(read={"format": "lance", "path": "s3://b/t", "localCache": "20Gi"}),
        'spec.data.datasets.train.read.localCache: got "20Gi"; expected no value with format '
        "lance, whose log and files are read by ranges",
    ),
    "a mix of what is not there": Mistake(
        {"data": {"datasets": {"train": {"read": {"mix": {"a": 1}}}, "b": make_dataset()}}},
        "spec.data.datasets.train.read.mix.a: got no such dataset; expected one of b",
    ),
    "a mix of a mix": Mistake(
        make_mix(b={"read": {"mix": {"a": 1}}}),
        "spec.data.datasets.train.read.mix.b: got a mix itself; expected one of a",
    ),
    "a weight of nothing": Mistake(
        make_mix(weights={"a": 1, "b": 0}),
        "spec.data.datasets.train.read.mix.b: got 0; expected a number above 0",
    ),
    "a weight that deals nothing": Mistake(
        make_mix(weights={"a": 1, "b": 0.00001}),
        "spec.data.datasets.train.read.mix.b: got 1e-05; expected at least 0.000100001 beside the "
        "others",
    ),
    "a mix with a transform": Mistake(
        make_mix(train={"transforms": [{"use": "m:f"}]}),
        "spec.data.datasets.train.transforms: got 1; expected no value: set it of the datasets "
        "that are mixed",
    ),
    "a mix in an order of files": Mistake(
        make_mix(train={"shuffle": {"mode": "files"}}),
        'spec.data.datasets.train.shuffle.mode: got "files"; expected none, with a bufferSize: '
        "files and blocks are those of the datasets it mixes",
    ),
    "a mix of what is shuffled over all rows": Mistake(
        make_mix(b=make_dataset(shuffle={"mode": "global"})),
        'spec.data.datasets.b.shuffle.mode: got "global"; expected none, files or blocks in a mix, '
        "whose own bufferSize moves single rows",
    ),
    "a mix of what workers keep": Mistake(
        make_mix(b=make_dataset(cache="workers")),
        'spec.data.datasets.b.cache: got "workers"; expected objects, disk, none or auto in a mix: '
        "a worker's rows of it change each epoch",
    ),
    "an epoch of some rows that workers keep": Mistake(
        train_dataset(rowsPerEpoch=10, cache="workers"),
        'spec.data.datasets.train.cache: got "workers"; expected objects, disk, none or auto with '
        "rowsPerEpoch, because an epoch continues where the last one stopped",
    ),
    "a mix of what has epochs and a buffer of its own": Mistake(
        make_mix(b=make_dataset(rowsPerEpoch=9, shuffle={"bufferSize": 50})),
        "spec.data.datasets.b.shuffle.bufferSize: got 50; expected no value in a mix, whose own "
        "bufferSize moves single rows\nspec.data.datasets.b.rowsPerEpoch: got 9; expected no value "
        "in a mix, which takes of each what its weight says",
    ),
    "an epoch of some rows of all, shuffled": Mistake(
        train_dataset(rowsPerEpoch=10, shuffle={"mode": "global"}),
        'spec.data.datasets.train.shuffle.mode: got "global"; expected files or blocks, and a '
        "bufferSize with rowsPerEpoch, because an epoch continues where the last one stopped",
    ),
    "a format without path": Mistake(
        train_dataset(read={"format": "parquet"}),
        "spec.data.datasets.train.read.path: missing; expected the file or folder to read",
    ),
    "columns of a function": Mistake(
        train_dataset(read={"use": "a:b", "columns": ["x"]}),
        'spec.data.datasets.train.read.columns: got ["x"]; expected no value without format',
    ),
    "options of a format": Mistake(
        train_dataset(read=READ | {"options": {"x": 1}}),
        "spec.data.datasets.train.read.options.x: unknown option; format parquet has no options",
    ),
    "an unknown option of a format": Mistake(
        train_dataset(read={"format": "csv", "path": "x", "options": {"sep": ";"}}),
        "spec.data.datasets.train.read.options.sep: unknown option; format csv has delimiter, "
        "quote, escape, comment, decimal, nullValues, encoding, header, names, types, multiline",
    ),
    "a wrong option of a format": Mistake(
        train_dataset(read={"format": "csv", "path": "x", "options": {"delimiter": ";;"}}),
        'spec.data.datasets.train.read.options.delimiter: got ";;"; expected string should have at '
        "most 1 character",
    ),
    "options of a mix": Mistake(
        train_dataset(read={"mix": {"a": 1.0}, "options": {"x": 1}}),
        'spec.data.datasets.train.read.options: got {"x": 1}; expected it without mix',
    ),
    "a batch size for single rows": Mistake(
        train_dataset(transforms=[{"use": "a:b", "kind": "rows", "batchSize": 8}]),
        "spec.data.datasets.train.transforms[0].batchSize: got 8; expected no value without kind "
        "batches or filter",
    ),
    "single rows as a table": Mistake(
        train_dataset(transforms=[{"use": "a:b", "kind": "rows", "batchFormat": "pandas"}]),
        'spec.data.datasets.train.transforms[0].batchFormat: got "pandas"; expected no value with '
        "kind rows, which are dicts; or another kind",
    ),
    "a format that nobody has": Mistake(
        train_dataset(transforms=[{"use": "a:b", "batchFormat": "polars"}]),
        'spec.data.datasets.train.transforms[0].batchFormat: got "polars"; expected one of numpy, '
        "pandas, pyarrow",
    ),
    "groups of nothing": Mistake(
        train_dataset(transforms=[{"use": "a:b", "kind": "groups"}]),
        "spec.data.datasets.train.transforms[0].by: missing; expected the columns that make a "
        "group",
    ),
    "an order without groups": Mistake(
        train_dataset(transforms=[{"use": "a:b", "by": ["user"], "orderBy": ["time"]}]),
        'spec.data.datasets.train.transforms[0].by: got ["user"]; expected no value without kind '
        'groups\nspec.data.datasets.train.transforms[0].orderBy: got ["time"]; expected no value '
        "without kind groups",
    ),
    "groups that are kept nowhere": Mistake(
        train_dataset(transforms=[GROUPS], cache="none"),
        'spec.data.datasets.train.cache: got "none"; expected objects, disk, workers or auto with '
        "transforms of kind groups: a group has rows of all files, and is made once",
    ),
    "more CPUs for a task than for all": Mistake(
        {"data": make_data(make_dataset(task={"cpus": 3}), cpus=2)},
        "spec.data.datasets.train.task.cpus: got 3; expected at most the 2 of data.cpus, which all "
        "tasks share",
    ),
    "a task of a mix": Mistake(
        make_mix(train={"task": {"cpus": 2}}),
        "spec.data.datasets.train.task: got 2 CPUs; expected no value: set it of the datasets that "
        "are mixed",
    ),
    "a buffer that mixes nothing": Mistake(
        train_dataset(shuffle={"mode": "local", "bufferSize": 1}),
        "spec.data.datasets.train.shuffle.bufferSize: got 1; expected at least 2 with mode local, "
        "or mode none",
    ),
    "workers keep rows that change each epoch": Mistake(
        train_dataset(cache="workers", shuffle={"mode": "global"}),
        'spec.data.datasets.train.cache: got "workers"; expected objects, disk, none or auto with '
        "shuffle mode global: the rows of a worker change each epoch",
    ),
    "a dataset's name with a dot": Mistake(
        {"data": {"datasets": {"a.b": make_dataset()}}},
        "spec.data.datasets.a.b: a dataset's name is a letter, then letters, digits, - or _",
    ),
    "a type no tensor has": Mistake(
        train_dataset(feed={"dtypes": {"x": "float"}}),
        'spec.data.datasets.train.feed.dtypes.x: got "float"; expected one of bool, uint8, int8, '
        "int16, int32, int64, float16, bfloat16, float32, float64",
    ),
    "a best checkpoint by no rule": Mistake(
        {"checkpoint": {"best": {"metric": "loss"}}},
        "spec.checkpoint.best.mode: missing; expected one of max, min",
    ),
    "an empty storage": Mistake(
        {"storage": ""}, 'spec.storage: got ""; expected a text that is not empty'
    ),
    "a group no label can name": Mistake(
        {"workers": {"group": "a b"}},
        'spec.workers.group: got "a b"; expected a label value such as gpu',
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_said_with_field_value_and_remedy(case: str) -> None:
    spec, want = MISTAKES[case]

    with pytest.raises(SpecError) as caught:
        make_run(**spec)

    assert str(caught.value) == want


@pytest.mark.parametrize(
    "field",
    [
        {"data": {}},
        {"config": {}},
        {"epochs": 3},
        {"batchSize": 64},
        {"precision": "float32"},
        {"checkpoint": {}},
    ],
)
def test_entrypoint_takes_nothing_that_it_has_as_an_argument(field: Document) -> None:
    with pytest.raises(
        SpecError, match=rf"^spec\.{next(iter(field))}: got .* no value without train"
    ):
        make_run(entrypoint=["python", "train.py"], **field)


HEADS: dict[str, tuple[Document, str]] = {
    "another version": (
        {"apiVersion": "trainshed.dev/v2"},
        'apiVersion: got "trainshed.dev/v2"; expected trainshed.dev/v1alpha1',
    ),
    "another kind": ({"kind": "RayJob"}, 'kind: got "RayJob"; expected TrainingRun'),
    "a name no Service can have": (
        {"metadata": {"name": "1digits"}},
        'metadata.name: got "1digits"; expected at most 40 of a-z, 0-9 and -, a letter first and '
        "no - last",
    ),
    "a name too long for its children": (
        {"metadata": {"name": "a" * 41}},
        f'metadata.name: got "{"a" * 41}"; expected at most 40 of a-z, 0-9 and -, a letter first '
        "and no - last",
    ),
    "no name": (
        {"metadata": {}},
        "metadata.name: missing; expected at most 40 of a-z, 0-9 and -, a letter first and no - "
        "last",
    ),
    "a field beside spec": ({"specs": {}}, 'specs: unknown field; did you mean "spec"?'),
}


@pytest.mark.parametrize("case", HEADS)
def test_mistake_outside_the_spec_is_said_too(case: str) -> None:
    change, want = HEADS[case]

    with pytest.raises(SpecError) as caught:
        validate_document(make_document() | change, "run.yaml")

    assert str(caught.value) == want


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        make_run(epochs=0, sed=3)

    assert [problem.field for problem in caught.value.problems] == ["spec.epochs", "spec.sed"]


TEXTS: dict[str, tuple[str, str]] = {
    "two documents": (
        "a: 1\n---\nb: 2",
        "x.yaml: got 2 documents; expected exactly one TrainingRun",
    ),
    "an empty file": ("# nothing\n", "x.yaml: got an empty file; expected exactly one TrainingRun"),
    "a list": ("- a", 'x.yaml: got ["a"]; expected a TrainingRun object'),
}


@pytest.mark.parametrize("case", TEXTS)
def test_file_that_is_no_single_object_is_refused(case: str) -> None:
    text, want = TEXTS[case]

    with pytest.raises(SpecError) as caught:
        load_document(text, "x.yaml")

    assert str(caught.value) == want


def test_empty_documents_do_not_count() -> None:
    assert load_document("---\n# first\n---\na: 1\n---\n", "x.yaml") == {"a": 1}


def test_json_may_be_indented_by_tabs() -> None:
    assert load_document('{\n\t"a":\t5.0}', "x.json") == {"a": 5}


def test_file_is_read_with_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(make_document(epochs=5)))

    assert load_file(file, ["spec.epochs=2", "spec.config.rate = 1e-3"]).spec.to_dict() == (
        make_run(epochs=2, config={"rate": 0.001}).spec.to_dict()
    )


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nowhere\.yaml: No such file or directory"):
        load_file(tmp_path / "nowhere.yaml")


def test_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes(b"\xff\xfe")

    with pytest.raises(SpecError, match="expected a text file in UTF-8"):
        load_file(tmp_path / "run.yaml")


SETTINGS: dict[str, tuple[str, str, Document]] = {
    "a number": ("spec.rate", "1e-3", {"spec": {"rate": 0.001, "list": [{"a": 1}]}}),
    "a list": ("spec.list", "[1, x]", {"spec": {"list": [1, "x"]}}),
    "nothing": ("spec.list", "", {"spec": {"list": None}}),
    "an item of a list": ("spec.list[0].a", "2", {"spec": {"list": [{"a": 2}]}}),
    "maps on the way": ("b.c.d", "on", {"spec": {"list": [{"a": 1}]}, "b": {"c": {"d": True}}}),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_setting_replaces_one_value(case: str) -> None:
    path, text, want = SETTINGS[case]

    assert set_value({"spec": {"list": [{"a": 1}]}}, path, text) == want


@pytest.mark.parametrize(("text", "want"), [(",", ","), ("#", "#"), ("~", None), ("a", "a")])
def test_a_sign_alone_is_a_text(text: str, want: str | None) -> None:
    """YAML takes `#` for a comment, and a comma for a mistake."""
    assert set_value({}, "comment", text) == {"comment": want}


WRONG_SETTINGS: dict[str, tuple[str, str]] = {
    "no value": ("spec.epochs", '--set: got "spec.epochs"; expected path=value'),
    "no path": (
        "spec..a=1",
        '--set: got "spec..a"; expected a path such as spec.config.learningRate',
    ),
    "an item that is not there": (
        "spec.entrypoint[7]=x",
        "spec.entrypoint[7]: got [7] of a list of 1; expected an item that exists",
    ),
    "the item after the last": (
        "spec.entrypoint[1]=x",
        "spec.entrypoint[1]: got [1] of a list of 1; expected an item that exists",
    ),
    "an item of no list": (
        "spec.env[0]=x",
        "spec.env[0]: got [0] of no list; expected an item that exists",
    ),
    "a field of no map": (
        "kind.a=x",
        'kind.a: got a of "TrainingRun"; expected a map to put it in',
    ),
    "a field nobody has": ("spec.sed=1", 'spec.sed: unknown field; did you mean "seed"?'),
}


@pytest.mark.parametrize("case", WRONG_SETTINGS)
def test_wrong_setting_is_said(case: str) -> None:
    setting, want = WRONG_SETTINGS[case]
    text = json.dumps(make_document(entrypoint=["python"]))

    with pytest.raises(SpecError) as caught:
        load_text(text, "run.json", [setting])

    assert str(caught.value) == want


def test_setting_leaves_the_document_as_it_was() -> None:
    document = make_document(config={"a": 1})

    set_value(document, "spec.config.a", "2")

    assert document == make_document(config={"a": 1})


# JSON as the API server hands it back; beyond int64 it has floats.
TEXTS_OF_FILES = st.text("aé0 1e-:#'\"\n\t~{}", max_size=6)
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS_OF_FILES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS_OF_FILES, inner, max_size=3),
    max_leaves=8,
)
SPECS = st.fixed_dictionaries(
    {
        "config": st.dictionaries(st.text("abc", min_size=1), JSON_VALUES, max_size=3),
        "batchSize": st.integers(8, 512) | st.sampled_from([8.0, 64.0]),
        "seed": st.integers(0, 2**32 - 1),
        "precision": st.sampled_from(["float32", "bfloat16"]),
        "workers": st.fixed_dictionaries(
            {
                "count": st.integers(1, 8),
                "resources": st.fixed_dictionaries(
                    {"cpu": st.sampled_from([1, "0.5", "500m", 2.0])}
                ),
            }
        ),
    },
    optional={
        "epochs": st.integers(1, 9),
        "checkpoint": st.just({"best": {"metric": "loss", "mode": "min"}}),
        "data": st.sampled_from(
            [make_data(), make_data(make_dataset(shuffle={"mode": "local", "bufferSize": 9}))]
        ),
    },
)


class QuotingDumper(yaml.SafeDumper):
    """Quotes all text: PyYAML leaves `y` and `0e0` bare, which are no text to kubectl."""


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


QuotingDumper.add_representer(str, _quoted)


@given(SPECS)
@example({"config": {"a": {"0e0": None, "y": "on"}}})
def test_run_written_to_a_file_is_read_back_the_same(spec: Document) -> None:
    run = make_run(**spec)

    assert load_text(json.dumps(run.to_dict()), "run.json") == run
    assert load_text(yaml.dump(run.to_dict(), Dumper=QuotingDumper), "run.yaml") == run


def test_entrypoint_written_to_a_file_is_read_back_the_same() -> None:
    run = make_run(entrypoint=["python", "train.py"], workers={"count": 99})

    assert load_text(json.dumps(run.to_dict()), "run.json") == run


def nested(levels: int) -> JsonValue:
    """Return a map in a map in a map."""
    value: JsonValue = 1
    for _ in range(levels):
        value = {"a": value}
    return value


DEEP = {
    "JSON": '{"apiVersion": "trainshed.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": '
    '"digits"}, "spec": {"train": "m:f", "config": ' + '{"a": ' * 1500 + "1" + "}" * 1502,
    "JSON that Python still reads": '{"a": {"b": ' + '{"a": ' * 300 + "1" + "}" * 302,
    "YAML in flow style": "spec: {config: " + "[" * 1500 + "]" * 1500 + "}",
    "YAML in block style": "\n".join(" " * n + "a:" for n in range(300)),
    "a list in a list": "[" * 1500 + "]" * 1500,
}


@pytest.mark.parametrize("case", DEEP)
def test_a_text_that_is_nested_too_deep_is_refused(case: str) -> None:
    with pytest.raises(SpecError, match=r"nested too deep; expected at most 100 maps and lists"):
        load_text(DEEP[case], "run.yaml")


@pytest.mark.parametrize("levels", [99, 300, 1500, 100_000])
def test_an_object_that_is_nested_too_deep_is_refused_by_its_field(levels: int) -> None:
    config: JsonValue = {"a": nested(levels)}
    document = make_document()
    document["spec"] = {"train": "m:f", "config": config}

    with pytest.raises(SpecError) as refusal:
        validate_document(document, "server")

    assert str(refusal.value) == (
        "spec.config: nested too deep; expected at most 100 maps and lists inside each other"
    )


def test_an_object_that_is_nested_as_deep_as_it_may_is_taken() -> None:
    config = nested(98)
    assert isinstance(config, dict)

    assert make_run(config=config).spec.config == config


def test_a_setting_may_not_lead_deeper_than_a_document() -> None:
    with pytest.raises(
        SpecError, match=r"--set: got .* expected a path of at most 100 maps and lists"
    ):
        set_value(make_document(), "spec.config" + ".a" * 1500, "1")
    with pytest.raises(SpecError, match=r"--set spec\.config\.a: nested too deep"):
        set_value(make_document(), "spec.config.a", "[" * 300 + "]" * 300)
