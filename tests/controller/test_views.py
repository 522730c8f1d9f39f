"""A run that was looked at already is looked at anew only where it asks for something else."""

import pytest
from pydantic import JsonValue

from tests.builders import make_document
from trainshed_controller.views import read_run

Object = dict[str, JsonValue]


def make_raw(generation: int = 1, *, epochs: int = 1, labels: Object | None = None) -> Object:
    """Return a run as the API server sends it."""
    document = make_document(epochs=epochs)
    metadata: Object = {
        "name": "digits",
        "namespace": "team",
        "uid": "u",
        "generation": generation,
        "resourceVersion": "7",
        "creationTimestamp": "2026-11-21T12:00:00Z",
        "labels": labels or {},
    }
    return {**document, "metadata": metadata, "status": {"attempt": generation}}


def test_the_same_spec_is_kept_and_the_new_status_read() -> None:
    before = read_run(make_raw())

    after = read_run(make_raw() | {"status": {"attempt": 2}}, before)

    assert after.run is before.run
    assert after.status.attempt == 2


@pytest.mark.parametrize(
    "raw", [make_raw(2, epochs=3), make_raw(labels={"kueue.x-k8s.io/queue-name": "research"})]
)
def test_what_asks_for_something_else_is_read(raw: Object) -> None:
    before = read_run(make_raw())

    after = read_run(raw, before)

    assert after.run == read_run(raw).run
    assert after.run != before.run


def test_a_run_that_was_refused_is_refused_again() -> None:
    refused = read_run(make_raw() | {"spec": {"epochs": 1}})

    again = read_run(make_raw() | {"spec": {"epochs": 1}}, refused)

    assert again.run is None
    assert again.problem == refused.problem
