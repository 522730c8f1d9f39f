"""Whatever a driver says is refused, or stays within what the API server takes of a status."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from tests.controller.builders_view import (
    SETTINGS,
    later,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.crd import render_crd
from trainshed_api.json_object import as_object
from trainshed_api.names import SNAPSHOT_LINE
from trainshed_api.snapshot import Snapshot, final_snapshot
from trainshed_controller.decide import decide
from trainshed_controller.model import RunView

TEXTS = st.one_of(
    st.text(max_size=20), st.sampled_from(["x" * 9000, "\x00" * 5000, "\U0001f600" * 5000])
)
NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.sampled_from([10**30, -(10**30), 2**63, -(2**63), 10**15, 1e300, -1e300, 1e10, 2.5e11]),
)
ANYTHING = st.one_of(
    NUMBERS, TEXTS, st.none(), st.booleans(), st.lists(NUMBERS, max_size=2), st.just({"a": 1})
)
RESUMED = st.fixed_dictionaries({"checkpoint": TEXTS}, optional={"epoch": NUMBERS, "step": NUMBERS})
METRICS = st.dictionaries(TEXTS, NUMBERS, max_size=200)
PROGRESS = st.fixed_dictionaries(
    {"time": NUMBERS},
    optional={
        **dict.fromkeys(("epoch", "epochs", "step", "steps", "percent", "loss"), NUMBERS),
        **dict.fromkeys(("samplesPerSecond", "dataWaitPercent", "etaSeconds"), NUMBERS),
        "metrics": METRICS,
    },
)
SECONDS = st.dictionaries(st.sampled_from(["training", "lost", "starting"]), NUMBERS)
SNAPSHOTS = st.fixed_dictionaries(
    {},
    optional={
        "time": NUMBERS,
        "sequence": NUMBERS,
        "state": st.sampled_from(["Starting", "Training", "Ended"]),
        "folder": TEXTS,
        "workersLost": NUMBERS,
        "resumedFrom": RESUMED,
        "progress": PROGRESS,
        "metrics": METRICS,
        "checkpoint": RESUMED.map(lambda point: {**point, "path": point["checkpoint"]}),
        "warnings": st.lists(TEXTS, max_size=20),
        "exitCode": NUMBERS,
        "cause": st.sampled_from(["Invalid", "OutOfMemory", None]),
        "message": TEXTS,
        "traceback": TEXTS,
        "seconds": SECONDS,
        "result": TEXTS,
        "report": TEXTS,
    },
)


def status_schema() -> JsonValue:
    """Return what the API server takes."""
    versions = as_object(render_crd()["spec"])["versions"]
    assert isinstance(versions, list)
    schema = as_object(as_object(versions[0])["schema"])["openAPIV3Schema"]
    return as_object(as_object(schema)["properties"])["status"]


def refusals(value: JsonValue, schema: JsonValue, path: str = "status") -> Iterator[str]:
    """Yield what the API server would refuse; what is not in the schema is pruned."""
    said = as_object(schema)
    match said.get("type"), value:
        case "object", dict():
            fields, others = as_object(said.get("properties")), said.get("additionalProperties")
            if len(value) > int(str(said.get("maxProperties", 10**6))):
                yield f"{path}: too many"
            for name, inner in value.items():
                yield from refusals(inner, fields.get(name, others or {}), f"{path}.{name}")
        case "array", list():
            for item in value:
                yield from refusals(item, said.get("items"), f"{path}[]")
        case "string", str() if len(value) > int(str(said.get("maxLength", 10**6))):
            yield f"{path}: too long"
        case "integer", int() if not -(2**63) <= value < 2**63:
            yield f"{path}: beyond 64 bits"
        case "number", float() if not math.isfinite(value):
            yield f"{path}: no JSON"
        case ("string", str()) | ("integer", int()) | ("number", float() | int()):
            pass
        case None, _:
            pass
        case kind, _:
            yield f"{path}: {value!r} is no {kind}"


STATUS = status_schema()


def trained(view: RunView, *snapshots: Snapshot) -> RunView:
    """Return the run after its driver said so, and then failed."""
    job = make_job(job_status="RUNNING", deployment_status="Running")
    now = 0.0
    for snapshot in snapshots:
        now += 10
        seen = make_seen(ray_job=job, snapshot=snapshot)
        view = with_status(view, decide(view, seen, SETTINGS, later(now)).status)
    failed = make_job(job_status="FAILED", deployment_status="Failed")
    seen = make_seen(ray_job=failed, snapshot=snapshots[-1])
    return with_status(view, decide(view, seen, SETTINGS, later(now)).status)


@given(said=st.lists(SNAPSHOTS, min_size=1, max_size=3))
def test_a_status_takes_whatever_of_a_drivers_words_is_heard(said: list[dict[str, object]]) -> None:
    view = make_view()
    view = with_status(view, decide(view, make_seen(), SETTINGS, later(0)).status)
    heard = []
    for words in said:
        try:
            text = json.dumps({"time": 1.0, "attempt": 1, **words})
            heard.append(Snapshot.model_validate_json(text))
        except ValidationError:
            continue

    after = trained(view, *heard or [make_snapshot()])

    written = after.status.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert list(refusals(written, STATUS)) == []


@given(value=ANYTHING, field=st.sampled_from(sorted(Snapshot.model_fields)))
def test_a_snapshot_with_anything_in_a_field_is_read_or_refused(value: object, field: str) -> None:
    text = json.dumps({"time": 1.0, "attempt": 1, field: value})

    printed = final_snapshot(f"{SNAPSHOT_LINE}{text}\n")

    try:
        posted = Snapshot.model_validate_json(text)
    except ValidationError:
        posted = None
    # What is printed goes through the same bounds as what is posted.
    assert printed == posted
    if posted:
        assert datetime.fromtimestamp(posted.time, UTC).year >= 1970


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 50_000, "\x00", "1", '"', ""])
def test_what_is_no_snapshot_at_all_is_none(text: str) -> None:
    assert final_snapshot(f"{SNAPSHOT_LINE}{text}\n") is None


@pytest.mark.parametrize("number", ["9" * 5000, "9" * 20, "-" + "9" * 30])
def test_an_exit_code_that_a_driver_made_up_is_none(number: str) -> None:
    view = make_view()
    view = with_status(view, decide(view, make_seen(), SETTINGS, later(0)).status)
    message = f"Job supervisor actor died: failed with exit code {number}"
    job = make_job(job_status="FAILED", deployment_status="Failed", message=message)

    after = decide(view, make_seen(ray_job=job), SETTINGS, later(5)).status

    assert after.attempts[-1].exit_code is None
