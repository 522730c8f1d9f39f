"""Recorded histories, decided again: `python -m tests.simulation.histories` records them."""

import difflib
import json
from pathlib import Path

import pytest

from tests.controller.history import FOLDER, read_history
from trainshed_api.json_object import JsonObject

HISTORIES = sorted(FOLDER.glob("*.jsonl"))


def printed(outcome: JsonObject) -> list[str]:
    return json.dumps(outcome, indent=1, sort_keys=True).splitlines()


@pytest.mark.parametrize("path", HISTORIES, ids=[path.stem for path in HISTORIES])
def test_a_history_is_decided_as_it_was(path: Path) -> None:
    for number, (look, want) in enumerate(read_history(path), 1):
        got = look.outcome()

        where = f"{path.name}:{number}"
        diff = difflib.unified_diff(printed(want), printed(got), where, "now", lineterm="", n=2)
        assert got == want, "\n".join(diff)


def test_the_histories_have_what_befalls_a_run() -> None:
    looks = [look for path in HISTORIES for look, _ in read_history(path)]
    states = {look.state().name for look in looks if not look.view.deleting}
    attempts = [attempt for look in looks for attempt in look.view.status.attempts]

    assert states >= {
        "AwaitsQueue", "Waiting", "Admitted", "Starting", "Training", "WorkersLost", "Stopping",
        "Ended", "Unreleased", "Suspended", "Finished", "Refused", "BackingOff",
    }  # fmt: skip
    assert {attempt.reason for attempt in attempts} >= {
        "Succeeded", "Suspended", "HeadLost", "HeadEvicted", "Preempted", "RayJobDeleted",
        "ApplicationFailed", "SpecChanged",
    }  # fmt: skip
