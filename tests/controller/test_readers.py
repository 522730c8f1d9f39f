"""Whatever an object holds, who reads it comes to an end without an error."""

import json
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from tests.controller.builders_view import (
    NOW,
    SETTINGS,
    make_cluster,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
    with_status,
)
from tests.controller.mutations import (
    RESERVATION,
    WRONG,
    json_values,
    make_raw_cluster,
    make_raw_job,
    make_raw_pod,
    make_raw_run,
    paths_of,
    with_value,
)
from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.names import SNAPSHOT_LINE
from trainshed_api.snapshot import Snapshot, final_snapshot
from trainshed_controller.admission import QueueEntry, admit, entry_of, request_of
from trainshed_controller.capacity import read_groups
from trainshed_controller.decide import decide
from trainshed_controller.views import read_cluster, read_job, read_pod, read_run

READERS: dict[str, tuple[JsonObject, Callable[[JsonObject], object]]] = {
    "a run": (make_raw_run(), read_run),
    "a RayJob": (make_raw_job(), read_job),
    "a RayCluster": (make_raw_cluster(), read_cluster),
    "a Pod": (make_raw_pod(), read_pod),
    "groups": (as_object(make_raw_cluster()["spec"]), read_groups),
}
_INT64 = 2**63


@pytest.mark.parametrize(("kind", "wrong"), [*product(READERS, WRONG)])
def test_one_wrong_value_at_any_place_is_no_error(kind: str, wrong: str) -> None:
    right, read = READERS[kind]
    for path in paths_of(right):
        try:
            read(with_value(right, path, WRONG[wrong]))
        except Exception as error:
            raise AssertionError(f"{wrong} at {path}") from error


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_any_json_at_any_place_is_no_error(kind: str, data: st.DataObject) -> None:
    right, read = READERS[kind]
    changed = right
    for path in data.draw(st.lists(st.sampled_from(list(paths_of(right))), max_size=3)):
        try:
            changed = with_value(changed, path, data.draw(json_values))
        except (IndexError, KeyError, TypeError):
            continue  # what it was a part of is another thing by now
    read(changed)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=30, deadline=None)
@given(value=st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_any_json_is_no_error(kind: str, value: JsonObject) -> None:
    READERS[kind][1](value)


# ------------------------------------------------------------------ what drivers say


def said(**fields: JsonValue) -> JsonObject:
    """Return all that a driver may say."""
    full = json.loads(make_snapshot().to_line()) | {
        "result": "r", "report": "r", "checkpoint": {"path": "p", "epoch": 1, "step": 2},
        "resumedFrom": {"checkpoint": "c", "epoch": 1, "step": 2}, "metrics": {"a": 1.0},
        "exitCode": 1, "warnings": ["w"],
    }  # fmt: skip
    return as_object(full) | fields


def read_said(value: JsonObject) -> Snapshot | None:
    """Return the snapshot, None where it is refused."""
    try:
        return Snapshot.model_validate_json(json.dumps(value))
    except ValidationError:
        return None


@pytest.mark.parametrize("state", ["Starting", "Training", "Stopping", "Ended"])
@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_accepted_of_a_driver_can_be_written_down(wrong: str, state: str) -> None:
    begun = decide(make_view(), make_seen(), SETTINGS, NOW)
    view = with_status(make_view(), begun.status)
    job = make_job(deployment_status="Running", job_status="RUNNING")
    right = said(state=state)
    for path in paths_of(right):
        snapshot = read_said(with_value(right, path, WRONG[wrong]))
        if snapshot is None:
            continue
        try:
            plan = decide(view, make_seen(ray_job=job, snapshot=snapshot), SETTINGS, NOW)
            written = json.loads(plan.status.model_dump_json(by_alias=True))
        except Exception as error:
            raise AssertionError(f"{wrong} at {path}") from error
        for number in numbers_in(written):
            assert -_INT64 <= number < _INT64, f"{wrong} at {path}"


def numbers_in(value: JsonValue) -> list[int]:
    """Return all whole numbers in it."""
    if isinstance(value, dict):
        return [number for inner in value.values() for number in numbers_in(inner)]
    if isinstance(value, list):
        return [number for inner in value for number in numbers_in(inner)]
    return [value] if isinstance(value, int) else []


@pytest.mark.parametrize("wrong", WRONG)
def test_the_last_word_in_a_log_is_a_snapshot_or_nothing(wrong: str) -> None:
    right = said(state="Ended")
    for path in paths_of(right):
        line = json.dumps(with_value(right, path, WRONG[wrong]))
        final_snapshot(f"training\n{SNAPSHOT_LINE}{line}\n")


@given(text=st.text())
def test_any_log_is_no_error(text: str) -> None:
    final_snapshot(text)
    final_snapshot(f"{SNAPSHOT_LINE}{text}")


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_run_asks_for_can_be_counted(wrong: str) -> None:
    right = make_raw_run()
    for path in paths_of(right):
        view = read_run(with_value(right, path, WRONG[wrong]))
        try:
            entry_of(view)
            decide(view, make_seen(), SETTINGS, NOW)
        except Exception as error:
            raise AssertionError(f"{wrong} at {path}") from error


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_rayjob_holds_can_be_counted(wrong: str) -> None:
    right = make_raw_job()
    where = ("metadata", "annotations", "trainshed.dev/reservation")
    run = make_view().run
    assert run
    for path in paths_of(RESERVATION):
        said = json.dumps(with_value(RESERVATION, path, WRONG[wrong]))
        held = read_job(with_value(right, where, said)).reservation
        if held is None:
            continue
        try:
            holder = QueueEntry("a", "a", held, held.since)
            waiting = QueueEntry("b", "b", request_of(run), NOW)
            places = admit(make_cluster(), [make_worker()], [holder], [waiting])
        except Exception as error:
            raise AssertionError(f"{wrong} at {path}") from error
        assert set(places) == {"b"}
        assert held.count > 0, f"{wrong} at {path}"
