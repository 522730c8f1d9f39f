"""A model may be compiled or sharded: what is saved, what comes back, and that nothing hangs."""

from functools import partial
from pathlib import Path

from tests.app.checkpoint.test_state import same
from tests.app.checkpoint.wrapped_training import Attempts, Network, make_jobs, run_all
from tests.app.worker.ranks import on_ranks
from trainshed.checkpoint import store as checkpoint


def train_all(home: Path, world_size: int, runs: list[Attempts]) -> dict[str, dict[str, object]]:
    """Return the last checkpoint of each run."""
    job = make_jobs(home, world_size)
    errors = on_ranks(world_size, home, partial(run_all, job, runs), within_seconds=300)
    assert errors == [[]] * world_size
    found: dict[str, dict[str, object]] = {}
    for attempts in runs:
        folder, _, refused = checkpoint.newest([job.folder / attempts.name / "ray"])
        assert folder
        assert folder.path
        assert not refused
        found[attempts.name] = checkpoint.load(folder.path, trust_objects=False)
    return found


COMPILED = ("compile(DDP)", "DDP(compile)", "DDP, a part compiled", "DDP.compile()")


def test_a_compiled_model_goes_on_from_any_other_to_the_same_bits(tmp_path: Path) -> None:
    whole = Attempts("whole", ["DDP"])
    others = [Attempts(name, [name, name]) for name in COMPILED]
    mixed = Attempts("mixed", [*COMPILED, "DDP"])
    found = train_all(tmp_path, 3, [whole, *others, mixed])

    model = found["whole"]["model"]
    assert isinstance(model, dict)
    assert list(model) == list(Network().state_dict())
    assert [name for name in found if not same(found[name], found["whole"])] == []


def test_a_sharded_model_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = Attempts("whole", ["DDP"])
    others = [Attempts(name, [name, name]) for name in ("FSDP", "compile(FSDP)")]
    mixed = Attempts("mixed", ["DDP", "FSDP", "compile(FSDP)", "DDP"])
    found = train_all(tmp_path, 2, [whole, *others, mixed])

    weights = found["whole"]["model"]
    assert [name for name in found if not same(found[name]["model"], weights)] == []
    assert same(found["mixed"], found["whole"])
