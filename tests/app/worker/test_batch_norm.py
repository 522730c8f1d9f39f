"""Which layers take statistics over all workers, and what is said where they cannot."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trainshed
from tests.app.checkpoint.wrapped_training import Attempts, make_jobs, run_all, with_spec
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint.wrapping import UnsupportedWrapperError, unwrapped
from trainshed.worker.attempt_config import AttemptConfig
from trainshed.worker.batch_norm import ALONE, share_statistics

compiled = cast("Callable[[nn.Module], nn.Module]", partial(torch.compile, backend="eager"))


@pytest.fixture
def _group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone, which wrappers ask for."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))


def fsdp(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    return FullyShardedDataParallel(
        model,
        sharding_strategy=ShardingStrategy.NO_SHARD,
        device_id=torch.device("cpu"),
    )


def has_shared(model: nn.Module) -> bool:
    return any(isinstance(module, nn.SyncBatchNorm) for module in model.modules())


DDP = DistributedDataParallel
MODELS: dict[str, Callable[[], nn.Module]] = {
    "nothing": make_model,
    "DDP": lambda: DDP(make_model()),
    "compile(DDP)": lambda: compiled(DDP(make_model())),
    "DDP(compile)": lambda: DDP(compiled(make_model())),
    "DDP of the layer alone": lambda: DDP(nn.BatchNorm1d(3)),
}


@pytest.mark.usefixtures("_group")
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_on_accelerators_statistics_are_shared_and_tensors_stay_where_they_are(
    make: Callable[[], nn.Module],
) -> None:
    model = make()
    names = list(unwrapped(model).state_dict())
    held = [*map(id, model.parameters()), *map(id, model.buffers())]

    assert share_statistics(model, 2, "cuda") is None
    assert has_shared(model)
    assert [*map(id, model.parameters()), *map(id, model.buffers())] == held
    assert list(unwrapped(model).state_dict()) == names


def test_on_cpus_they_are_not_and_that_is_said() -> None:
    model = make_model()

    assert share_statistics(model, 2, "cpu") == ALONE
    assert not has_shared(model)


def test_one_worker_has_all_rows_anyway() -> None:
    model = make_model()

    assert share_statistics(model, 1, "cuda") is None
    assert not has_shared(model)


def test_a_model_without_batch_norm_has_nothing_to_say() -> None:
    assert share_statistics(nn.Linear(4, 3), 2, "cpu") is None


@pytest.mark.usefixtures("_group")
def test_what_is_sharded_already_is_refused_with_what_to_call_before() -> None:
    with pytest.raises(UnsupportedWrapperError) as caught:
        share_statistics(fsdp(make_model()), 2, "cuda")
    assert "spec.syncBatchNorm" in str(caught.value)
    assert "convert_sync_batchnorm(model) before FSDP" in str(caught.value)

    shared = nn.SyncBatchNorm.convert_sync_batchnorm(make_model())  # type: ignore[no-untyped-call]
    assert share_statistics(fsdp(shared), 2, "cuda") is None


def track(config: dict[str, object]) -> None:
    """Say what became of the model of a run on a device."""
    run = trainshed.current()
    run.device = torch.device(str(config["device"]))
    model = DDP(make_model())
    run.track(model)
    raise RuntimeError(f"{run.device}: {has_shared(model)}")


def track_on(job: AttemptConfig, devices: Sequence[str], rank: int) -> list[str]:
    runs = [Attempts(device, ["DDP"]) for device in devices]
    return [run_all(job, [run], rank, {"device": run.name})[0] for run in runs]


@pytest.mark.parametrize("asked", [False, True])
def test_a_run_shares_them_where_its_spec_says_so(asked: bool, tmp_path: Path) -> None:
    job = with_spec(make_jobs(tmp_path, 2), sync_batch_norm=asked)
    job = replace(job, train=f"{__name__}:track")
    said = on_ranks(2, tmp_path, partial(track_on, job, ["cpu", "cuda"]))

    for on_cpu, on_gpu in said:
        assert on_cpu.endswith("cpu: False")
        assert on_gpu.endswith(f"cuda: {asked}")
