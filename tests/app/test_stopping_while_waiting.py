"""A stop takes effect while a run waits for rows, and costs no step that is done."""

from pathlib import Path

import pytest

from tests.app import waiting_functions
from tests.app.alone import train_alone
from tests.app.failing_runs import Spec, make_spec, write_numbers
from trainshed.attempt.signals import Stop
from trainshed_api.names import STOPPED
from trainshed_api.progress import CheckpointSaved

# The held dataset, and the last step before its held rows.
WAYS = {"a step's rows": ("train", 3), "an evaluation's rows": ("valid", 5)}


@pytest.mark.parametrize("case", WAYS)
def test_a_stop_takes_effect_while_all_wait_for(case: str, tmp_path: Path) -> None:
    held, want = WAYS[case]
    write_numbers(tmp_path)
    read: Spec = {"read": {"format": "parquet", "path": "rows"}, "shuffle": {"mode": "none"}}
    hold: Spec = {"feed": {"collate": {"use": "tests.app.waiting_functions:hold"}}}
    datasets: Spec = {"train": read, "valid": read}
    datasets[held] = read | hold
    data: Spec = {"cpus": 1, "loader": "torch", "datasets": datasets}
    stop = Stop()
    waiting_functions.released.clear()
    waiting_functions.stop, waiting_functions.steps_before = stop, want
    try:
        function = "tests.app.waiting_functions:train"
        left = train_alone(tmp_path, make_spec(train=function, config={}, data=data), stop=stop)
    finally:
        waiting_functions.released.set()
        waiting_functions.stop = None

    assert left.verdict.outcome == STOPPED
    assert left.verdict.message == f"Suspended: stopped after step {want}"
    saved = [event.step for event in left.events if isinstance(event, CheckpointSaved)]
    assert saved[-1] == want
