"""What is read of a spec that nobody should have written, and of one that changed under a run."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.builders import make_dataset, make_document
from trainshed_api.json_object import JsonObject, as_object
from trainshed_controller.spec import read_spec


def nested(levels: int) -> JsonObject:
    found: JsonObject = {}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_a_spec_of_a_megabyte_is_refused_before_anything_of_it_is_kept() -> None:
    asked = read_spec(make_document(config={"x": [{}] * 400_000}), is_under_way=False)

    assert asked.run is None
    assert asked.problem == (
        "spec: got more than 96 KiB; expected at most 96 KiB; put large values in a file"
    )


@pytest.mark.parametrize("levels", [101, 1_500, 10_000])
def test_a_spec_without_bottom_is_refused(levels: int) -> None:
    asked = read_spec(make_document(config=nested(levels)), is_under_way=False)

    assert asked.run is None
    assert asked.problem == "spec: got more than 100 levels; expected fewer"


def test_a_spec_that_turns_unreadable_under_an_attempt_keeps_what_can_be_read() -> None:
    document = make_document(
        suspend=True,
        stallDeadlineSeconds=90,
        workers={"count": 3, "resources": {"cpu": 2, "memory": "no"}},
        unheardOf=1,
        config={"x": "y" * 200_000},
    )

    asked = read_spec(document, is_under_way=True)

    assert asked.problem.startswith("spec: got more than 96 KiB")
    assert asked.run
    spec = asked.run.spec
    assert (spec.suspend, spec.stall_deadline_seconds) == (True, 90)
    assert spec.workers.resources.memory is None


def test_a_program_that_turns_unreadable_under_an_attempt_keeps_its_deadlines() -> None:
    document = make_document(activeDeadlineSeconds=60)
    as_object(document["spec"])["train"] = {"not": "a text"}

    asked = read_spec(document, is_under_way=True)

    assert asked.run
    assert asked.run.spec.active_deadline_seconds == 60


RULES: JsonObject = {"rules": [{"exitCodes": [3], "action": "Fail", "later": 1}]}
DATASETS: JsonObject = {"train": make_dataset(cache="none", later=1)}


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (
            {"failurePolicy": {"maxApplicationFailures": 3, **RULES}},
            {"failurePolicy": {"maxApplicationFailures": 3}},
        ),
        ({"data": {"datasets": DATASETS}}, {"data": {"datasets": {"train": {"cache": "none"}}}}),
        ({"suspend": True, "suspendAfter": 1}, {"suspend": True}),
        ({"env": {"A": "b"}, "envFrom": [{"later": 1}]}, {"env": {"A": "b"}}),
    ],
    ids=["a rule", "a dataset", "a longer name", "an entry of a list"],
)
def test_a_field_of_a_later_release_takes_no_other_fields_along(
    written: JsonObject, kept: JsonObject
) -> None:
    asked = read_spec(make_document(**written), is_under_way=True)

    assert asked.problem
    assert asked.run
    found = asked.run.spec.model_dump(mode="json", by_alias=True)
    assert contains(found, kept)


def contains(found: JsonValue, part: JsonValue) -> bool:
    """Return whether an object has these fields, at all levels."""
    if not isinstance(found, dict) or not isinstance(part, dict):
        return found == part
    return all(name in found and contains(found[name], item) for name, item in part.items())


def test_a_label_that_nobody_accepts_takes_nothing_of_the_spec_along() -> None:
    document = make_document(workers={"count": 4, "resources": {"cpu": 2}})
    as_object(document["metadata"])["labels"] = {"c": {"not": "a text"}}

    asked = read_spec(document, is_under_way=True)

    assert asked.run
    assert asked.run.spec.workers.count == 4


def test_labels_without_end_are_refused_before_they_are_kept() -> None:
    document = make_document()
    labels: JsonObject = {f"label-{number}": "x" for number in range(40_000)}
    as_object(document["metadata"])["labels"] = labels

    assert read_spec(document, is_under_way=False).run is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "train",
        "entrypoint",
        "workers",
        "suspend",
        "data",
        "config",
        "cluster",
        "failurePolicy",
        "x.y",
    ]
)


@settings(max_examples=150, deadline=None)
@given(spec=st.dictionaries(FIELDS, VALUES, max_size=4))
def test_an_attempt_is_seen_to_its_end_whatever_its_spec_became(spec: JsonObject) -> None:
    document = make_document() | {"spec": spec}

    asked = read_spec(document, is_under_way=True)

    assert asked.run is not None
