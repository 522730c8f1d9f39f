"""A stop takes effect while Keras waits for rows, and costs no step that is done."""

from pathlib import Path

import pytest

from tests.app.failing_runs import Spec, make_spec, write_numbers
from tests.app.stopped_while_waiting import READ, stop_while_waiting
from trainshed_api.names import STOPPED
from trainshed_api.progress import CheckpointSaved

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(600)]

HOLD: Spec = {"use": "tests.app.waiting_functions:hold_rows"}
# The held dataset, how its rows are held, and the last step before.
WAYS: dict[str, tuple[str, Spec, int]] = {
    "a step's rows": ("train", {"augment": [HOLD]}, 3),
    "an evaluation's rows": ("valid", {"transforms": [HOLD]}, 5),
}


@pytest.mark.parametrize("case", WAYS)
def test_a_stop_takes_effect_while_all_wait_for(case: str, tmp_path: Path) -> None:
    held, hold, steps = WAYS[case]
    write_numbers(tmp_path)
    datasets: Spec = {"train": READ, "valid": READ}
    datasets[held] = READ | hold
    data: Spec = {"cpus": 1, "datasets": datasets}
    spec = make_spec(train="tests.app.keras_functions:fit", config={}, data=data)

    left, _ = stop_while_waiting(tmp_path, spec | {"framework": "tensorflow"}, steps)

    assert left.verdict.outcome == STOPPED
    assert left.verdict.message == f"Suspended: stopped after step {steps}"
    saved = [event.step for event in left.events if isinstance(event, CheckpointSaved)]
    assert saved[-1] == steps
