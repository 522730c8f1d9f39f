"""Measures epochs of our loaders, whose batches a rank takes without training on them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from benchmarks.ours import feeding
from benchmarks.plain.case import SIZE, Case, read_cases
from benchmarks.plain.program import start
from trainshed.coordinator import start as coordinator
from trainshed.coordinator.stage_rates import Means
from trainshed.data.loader.data_server import ExecutionLimits
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.v1alpha1 import TrainingRunResource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue
    from ray.actor import ActorHandle

    from trainshed.coordinator.actor import Coordinator
    from trainshed.planning.preflight import Prepared

STORE_BYTES = 4 * 2**30


class Way(TypedDict):
    """How a dataset is loaded: the CPUs for data, and the cache."""

    cpus: int
    cache: str


WAYS = {
    "by default": Way(cpus=2, cache="auto"),
    "streamed, 1 CPU": Way(cpus=1, cache="none"),
    "streamed, 2 CPUs": Way(cpus=2, cache="none"),
    "cached": Way(cpus=2, cache="objects"),
}


def dataset_of(case: Case, path: str, cache: str, local_cache: str = "") -> dict[str, JsonValue]:
    """Return a case's part of a spec.

    Args:
        case: the files and the work.
        path: of the files, wherever they lie.
        cache: of the rows.
        local_cache: of the files; empty for none.
    """
    column = "x"
    first: list[JsonValue] = []
    if case.format == "jpeg":
        column = "image"
        first = [{"use": "trainshed.transforms:decode_image", "options": {"size": SIZE}}]
    elif case.format == "csv":
        first = [{"use": "benchmarks.ours.worked:stacked"}]
    doing: JsonValue = {"column": column, "rounds": case.rounds}
    form = "images" if case.format == "jpeg" else case.format
    kept: dict[str, JsonValue] = {"localCache": local_cache} if local_cache else {}
    return {
        "read": {"format": form, "path": path, **kept},
        "transforms": [*first, {"use": "benchmarks.ours.worked:worked", "options": doing}],
        "shuffle": {"mode": "none"},
        "cache": cache,
    }


def prepared(  # noqa: PLR0913 - a case, and what a spec says of it
    case: Case, path: str, way: Way, epochs: int, folder: Path, *, local_cache: str = ""
) -> Prepared:
    """Return a run over a case's files, found in order as every run is.

    Args:
        case: the files and the work.
        path: of the files, wherever they lie.
        way: how they are loaded.
        epochs: of the run.
        folder: what it would write into.
        local_cache: of the files that a node keeps; empty for none.
    """
    data: JsonValue = {
        "cpus": way["cpus"],
        "datasets": {"train": dataset_of(case, path, way["cache"], local_cache)},
    }
    spec: JsonValue = {
        "train": "benchmarks.ours.epochs:train",
        "epochs": epochs,
        "batchSize": case.batch_size,
        "data": data,
        "workers": {"count": 1, "resources": {"cpu": 1}},
    }
    document = {
        "apiVersion": "trainshed.dev/v1alpha1",
        "kind": "TrainingRun",
        "metadata": {"name": "benchmark"},
        "spec": spec,
    }
    return prepare(
        TrainingRunResource.model_validate(document), RunLocation(Disk(folder), in_cluster=True)
    )


def epochs_of(
    run: Prepared,
    client: Coordinator,
    ranks: Sequence[ActorHandle[feeding.Rank]],
    *,
    labels: tuple[tuple[str, str], ...] = (),
    pause: float = 0.0,
) -> list[dict[str, float]]:
    """Feed ranks all epochs of a run; return the times of the first of them.

    Args:
        run: with a dataset `train`.
        client: of a coordinator.
        ranks: which take them.
        labels: of the nodes that read.
        pause: seconds after each batch.
    """
    plan, spec = run.plans["train"], run.spec
    means = Means(spec.data.cpus, len(ranks))
    client.feed(run.plans, ExecutionLimits(spec.data.cpus, labels), means)
    at = feeding.pass_of(plan, len(ranks), spec.batch_size, epochs=spec.epochs or 1)
    return feeding.epochs(ranks, plan, at, client, pause)[0]


def start_for(run: Prepared) -> Coordinator:
    """Start a coordinator, which can serve several runs one after the other."""
    return coordinator.start(run.spec, time.time())


def main(*, listed: str, epochs: int, folder: str) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Take the batches of each case in each way; processes of data and rank are there before."""
    cases = read_cases(listed)
    found: dict[str, dict[str, list[dict[str, float]]]] = {case.name: {} for case in cases}
    with feeding.nodes(["all"], STORE_BYTES):
        ranks = feeding.ranks_on(["all"])
        warm = prepared(cases[0], cases[0].folder, WAYS["streamed, 2 CPUs"], 1, Path(folder))
        client = start_for(warm)
        epochs_of(warm, client, ranks)
        for case in cases:
            for name, way in WAYS.items():
                run = prepared(case, case.folder, way, epochs, Path(folder))
                found[case.name][name] = epochs_of(run, client, ranks)
    return found


if __name__ == "__main__":
    start(main)
