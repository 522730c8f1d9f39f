"""Datasets that a function reads beside the steps, through a stop and on fewer workers, no Ray."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import trainshed
from tests.app.builders_rows import write_rows
from tests.app.checkpoint.wrapped_training import Attempts, run_all
from tests.app.failing_runs import make_spec
from tests.app.worker.ranks import on_ranks
from tests.builders import make_run
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed.worker.attempt_config import AttemptConfig

if TYPE_CHECKING:
    from pydantic import JsonValue

BATCH_SIZE, STEPS, EPOCHS = 8, 5, 3
# A checkpoint is written after each second step, so that training resumes at step 2.
BROKEN_AT = 3
NAMES = ("early", "train", "late", "whole")

Used = dict[int, dict[str, list[int]]]


def train(config: dict[str, object]) -> None:
    """Read datasets before and after the step's batch; write down the rows of each step."""
    run = trainshed.current()
    model = DistributedDataParallel(nn.Linear(4, 1))
    run.track(model, torch.optim.SGD(model.parameters(), lr=0.01))
    with Path(f"{config['file']}-{run.rank}").open("a", encoding="utf-8") as file:
        for _ in run.epochs():
            for batches in zip(*(run.batches(name) for name in NAMES), strict=False):
                if run.step == config["broken_at"]:
                    run._loop.saver.wait()
                    raise RuntimeError("BrokenError")
                by_name = dict(zip(NAMES, batches, strict=True))
                rows = {name: cast("Tensor", batch["row"]) for name, batch in by_name.items()}
                used = {name: row.tolist() for name, row in rows.items()}
                print(json.dumps({"step": run.step, "used": used}), file=file)
                run.backward_step(model(by_name["train"]["x"]).mean())


def make_zipped(home: Path) -> AttemptConfig:
    """Return a job with datasets of different lengths; each worker has all rows of `whole`."""
    datasets: dict[str, JsonValue] = {}
    for name, rows in {"train": 40, "early": 56, "late": 88, "whole": 144}.items():
        write_rows(home / name, rows)
        shuffle: JsonValue = {"mode": "files" if name == "whole" else "global"}
        datasets[name] = {
            "read": {"format": "parquet", "path": name},
            "shuffle": shuffle,
            "split": name != "whole",
        }
    spec = make_spec(
        train=f"{__name__}:train",
        config={},
        epochs=EPOCHS,
        batchSize=BATCH_SIZE,
        data={"cpus": 1, "datasets": datasets},
    )
    prepared = prepare(make_run(**spec), RunLocation(Disk(home)))
    launch = Launch(prepared, RunLocation(Disk(home)), None, [], started=0.0)
    return make_job(launch, prepared.folder.claim(prepared.spec_hash, False))


def used_by(file: Path, world_size: int) -> Used:
    """Return the rows of each step by dataset: of all ranks, and of one where each has all."""
    used: Used = defaultdict(lambda: defaultdict(list))
    for rank in range(world_size):
        for line in Path(f"{file}-{rank}").read_text().splitlines():
            said = json.loads(line)
            for name, rows in said["used"].items():
                if name != "whole" or rank == 0:
                    used[said["step"]][name] += rows
    return used


def make_attempts(
    job: AttemptConfig, home: Path, broken_at: dict[str, int], rank: int
) -> list[str]:
    """Make an attempt of each run; return the errors."""
    errors = []
    for name, step in broken_at.items():
        told = {"file": str(home / name), "broken_at": step}
        errors += run_all(job, [Attempts(name, ["DDP"])], rank, told)
    return errors


def attempted(
    job: AttemptConfig, home: Path, world_size: int, **broken_at: int
) -> tuple[list[str], ...]:
    """Return the errors of each rank."""
    home.mkdir()
    return tuple(on_ranks(world_size, home, partial(make_attempts, job, home, broken_at), 300))


def test_one_worker_resumes_each_dataset_where_two_stood(tmp_path: Path) -> None:
    job, two, one = make_zipped(tmp_path), tmp_path / "two", tmp_path / "one"
    errors = attempted(job, two, 2, stopped=BROKEN_AT)
    assert all("BrokenError" in error for (error,) in errors)
    assert attempted(job, one, 1, stopped=-1, undisturbed=-1) == ([],)

    begun, resumed = used_by(two / "stopped", 2), used_by(one / "stopped", 1)
    undisturbed = used_by(one / "undisturbed", 1)
    assert min(resumed) == BROKEN_AT - 1
    steps = [*(begun[step] for step in range(min(resumed))), *resumed.values()]
    assert len(steps) == STEPS * EPOCHS
    for name in ("train", "early", "late"):
        want = [sorted(step[name]) for step in undisturbed.values()]
        assert [sorted(step[name]) for step in steps] == want, name
    # Two workers took half as many rows in a step, so the sequence is the same and not its steps.
    first, want_first = (
        [row for step in each[:STEPS] for row in step["whole"]]
        for each in (steps, list(undisturbed.values()))
    )
    assert first == want_first[: len(first)]
