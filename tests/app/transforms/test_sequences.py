"""Windows of a sequence are those that a loop over its rows would cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.transforms.builders import call
from trainshed.transforms import Batch, windows


def make_sequence(rows: int) -> Batch:
    """Return a sequence: its number, a value and a pair for each row, and a label."""
    numbers = np.arange(rows)
    return {
        "sequence": np.full(rows, 7),
        "x": numbers.astype(np.float32) + 1,
        "pair": np.stack([numbers, -numbers], axis=1),
        "label": numbers,
    }


def cut(rows: int, length: int, stride: int, *, is_padded: bool) -> list[list[int]]:
    """Return the rows of each window, by a loop."""
    found: list[list[int]] = []
    for start in range(0, rows, stride):
        window = list(range(start, min(start + length, rows)))
        if found and found[-1][-1] == rows - 1:
            break  # every row that comes is in a window
        if is_padded or len(window) == length:
            found.append(window)
    return found


@given(
    rows=st.integers(0, 40),
    length=st.integers(1, 12),
    stride=st.integers(1, 15),
    is_padded=st.booleans(),
)
def test_windows_are_those_of_a_loop(rows: int, length: int, stride: int, is_padded: bool) -> None:
    options: dict[str, object] = {
        "length": length,
        "stride": stride,
        "columns": ["x", "pair"],
        "rest": "pad" if is_padded else "drop",
        "mask": "is_row",
    }
    made = call(windows, make_sequence(rows), options)
    want = cut(rows, length, stride, is_padded=is_padded)

    assert made["x"].shape == (len(want), length)
    assert made["pair"].shape == (len(want), length, 2)
    for number, window in enumerate(want):
        filled = [row + 1.0 for row in window] + [0.0] * (length - len(window))
        assert made["x"][number].tolist() == filled
        assert made["pair"][number, : len(window), 1].tolist() == [-row for row in window]
        assert not made["pair"][number, len(window) :].any()
        assert made["is_row"][number].tolist() == [place < len(window) for place in range(length)]
        assert made["label"][number] == window[-1]
        assert made["sequence"][number] == 7


def test_without_a_stride_windows_lie_beside_each_other() -> None:
    made = call(windows, make_sequence(7), {"length": 3, "columns": ["label"]})

    assert made["label"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert made["x"].dtype == np.float32
    assert list(made) == ["sequence", "x", "pair", "label"]


def test_the_sequence_stays_as_it_was() -> None:
    sequence = make_sequence(5)
    before = {name: values.copy() for name, values in sequence.items()}

    call(windows, sequence, {"length": 4, "columns": ["x"], "rest": "pad"})

    assert all((sequence[name] == before[name]).all() for name in before)


WORDS: Batch = {"word": np.array(["a", "b", "c"], dtype=object)}
FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "no rows": ({"length": 0}, "length is 0, must be a whole number from 1 on"),
    "a truth": ({"length": True}, "length is True, must be a whole number from 1 on"),
    "no step": ({"stride": 0.5}, "stride is 0.5, must be a whole number from 1 on"),
    "another rest": ({"rest": "keep"}, 'rest is "keep", known are drop and pad'),
    "no column": ({"columns": []}, r"columns is \[\], must be a list of names"),
    "one column": ({"columns": "word"}, 'columns is "word", must be a list of names'),
    "another column": ({"columns": ["x"]}, 'there is no column "x"; expected one of word'),
    "a mask that is there": ({"mask": "word"}, 'mask is "word", that column is there already'),
    "texts that are filled up": (
        {"rest": "pad"},
        'column "word" holds no numbers, rest must be drop',
    ),
}


@pytest.mark.parametrize(("options", "want"), FAULTS.values(), ids=FAULTS)
def test_a_wrong_option_is_named(options: dict[str, object], want: str) -> None:
    with pytest.raises(ValueError, match=want):
        call(windows, WORDS, {"length": 2, "columns": ["word"]} | options)
