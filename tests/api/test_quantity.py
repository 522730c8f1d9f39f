"""Kubernetes quantities."""

import contextlib
import math
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainshed_api.quantity import parse_bytes, parse_cores, parse_quantity
from trainshed_api.workers import ResourcesSpec

CORES = {"2": 2.0, "0.5": 0.5, "500m": 0.5, ".25": 0.25, "1e1": 10.0, "100u": 0.0001}
BYTES = {
    "1": 1,
    "1k": 1000,
    "1Ki": 1024,
    "8Gi": 8 * 2**30,
    "1.5M": 1_500_000,
    "2E": 2 * 10**18,
    "1e3": 1000,
    "1E3": 1000,
    "1500m": 2,
}


@pytest.mark.parametrize("text", CORES)
def test_cores_are_read_as_kubernetes_reads_them(text: str) -> None:
    assert parse_cores(text) == CORES[text]


@pytest.mark.parametrize("text", BYTES)
def test_bytes_are_read_as_kubernetes_reads_them(text: str) -> None:
    assert parse_bytes(text) == BYTES[text]


@pytest.mark.parametrize("text", ["", "1 Gi", "8GB", "Gi", "1K", "0x10", "1_000", "1e", "nan"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a Kubernetes quantity such as 2, 500m or 8Gi"):
        parse_bytes(text)


LIMITS = {
    "1e309": 2**63 - 1,
    "-1e309": -(2**63 - 1),
    "9" * 64: 2**63 - 1,
    "9Ei": 2**63 - 1,
    "1e-999": Decimal("1e-9"),
    "0.0000000011": Decimal("2e-9"),
    "9223372036854775806.0000000001": Decimal("9223372036854775806.000000001"),
}


@pytest.mark.parametrize("text", LIMITS)
def test_what_is_too_large_or_too_fine_is_cut_as_kubernetes_cuts_it(text: str) -> None:
    assert parse_quantity(text) == LIMITS[text]


def test_a_text_without_end_is_no_quantity() -> None:
    with pytest.raises(ValueError, match=r"got \"1{70,80}\.\.\.; expected a Kubernetes quantity"):
        parse_quantity("1" * 1_000_000)


DIGITS = st.text("0123456789", min_size=0, max_size=70)
SPELLINGS = st.builds(
    "{}{}.{}{}".format,
    st.sampled_from(["", "-", "+"]),
    DIGITS,
    DIGITS,
    st.sampled_from(["", "m", "n", "Ei", "E", "K", "e309", "e-999", "E999", "e1000", " Gi", "e"]),
)


@given(st.one_of(st.text(max_size=70), SPELLINGS))
@example("1e309")
@example("1e300")
@example("1E")
@example("1000001")
@example("-1")
@example("nan")
def test_any_text_is_refused_or_a_finite_amount_within_the_bound(text: str) -> None:
    for field, most, read in (("cpu", 1e6, parse_cores), ("memory", 1e18, parse_bytes)):
        with contextlib.suppress(ValidationError):
            resources = ResourcesSpec.model_validate({field: text})
            amount = read(str(getattr(resources, field)))
            assert math.isfinite(amount)
            assert 0 < amount <= most


@pytest.mark.parametrize("text", ["1e309", "1e300", "1e1000", "1.1E", "1Ei", "-8Gi", "0", "nan"])
def test_memory_beyond_the_bound_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="a Kubernetes quantity above 0 and at most 1E"):
        ResourcesSpec.model_validate({"memory": text})


@pytest.mark.parametrize("text", ["1e309", "1000001", "1000000.1", "1Mi", "-1", "0m", "inf"])
def test_cores_beyond_the_bound_are_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="a Kubernetes quantity above 0 and at most 1M"):
        ResourcesSpec.model_validate({"cpu": text})


def test_the_bounds_themselves_are_taken() -> None:
    taken = ResourcesSpec.model_validate({"cpu": "1M", "memory": "1E", "gpu": 2**31 - 1})

    assert (taken.cpu, taken.memory, taken.gpu) == ("1M", "1E", 2**31 - 1)
