"""Predictions by workers of a Ray cluster: Ray Data gives each one fragments, and it writes files.

A worker that is lost loses the fragment that it was at; another one predicts it again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import ray.data
from ray.data import ActorPoolStrategy

from trainshed.data.sources.errors import as_fault, raise_again
from trainshed.failures import InfrastructureError, causes
from trainshed.inspect.inputs import SOURCE
from trainshed.predict.batch_prediction import BatchPrediction
from trainshed.predict.part_folder import stale_files
from trainshed.predict.trained_model import load_model
from trainshed.ray_compat.execution import configure
from trainshed.ray_compat.logs import quiet
from trainshed_api.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from ray.data import Dataset

    from trainshed.data.sources.column_arrays import Array
    from trainshed.inspect.inputs import RowInput
    from trainshed.predict.part_folder import PartFolder


# Ray Data repeats a part, and restarts a worker, without limit. A part may be what ends its worker.
MOST_RETRIES, MOST_RESTARTS = 3, 16


@dataclass(frozen=True)
class WorkerInput:
    """What a worker needs to predict fragments.

    Args:
        checkpoint: address of the model.
        given: the rows.
        batch_rows: rows of a batch.
        with_scores: whether to include the scores of all classes.
        code: folder of the user's modules.
        has_gpu: whether the worker has a GPU for the model.
    """

    checkpoint: str
    given: RowInput
    batch_rows: int
    with_scores: bool
    code: str
    has_gpu: bool

    def load(self) -> BatchPrediction:
        """Return the prediction, with the model in this process."""
        if self.code not in sys.path:
            sys.path.insert(0, self.code)
        # Without a GPU from Ray it may still see those of the machine, which others use.
        model = load_model(self.checkpoint, None if self.has_gpu else "cpu")
        return BatchPrediction(model, self.given, self.batch_rows, with_scores=self.with_scores)


@dataclass(frozen=True)
class PredictionProgress:
    """How far a prediction is; `rows` are those of this call."""

    files: int
    all_files: int
    rows: int


def predict_on_ray(
    wanted: WorkerInput,
    output: PartFolder,
    workers: int,
    told: Callable[[PredictionProgress], None],
) -> int:
    """Write the files that are missing, by workers of the Ray that this process has joined.

    Args:
        wanted: what to predict.
        output: begun.
        workers: at most so many, each with one CPU, and with one GPU if the input says so.
        told: called with each file that is written.

    Returns:
        Rows that this call has predicted.

    Raises:
        SpecError: if a worker cannot read the model, or writes where this process does not read.
        DataError: if rows cannot be read or predicted.
        InfrastructureError: if a retry may succeed, as after a worker that was lost; it names the
            first file of rows that is not predicted.
    """
    # The caller reports a failure, so Ray's log of it is not needed.
    quiet("ray.data", logging.CRITICAL)
    configure(workers, {})
    missing, count = output.missing(), len(wanted.given.fragments)
    rows = 0
    with _faults(wanted, output):
        if missing:
            with warnings.catch_warnings():
                # No other parameter of this release of Ray limits how often it tries.
                warnings.filterwarnings("ignore", "`ray_remote_args` is deprecated")
                dataset = _items([{"part": number} for number in missing]).map_batches(
                    FragmentWriter,
                    fn_constructor_args=(wanted, output),
                    batch_size=1,
                    num_cpus=1,
                    num_gpus=int(wanted.has_gpu),
                    max_task_retries=MOST_RETRIES,
                    max_restarts=MOST_RESTARTS,
                    compute=ActorPoolStrategy(min_size=1, max_size=workers),
                )
            for done, batch in enumerate(_batches(dataset), count - len(missing) + 1):
                rows += int(batch["rows"][0])
                told(PredictionProgress(done, count, rows))
        output.check_complete()
        _cast_stale(output)
    output.finish()
    return rows


def _cast_stale(output: PartFolder) -> None:
    """Give all Parquet files the same types, as readers of a folder expect."""
    names, schema = stale_files(output.schemas())
    if names:
        cast_one = functools.partial(_cast, output, schema)
        for _ in _batches(_items([{"name": name} for name in names]).map_batches(cast_one)):
            pass


def _cast(output: PartFolder, schema: pa.Schema, batch: Mapping[str, Array]) -> dict[str, Array]:
    for name in batch["name"]:
        output.cast(str(name), schema)
    return {"rows": np.zeros(1)}


class FragmentWriter:
    """Predicts fragments in a worker. The first one loads the model: Ray Data starts a worker
    whose constructor fails again and again.

    Args:
        wanted: what to predict.
        output: for the files.
    """

    def __init__(self, wanted: WorkerInput, output: PartFolder) -> None:
        self._wanted = wanted
        self._output = output

    def __call__(self, batch: Mapping[str, Array]) -> dict[str, Array]:
        """Write the file of a fragment and return its rows."""
        number = int(batch["part"][0])
        fragment = self._prediction.fragments[number]
        rows = self._output.write(number, self._prediction.of_fragment(fragment))
        return {"rows": np.array([rows])}

    @functools.cached_property
    def _prediction(self) -> BatchPrediction:
        return self._wanted.load()


def _items(rows: list[dict[str, object]]) -> Dataset:
    """Return a dataset with a block for each row."""
    return cast("Dataset", ray.data.from_items(rows, override_num_blocks=len(rows)))


def _batches(dataset: Dataset) -> Iterator[Mapping[str, Array]]:
    """Yield the block of each row as soon as it is there."""
    found: Iterator[Mapping[str, Array]] = dataset.iter_batches(
        batch_size=None, batch_format="numpy", prefetch_batches=0
    ).__iter__()
    return found


@contextlib.contextmanager
def _faults(wanted: WorkerInput, output: PartFolder) -> Iterator[None]:
    """Raise the cause without the exceptions that Ray wraps around it."""
    try:
        yield
    except Exception as error:  # a user's function may raise anything
        for each in causes(error):
            if isinstance(each, SpecError):
                raise each from None
        fault = as_fault(error, SOURCE)
        if isinstance(fault, InfrastructureError) and fault.kind in ("node", "killed"):
            first = wanted.given.fragments[min(output.missing(), default=0)].path
            told = f"{fault}. The first file that is not predicted is {first}"
            fault = InfrastructureError(told, fault.kind)
        raise_again(fault)
