"""The seam between a run and what it trains with: lazy, and checked before anything starts."""

import importlib.util
import subprocess
import sys
import time
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

import trainshed
import trainshed.boosting
import trainshed.keras
from tests.app.alone import train_alone
from tests.app.builders_checkpoint import write_checkpoint
from tests.app.builders_rows import write_rows
from tests.app.ray_run import ROOT, import_path
from tests.builders import make_run
from trainshed import frameworks
from trainshed.attempt.launch import make_job
from trainshed.attempt.launch_config import Launch
from trainshed.boosting.booster_state import BoosterState
from trainshed.planning.machine import check_framework
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.programs import keras_mlp
from trainshed.storage.disk import Disk
from trainshed.worker.checkpoint_saver import CheckpointSaver
from trainshed.worker.step_sync import Control
from trainshed_api.errors import SpecError
from trainshed_api.frameworks import RULES

# What a driver and a worker of a run with torch import, and every program's check of its config.
IMPORTS = """
import sys
import trainshed.programs.vision
assert "ray" not in sys.modules
import trainshed, trainshed.boosting, trainshed.keras, trainshed.cli.run
import trainshed.attempt.launch, trainshed.worker.process, trainshed.worker.current
from trainshed import frameworks
from trainshed.programs import boosted_trees, keras_mlp, tabular
for name in ("torch", "xgboost", "tensorflow"):
    frameworks.named(name).backend(0)
sys.exit(sum(name in sys.modules for name in ("xgboost", "tensorflow", "tf_keras")))
"""


def test_a_program_loads_no_ray_and_a_run_of_torch_no_other_framework() -> None:
    """A process of its own: this one has loaded XGBoost."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], cwd=ROOT, env={"PYTHONPATH": import_path()}, check=False
    )
    assert done.returncode == 0


@pytest.mark.parametrize("name", RULES)
def test_each_framework_of_the_contract_has_its_file(name: str) -> None:
    found = frameworks.named(name)  # type: ignore[arg-type]  # a key of the contract's

    assert found.backend(0).backend_cls.__name__ == "GlooBackend"


def test_torch_on_gpus_comes_together_by_nccl() -> None:
    assert frameworks.named("torch").backend(1).backend_cls.__name__ == "NcclBackend"


@pytest.mark.parametrize(
    ("in_cluster", "want"),
    [
        (False, r'xgboost is missing; run pip install "xgboost[^ ]+"$'),
        (True, r"xgboost is missing; an image with the tag [\d.]+-xgboost has it: set the chart's"),
    ],
)
def test_a_framework_that_is_not_installed_is_said_with_what_has_it(
    in_cluster: bool, want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none(name: str) -> object:
        return None if name == "xgboost" else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_none)

    with pytest.raises(SpecError, match=rf"spec\.framework: got xgboost; expected .*{want}"):
        check_framework("xgboost", in_cluster)
    check_framework("torch", in_cluster)


@pytest.mark.parametrize(("group", "refused"), [("", True), ("gpu", False)])
def test_workers_of_a_named_group_look_for_their_framework_themselves(
    group: str, refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none(name: str) -> object:
        return None if name == "xgboost" else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_none)
    write_rows(tmp_path / "rows", 20)
    run = make_run(
        train="tests.app.boosting_functions:boost",
        framework="xgboost",
        workers={"group": group},
        data={"datasets": {"train": {"read": {"format": "parquet", "path": "rows"}}}},
    )

    with pytest.raises(SpecError, match=r"spec\.framework") if refused else nullcontext():
        prepare(run, RunLocation(Disk(tmp_path), in_cluster=True))


def test_a_network_of_keras_without_units_is_refused_before_it_starts() -> None:
    with pytest.raises(SpecError, match=r"spec\.config\.widths: got \[8, 0\]; expected at least 1"):
        keras_mlp.check_config({"features": ["x"], "widths": [8, 0]})


def ask_for_boosting(config: dict[str, object]) -> None:
    """Ask for the run of another framework."""
    trainshed.boosting.current()


def ask_for_torch(config: dict[str, object]) -> None:
    """Ask for the run of another framework."""
    trainshed.current()


@pytest.mark.parametrize(
    ("framework", "function", "want"),
    [
        (
            "torch",
            "ask_for_boosting",
            "trainshed.boosting.current() is for spec.framework xgboost; this run's is torch: set "
            "it, or use trainshed.current()",
        ),
        (
            "xgboost",
            "ask_for_torch",
            "trainshed.current() is for spec.framework torch; this run's is xgboost: set it, or "
            "use trainshed.boosting.current()",
        ),
    ],
)
def test_a_function_of_another_framework_is_told_so(
    framework: str, function: str, want: str, tmp_path: Path
) -> None:
    spec = {"train": f"tests.app.test_frameworks:{function}", "framework": framework}

    left = train_alone(tmp_path, spec)

    assert want in left.finished.message


@pytest.mark.parametrize("ask", [trainshed.current, trainshed.boosting.current])
def test_outside_a_run_there_is_none(ask: object) -> None:
    assert callable(ask)
    with pytest.raises(RuntimeError, match="works inside a training function that"):
        ask()


def test_another_framework_s_checkpoint_is_refused_by_its_file(tmp_path: Path) -> None:
    given = write_checkpoint(Disk(tmp_path / "theirs"))
    place = RunLocation(Disk(tmp_path))
    prepared = prepare(make_run(train="tests.app.processes:children", framework="xgboost"), place)
    attempt = prepared.folder.claim(prepared.spec_hash, fresh=False)
    job = make_job(Launch(prepared, place, given, [], time.time()), attempt)
    saver = CheckpointSaver(job, Control(), 0, 1)
    attempt.close()

    with pytest.raises(
        SpecError, match=r"resume: got .* with model\.pt; expected one with model\.ubj"
    ):
        saver.restore(BoosterState())
