"""The model itself: it can become a CRD, says all about its fields, and is immutable."""

from collections.abc import Iterator

import pytest
from pydantic import JsonValue, ValidationError

from tests.builders import make_data, make_dataset, make_document, make_run
from trainshed_api.errors import SpecError
from trainshed_api.reference import iterate_fields
from trainshed_api.shape import Shape, training_run_shape
from trainshed_api.v1alpha1 import TrainingRunResource
from trainshed_api.validation import validate_document

FIELDS: dict[str, Shape] = dict(iterate_fields(training_run_shape()))


@pytest.mark.parametrize("path", FIELDS)
def test_every_field_says_what_it_is_who_reads_it_and_when_it_may_change(path: str) -> None:
    field = FIELDS[path]

    assert field.description.endswith(".")
    assert field.read_by in {"app", "controller", "both"}
    assert field.mutable in {"live", "nextAttempt", "suspended", "never"}


def iterate_schemas(schema: JsonValue) -> Iterator[dict[str, JsonValue]]:
    """Yield every JSON schema inside, but those of free-form values."""
    if isinstance(schema, dict):
        yield schema
        for name, inner in schema.items():
            if name != "JsonValue":
                yield from iterate_schemas(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from iterate_schemas(inner)


def test_schema_fits_into_a_crd() -> None:
    for schema in iterate_schemas(TrainingRunResource.model_json_schema()):
        assert not {"oneOf", "allOf", "exclusiveMinimum", "exclusiveMaximum"} & set(schema)
        options = schema.get("anyOf", [])
        assert isinstance(options, list)
        assert [option for option in options if option == {"type": "null"}] == options[1:]


def test_bounds_of_optional_fields_are_in_the_schema() -> None:
    assert FIELDS["spec.epochs"].minimum == 1
    assert FIELDS["spec.data.datasets.NAME.transforms[].batchSize"].minimum == 1


def test_a_run_may_keep_its_place_for_a_day_at_most_after_a_stop() -> None:
    assert make_run(gracePeriodSeconds=86_400).spec.grace_period_seconds == 86_400
    with pytest.raises(SpecError, match="<= 86400"):
        make_run(gracePeriodSeconds=86_401)


def test_entrypoint_is_written_without_what_it_refuses() -> None:
    assert set(make_run(entrypoint=["python", "x.py"]).spec.to_dict()) == {
        "entrypoint",
        "framework",
        "seed",
        "reproducible",
        "code",
        "env",
        "envFrom",
        "workers",
        "storage",
        "failurePolicy",
        "priority",
        "suspend",
        "gracePeriodSeconds",
        "provisioningDeadlineSeconds",
        "activeDeadlineSeconds",
        "firstStepDeadlineSeconds",
        "stallDeadlineSeconds",
    }


def test_object_from_a_cluster_is_the_one_from_the_file() -> None:
    document = make_document()
    read_back = document | {
        "metadata": {"name": "digits", "uid": "1", "generation": 1, "managedFields": []},
        "status": {"phase": "Running"},
    }

    assert validate_document(read_back, "cluster") == validate_document(document, "file")


def test_config_keeps_null() -> None:
    assert make_run(config={"a": None, "b": [None]}).spec.to_dict()["config"] == {
        "a": None,
        "b": [None],
    }


QUANTITIES: dict[str, tuple[JsonValue, str]] = {
    "a number becomes its text": (2, "2"),
    "an integral float becomes an integer": (2.0, "2"),
    "a spelling is kept": ("1500m", "1500m"),
}


@pytest.mark.parametrize("case", QUANTITIES)
def test_quantity(case: str) -> None:
    value, want = QUANTITIES[case]

    assert make_run(workers={"resources": {"cpu": value}}).spec.workers.resources.cpu == want


def test_model_is_immutable() -> None:
    spec = make_run().spec

    with pytest.raises(ValidationError, match="frozen"):
        setattr(spec, "seed", 3)  # noqa: B010


def test_every_number_has_a_least_and_a_most_that_kubernetes_can_count() -> None:
    open_ended = [
        path
        for path, shape in FIELDS.items()
        if shape.type in {"integer", "number"}
        and (shape.minimum is None or shape.maximum is None or shape.maximum >= 2**32)
    ]

    assert open_ended == []


def test_a_framework_that_refuses_a_field_accepts_the_default_of_earlier_releases() -> None:
    """What is stored in a cluster has it written out."""
    for mode in ("auto", "none"):
        data = make_data(make_dataset(shuffle={"mode": mode, "bufferSize": 10_000}))
        assert make_run(train="a:b", framework="xgboost", data=data).spec.framework == "xgboost"


def test_texts_of_a_run_have_no_values_of_variables() -> None:
    assert "secret" not in repr(make_run(env={"PASSWORD": "secret"}))
