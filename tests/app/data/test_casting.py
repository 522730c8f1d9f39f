import math

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from trainshed.data.sources.casts import find_misfit

FLOATS = ("float16", "float32", "float64")
WHOLE = ("bool", "uint8", "int8", "int16", "int32", "int64")
# What files may have beside what `feed.dtypes` may ask for.
SOURCES = (*FLOATS, *WHOLE, "uint16", "uint32", "uint64")
TARGETS = (*FLOATS, *WHOLE, "bfloat16")
EDGES = st.sampled_from(
    [2.0**bits + step for bits in (7, 8, 11, 24, 31, 53, 63, 64) for step in (-1, 0, 1)]
)


def holds(wanted: str, value: np.generic) -> bool:
    """Say whether a type holds a value, one by one and without a bound."""
    number = value.item()
    if wanted == "bool" or wanted in WHOLE:
        low, high = (0, 1) if wanted == "bool" else (np.iinfo(wanted).min, np.iinfo(wanted).max)
        return math.isfinite(number) and number == int(number) and low <= int(number) <= high
    made = torch.from_numpy(np.asarray([value])).to(getattr(torch, wanted)).double().item()
    return math.isfinite(made) or not math.isfinite(number)


@st.composite
def columns(draw: st.DrawFn) -> NDArray[np.generic]:
    dtype = np.dtype(draw(st.sampled_from(SOURCES)))
    if dtype.kind != "f":
        return draw(arrays(dtype, (draw(st.integers(1, 4)), 2)))
    width = dtype.itemsize * 8
    near = EDGES.map(lambda edge: float(np.asarray(edge).astype(dtype)))
    with np.errstate(over="ignore"):
        anything = st.floats(width=width) | near  # type: ignore[arg-type]
        return draw(arrays(dtype, (draw(st.integers(1, 4)), 2), elements=anything))


@given(column=columns(), wanted=st.sampled_from(TARGETS))
@example(column=np.array([[65519.99]]), wanted="float16")
@example(column=np.array([[65519.9999]]), wanted="float16")
@example(column=np.array([[3.4028235e38]]), wanted="float32")
@example(column=np.array([[3.4028236e38]]), wanted="float32")
@example(column=np.array([[3.395e38]], np.float32), wanted="bfloat16")
@example(column=np.array([[2**63 + 2**11]], np.uint64), wanted="float64")
@example(column=np.array([[2**64 - 1]], np.uint64), wanted="float64")
@example(column=np.array([[-(2**63)]], np.int64), wanted="float32")
@example(column=np.array([[2**63 - 1]], np.int64), wanted="float64")
@example(column=np.array([[65536]], np.int64), wanted="float16")
@example(column=np.array([[-0.0]]), wanted="uint8")
@example(column=np.array([[1, 0], [float("nan"), 2]]), wanted="bool")
def test_the_first_value_that_a_type_cannot_hold_is_found(
    column: NDArray[np.generic], wanted: str
) -> None:
    misfit = find_misfit(column, wanted)

    odd = [row for row, values in enumerate(column) if not all(holds(wanted, v) for v in values)]
    assert (misfit.row if misfit else None) == next(iter(odd), None)


@pytest.mark.parametrize(
    ("column", "wanted", "said"),
    [
        ([1.0, math.nan], "int64", "got nan; expected a number, as int64 has none for a missing"),
        ([1.0, 2.5], "int32", "got 2.5; expected a whole number, as int32 has no fractions. Round"),
        ([1, -1], "uint8", "got -1; expected 0 to 255, as uint8 holds. Use a wider type"),
        ([1.0, math.inf], "int8", "got inf; expected -128 to 127, as int8 holds"),
        ([1.0, -1e39], "float32", "got -1e+39; expected -3.4028235e+38 to 3.4028235e+38, as float"),
        (
            [1, 65520],
            "float16",
            "got 65520; expected -65504 to 65504, as float16 holds. Use a",
        ),
        ([1, 2 + 1j], "float32", r"got (2+1j); expected no imaginary part, as float32 has none"),
        ([0, 2], "bool", "got 2; expected 0 to 1, as bool holds"),
    ],
)
def test_the_value_what_was_expected_and_a_remedy_are_said(
    column: list[complex], wanted: str, said: str
) -> None:
    misfit = find_misfit(np.asarray(column), wanted)
    assert misfit
    assert str(misfit).startswith(said)


def test_numbers_are_rounded_alike_whether_they_are_stored_as_integers_or_floats() -> None:
    seconds = np.array([1_764_000_001, 2**53 + 1])

    for wanted in ("bfloat16", "float32", "float64"):
        assert find_misfit(seconds, wanted) is None
        assert find_misfit(seconds.astype(np.float64), wanted) is None


@pytest.mark.parametrize(
    ("integer", "said"),
    [
        (
            2**24 + 1,
            "got 16777217; expected an integer that float32 holds exactly, as it does each up to "
            "16777216. Use a type of integers, or float64, or convert it to floats in a transform",
        ),
        (
            2**53 + 1,
            "got 9007199254740993; expected an integer that float32 holds exactly, as it does each "
            "up to 16777216. Use a type of integers, or convert it to floats in a transform if ",
        ),
    ],
)
def test_integers_that_are_to_stay_as_they_are_may_not_be_rounded(integer: int, said: str) -> None:
    misfit = find_misfit(np.array([1, integer]), "float32", exactly=True)

    assert misfit
    assert misfit.row == 1
    assert str(misfit).startswith(said)


def test_floats_that_are_to_stay_as_they_are_may_not_be_rounded() -> None:
    tenths, quarters = np.array([0.25, 0.1]), np.array([0.25, math.nan, math.inf])

    assert find_misfit(tenths, "float32") is None
    assert (misfit := find_misfit(tenths, "float32", exactly=True))
    assert (misfit.row, misfit.value) == (1, "0.1")
    assert find_misfit(quarters, "float16", exactly=True) is None


def test_no_row_and_complex_numbers_without_an_imaginary_part_fit() -> None:
    assert find_misfit(np.empty((0, 3)), "uint8") is None
    assert find_misfit(np.array([3 + 0j]), "uint8") is None
