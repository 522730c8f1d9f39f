"""Runs that are wrong, what lies beside them, and what is said of each."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import JsonValue

from tests.app.builders_checkpoint import write_checkpoint
from tests.app.ray_run import write_run
from trainshed.attempt.provenance import run_record
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.storage.run_folder import RECORD
from trainshed_api.loading import load_file

Spec = dict[str, JsonValue]
CPUS = len(os.sched_getaffinity(0))


def make_spec(**changes: JsonValue) -> Spec:
    """Return a spec that is in order, with changes."""
    spec: Spec = {
        "train": "users_module:train",
        "epochs": 1,
        "batchSize": 20,
        "workers": {"count": 1, "resources": {"cpu": "500m"}},
        "data": make_data(),
    }
    return spec | changes


def make_data(path: str = "rows", **dataset: JsonValue) -> Spec:
    """Return the data section with columns x and y of a folder; dataset fields on top."""
    read: Spec = {"format": "parquet", "path": path, "columns": ["x", "y"]}
    return {"cpus": 1, "datasets": {"train": {"read": read, **dataset}}}


def workers(**resources: JsonValue) -> Spec:
    """Return one worker with these resources."""
    return {"count": 1, "resources": {"cpu": "500m", **resources}}


# ------------------------------------------------- what else is there besides


def write_function_of_two(folder: Path) -> None:
    (folder / "users_module.py").write_text("def train(config, data): ...\n")


def add_text_file(folder: Path) -> None:
    (folder / "rows" / "part-9.parquet").write_text("x,y\n1,2\n")


def add_names(folder: Path) -> None:
    (folder / "names").mkdir()
    table = pa.table({"x": ["one", "two"] * 20, "y": [1.0, 2.0] * 20})
    pq.write_table(table, folder / "names" / "part.parquet")


def add_gaps(folder: Path) -> None:
    (folder / "gaps").mkdir()
    table = pa.table({"x": [1, None] * 10, "y": [1.0, 2.0] * 10})
    pq.write_table(table, folder / "gaps" / "part.parquet")


def add_locked_storage(folder: Path) -> None:
    (folder / "locked").mkdir(mode=0o500)


def add_another_run(folder: Path) -> None:
    """Leave what a run with another seed and config left."""
    file = write_run(folder, "test", **make_spec(seed=1, config={"rate": 0.1}))
    prepared = prepare(load_file(file), RunLocation(Disk(folder)))
    prepared.folder.claim(prepared.spec_hash, fresh=False).close()
    record = run_record(prepared, folder, started=0.0)
    prepared.folder.at.write(RECORD, record.model_dump_json(by_alias=True).encode())
    write_checkpoint(prepared.folder.checkpoints(1))


def add_broken_checkpoint(folder: Path) -> None:
    write_checkpoint(Disk(folder / "old")).write("model.pt", b"short")


def nothing(folder: Path) -> None:
    """Leave it as it is."""


# ---------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A wrong run: its spec, what lies beside it, further words, and what is said."""

    spec: Spec
    want: list[str]
    before: Callable[[Path], None] = nothing
    words: list[str] = field(default_factory=list)
    not_as_root: str = ""


CASES: dict[str, Case] = {
    # ------------------------------------------------------------- the fields
    "a misspelt field": Case(
        make_spec(batchsize=8), ['spec.batchsize: unknown field; did you mean "batchSize"?']
    ),
    "a setting on the command line that no field has": Case(
        make_spec(),
        ['spec.seeed: unknown field; did you mean "seed"?'],
        words=["--set", "spec.seeed=3"],
    ),
    # --------------------------------------------------------------- the data
    "a batch larger than the data": Case(
        make_spec(batchSize=61),
        ["spec.batchSize: got 61; expected at most the 60 rows of", "or feed.lastBatch: keep"],
    ),
    "a mix of rows with other columns": Case(
        make_spec(
            data={
                "datasets": {
                    "train": {"read": {"mix": {"all": 1, "some": 1}}},
                    "all": {"read": {"format": "parquet", "path": "rows"}},
                    "some": {"read": {"format": "parquet", "path": "rows", "columns": ["x"]}},
                }
            }
        ),
        [
            "spec.data.datasets.train.read.mix.some: got columns x float32[4]; expected those of "
            "all, row int64, x float32[4], y float32: rows of a mix go into one batch"
        ],
    ),
    "a missing column": Case(
        make_spec(
            data={
                "datasets": {
                    "train": {"read": {"format": "parquet", "path": "rows", "columns": ["label"]}}
                }
            }
        ),
        ["test.yaml:1: spec.data.datasets.train.read.columns: got label; expected one of x, y"],
    ),
    "a file that is no parquet": Case(
        make_spec(),
        [
            "spec.data.datasets.train.read.path: got FOLDER/rows/part-9.parquet; expected a "
            "parquet file. Write it again, or set read.format. Reported: "
        ],
        add_text_file,
    ),
    "a type for a column that is not read": Case(
        make_spec(data=make_data(feed={"dtypes": {"row": "int32"}})),
        [
            'spec.data.datasets.train.feed.dtypes.row: there is no column "row"; expected one of '
            "x, y"
        ],
    ),
    "a value that the type asked for cannot hold": Case(
        make_spec(data=make_data("gaps", feed={"dtypes": {"x": "int64"}})),
        [
            "spec.data.datasets.train.feed.dtypes.x: column x, row 1 of ",
            "gaps/part.parquet: got nan; expected a number, as int64 has none for a missing value.",
        ],
        add_gaps,
    ),
    "a transform that fails on the first rows": Case(
        make_spec(data=make_data(transforms=[{"use": "users_module:fail"}])),
        [
            "test.yaml:1: spec.data.datasets.train.transforms[0].use: ",
            "users_module:fail raised KeyError: 'z'",
        ],
    ),
    "a transform that is not there": Case(
        make_spec(data=make_data(transforms=[{"use": "users_module:resize"}])),
        [
            "transforms[0].use: got users_module:resize; expected a name in users_module; it has: "
            "fail,"
        ],
    ),
    "a function of batches that is not there": Case(
        make_spec(data=make_data(feed={"collate": {"use": "users_module:pad"}})),
        [
            "spec.data.datasets.train.feed.collate.use: got users_module:pad; expected a name in "
            "users_module; it has: fail,"
        ],
    ),
    "arguments of a function of batches that is no class": Case(
        make_spec(data=make_data(feed={"collate": {"use": "users_module:fail", "init": {"a": 1}}})),
        [
            "spec.data.datasets.train.feed.collate.init: got a; expected no value, as "
            "users_module:fa"
        ],
    ),
    "a function of batches that fails on the first rows": Case(
        make_spec(data=make_data("names", feed={"collate": {"use": "users_module:fail"}})),
        [
            "test.yaml:1: spec.data.datasets.train.feed.collate.use: ",
            "users_module:fail raised KeyError: 'z'",
        ],
        add_names,
    ),
    # ------------------------------------------------------------ the function
    "a forgotten framework": Case(
        make_spec(train="trainshed.programs.boosted_trees:train", config={"features": ["x"]}),
        [
            "spec.framework: got torch; expected xgboost, as "
            "trainshed.programs.boosted_trees:train uses trainshed.boosting",
        ],
    ),
    "a function that needs two arguments": Case(
        make_spec(),
        ["spec.train: got users_module:train(config, data); expected a function with no argument"],
        write_function_of_two,
    ),
    "a config that the program refuses": Case(
        make_spec(train="trainshed.programs.vision:train", config={"model": "vit", "pach": 2}),
        ['spec.config.pach: unknown field; did you mean "patch"?'],
    ),
    "a script that is not there": Case(
        {"entrypoint": ["python", "train.py"]},
        ['spec.entrypoint[1]: got "train.py"; expected a file in FOLDER'],
    ),
    # ------------------------------------------------------------- the machine
    "more workers than the machine has CPUs": Case(
        make_spec(workers={"count": CPUS + 1, "resources": {"cpu": 1}}, batchSize=CPUS + 1),
        [
            f"spec.workers: got {CPUS + 1} workers x 1 CPUs = {CPUS + 1}; expected at most the "
            f"{CPUS} CPUs of this machine"
        ],
    ),
    # ------------------------------------------------------------- the storage
    "storage below a file": Case(
        make_spec(storage="users_module.py/runs"),
        ["spec.storage: got FOLDER/users_module.py; expected a folder; this is a file"],
    ),
    "storage that may only be read": Case(
        make_spec(storage="locked/runs"),
        ["spec.storage: got FOLDER/locked; expected a folder that you may write to"],
        add_locked_storage,
        not_as_root="root may write everywhere",
    ),
    "storage that holds another run": Case(
        make_spec(),
        [
            "spec: got another spec than FOLDER/runs/local/test holds; expected",
            "--fresh to start over",
            "spec.seed: 1 -> 0",
            "spec.config.rate: 0.1 -> (not set)",
        ],
        add_another_run,
    ),
    "a checkpoint that is not there": Case(
        make_spec(checkpoint={"resume": "old/checkpoint_7"}),
        ["spec.checkpoint.resume: got FOLDER/old/checkpoint_7; expected latest, never, or "],
    ),
    "a checkpoint that is not whole": Case(
        make_spec(checkpoint={"resume": "old/checkpoint_000000010_epoch0001"}),
        ["spec.checkpoint.resume: got", "model.pt has 5 of"],
        add_broken_checkpoint,
    ),
}
