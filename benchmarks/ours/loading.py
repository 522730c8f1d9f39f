"""Measures epochs of our loaders, whose batches a rank takes without training on them."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

from benchmarks.ours import feeding
from benchmarks.plain.case import SIZE, Case
from benchmarks.trainingrun import document
from trainshed.coordinator import start as coordinator
from trainshed.coordinator.client import handle_of
from trainshed.coordinator.stage_rates import Means
from trainshed.data.loader.data_server import ExecutionLimits
from trainshed.data.sources.local_cache import folder_here
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.v1alpha1 import TrainingRunResource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue
    from ray.actor import ActorHandle

    from trainshed.coordinator.actor import Coordinator
    from trainshed.planning.preflight import Prepared

STORE_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Loader:
    """How a dataset is loaded: CPUs for data, and `cache`."""

    cpus: int
    cache: str


LOADERS = {
    "by default": Loader(2, "auto"),
    "streamed, 1 CPU": Loader(1, "none"),
    "streamed, 2 CPUs": Loader(2, "none"),
    "cached": Loader(2, "objects"),
}


def make_dataset(case: Case, path: str, cache: str, local_cache: str = "") -> dict[str, JsonValue]:
    """Return a dataset of a spec.

    Args:
        case: files and the work on their rows.
        path: folder or address of the files.
        cache: of the dataset.
        local_cache: `read.localCache`; empty for none.
    """
    column, form = "x", case.format
    first: list[JsonValue] = []
    if form == "jpeg":
        column, form = "image", "images"
        first = [{"use": "trainshed.transforms:decode_image", "options": {"size": SIZE}}]
    elif form == "csv":
        first = [{"use": "benchmarks.ours.transforms:stack_columns"}]
    work: JsonValue = {"column": column, "rounds": case.rounds}
    cached_files: dict[str, JsonValue] = {"localCache": local_cache} if local_cache else {}
    return {
        "read": {"format": form, "path": path, **cached_files},
        "transforms": [*first, {"use": "benchmarks.ours.transforms:apply_work", "options": work}],
        "shuffle": {"mode": "none"},
        "cache": cache,
    }


def prepare_run(  # noqa: PLR0913 - a case, and the fields of its spec
    case: Case, path: str, loader: Loader, epochs: int, folder: Path, *, local_cache: str = ""
) -> Prepared:
    """Return a run over the files of a case, after the checks that every run passes.

    Args:
        case: files and the work on their rows.
        path: folder or address of the files.
        loader: how they are loaded.
        epochs: of the run.
        folder: storage of the run.
        local_cache: `read.localCache`; empty for none.
    """
    spec: dict[str, JsonValue] = {
        "train": "benchmarks.ours.epochs:train",
        "epochs": epochs,
        "batchSize": case.batch_size,
        "data": {
            "cpus": loader.cpus,
            "datasets": {"train": make_dataset(case, path, loader.cache, local_cache)},
        },
        "workers": {"count": 1, "resources": {"cpu": 1}},
    }
    run = TrainingRunResource.model_validate(document(spec))
    return prepare(run, RunLocation(Disk(folder), in_cluster=True))


def measure_epochs(
    run: Prepared,
    client: Coordinator,
    ranks: Sequence[ActorHandle[feeding.Rank]],
    *,
    labels: tuple[tuple[str, str], ...] = (),
    pause: float = 0.0,
) -> list[dict[str, float]]:
    """Have the ranks take all epochs of a run; return the epoch times of the first rank.

    Args:
        run: with a dataset `train`.
        client: client of a coordinator.
        ranks: that take the batches.
        labels: of the nodes that read.
        pause: seconds after each batch.
    """
    plan, spec = run.plans["train"], run.spec
    means = Means(spec.data.cpus, len(ranks))
    client.feed(run.plans, ExecutionLimits(spec.data.cpus, labels), means)
    epoch_pass = feeding.make_pass(plan, len(ranks), spec.batch_size)
    arguments = (plan, replace(epoch_pass, epochs=spec.epochs), handle_of(client), pause)
    times: list[list[dict[str, float]]] = ray.get(
        [rank.measure_epochs.remote(*arguments) for rank in ranks]
    )
    return times[0]


def main(  # noqa: PLR0913 - the options of two benchmarks
    *,
    cases: list[dict[str, Any]],
    epochs: int,
    folder: str,
    loaders: Sequence[str] = tuple(LOADERS),
    addresses: Mapping[str, str] | None = None,
    local_cache: str = "",
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Measure each case with each loader, after an epoch that starts the data tasks' processes.

    Args:
        cases: fields of each case.
        epochs: of each run.
        folder: storage of the runs.
        loaders: keys of LOADERS.
        addresses: where the files of each folder are; None for the folder itself.
        local_cache: `read.localCache`; the node's cache is empty before each run.

    Returns:
        Epoch times by case and loader.
    """
    loaded = [Case(**fields) for fields in cases]
    paths = addresses or {case.folder: case.folder for case in loaded}
    times: dict[str, dict[str, list[dict[str, float]]]] = {case.name: {} for case in loaded}
    with feeding.start_ray(["all"], STORE_BYTES):
        ranks = feeding.start_ranks(["all"])
        path, loader = paths[loaded[0].folder], LOADERS["streamed, 2 CPUs"]
        warm_up = prepare_run(loaded[0], path, loader, 1, Path(folder))
        client = coordinator.start(warm_up.spec, time.time())  # serves one run after the other
        measure_epochs(warm_up, client, ranks)
        for case in loaded:
            for name in loaders:
                if local_cache:
                    shutil.rmtree(folder_here(), ignore_errors=True)
                run = prepare_run(
                    case,
                    paths[case.folder],
                    LOADERS[name],
                    epochs,
                    Path(folder),
                    local_cache=local_cache,
                )
                times[case.name][name] = measure_epochs(run, client, ranks)
    return times
