"""Keras's steps on a dataset that is not the main one resume where they stopped; no Ray."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from ray.train.v2._internal.execution.train_fn_utils import set_train_fn_utils

from tests.app.builders_rows import write_rows
from tests.app.checkpoint.wrapped_training import Functions
from tests.app.failing_runs import make_spec
from tests.app.worker.ranks import on_ranks
from tests.builders import make_run
from trainshed import frameworks
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.coordinator.actor import Coordinator
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.worker.attempt_config import AttemptConfig
from trainshed.worker.process import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue


pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]

Columns = dict[str, np.ndarray]
# A checkpoint is written after each second step.
BROKEN_AT, RESUMED_AT = 4, 2


def make_two(home: Path) -> AttemptConfig:
    """Return a job of two epochs with two datasets of different lengths."""
    datasets: dict[str, JsonValue] = {}
    for name, rows in (("train", 40), ("other", 56)):
        write_rows(home / name, rows)
        read: JsonValue = {"format": "parquet", "path": name}
        datasets[name] = {"read": read, "shuffle": {"mode": "global"}}
    spec = make_spec(
        train=f"{__name__}:train",
        config={},
        epochs=2,
        batchSize=8,
        framework="tensorflow",
        data={"cpus": 1, "datasets": datasets},
    )
    prepared = prepare(make_run(**spec), RunLocation(Disk(home)))
    launch = Launch(prepared, RunLocation(Disk(home)), None, [], started=0.0)
    return make_job(launch, prepared.folder.claim(prepared.spec_hash, False))


def train(config: dict[str, object]) -> None:
    """Fit to the second dataset, and break before a batch where told to."""
    import tensorflow as tf

    import trainshed.keras

    run = trainshed.keras.current()
    with run.strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.SGD(0.01), "mse")
    run.track(model)
    see = cast("Callable[[list[int]], int]", config["see"])

    def pair(columns: Columns) -> tuple[object, object]:
        if see(columns["row"].tolist()) == config["broken_at"]:
            run._loop.saver.wait()
            raise RuntimeError("BrokenError")
        return columns["x"], columns["y"]

    run.fit(pair, dataset="other")


def make_attempts(job: AttemptConfig, rank: int) -> list[list[list[int]]]:
    """Return the rows of each batch in a broken attempt, the next one, and a run of its own."""
    seen: list[list[list[int]]] = []
    for name, broken_at in (("stopped", BROKEN_AT), ("stopped", -1), ("undisturbed", -1)):
        here, batches = replace(job, folder=job.folder / name), list[list[int]]()
        seen.append(batches)

        def see(rows: list[int], batches: list[list[int]] = batches) -> int:
            batches.append(rows)
            return len(batches)

        assert here.folder.path
        here.folder.path.mkdir(parents=True, exist_ok=True)
        set_train_fn_utils(Functions(here.folder.path, rank))
        worker = Worker(here, Coordinator(0.0), frameworks.named("tensorflow"))
        try:
            worker({"broken_at": broken_at, "see": see})
        except Exception as error:
            if "BrokenError" not in str(error):
                raise
    return seen


def test_a_fit_to_another_dataset_resumes_at_that_very_step(tmp_path: Path) -> None:
    job = make_two(tmp_path)
    ((begun, resumed, undisturbed),) = on_ranks(1, tmp_path, partial(make_attempts, job), 400)

    assert len(begun) == BROKEN_AT
    assert begun[:RESUMED_AT] + resumed == undisturbed
