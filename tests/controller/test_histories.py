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
    phases, reasons = set(), set()
    for path in HISTORIES:
        for look, _ in read_history(path):
            status = look.view.status
            phases.add(status.phase)
            reasons |= {attempt.reason for attempt in status.attempts}

    assert phases >= {None, "Queued", "Starting", "Running", "Restarting", "Stopping", "Suspended"}
    assert reasons >= {"Succeeded", "Suspended", "HeadLost", "HeadEvicted", "Preempted",
                       "RayJobDeleted"}  # fmt: skip
