"""Numbers and times as people read them."""

import pytest

from trainshed.display.formatting import (
    MISSING,
    say_bytes,
    say_duration,
    say_lines_plainly,
    say_moment,
    say_number,
    say_percent,
    say_plainly,
    say_whole_seconds,
)
from trainshed.display.time_budget import split_time

DURATIONS = {
    None: MISSING,
    0.0: "0.0 s",
    0.02: "20 ms",
    8.44: "8.4 s",
    41.6: "42 s",
    200.0: "3 min 20 s",
    7_500.0: "2 h 05 min",
    273_600.0: "3 d 4 h",
}


@pytest.mark.parametrize(("seconds", "want"), DURATIONS.items())
def test_durations(seconds: float | None, want: str) -> None:
    assert say_duration(seconds) == want


def test_elapsed_time_has_no_fractions() -> None:
    assert say_whole_seconds(8.9) == "8 s"


@pytest.mark.parametrize(
    ("value", "want"),
    [(None, MISSING), (float("nan"), "nan"), (0.97222, "0.9722"), (5210.4, "5,210"), (3.0, "3")],
)
def test_numbers(value: float | None, want: str) -> None:
    assert say_number(value) == want


def test_sizes_shares_and_moments() -> None:
    assert say_bytes(1_820_000) == "1.82 MB"
    assert say_bytes(3e12) == "3 TB"
    assert (say_percent(2.04), say_percent(61.2), say_percent(None)) == ("2.0 %", "61 %", MISSING)
    assert say_moment(1_700_000_000) == "2023-11-14 22:13:20 UTC"
    assert say_moment(1e300) == MISSING


@pytest.mark.parametrize(
    ("value", "want"),
    [(98.6, "99 %"), (99.7, "99.7 %"), (99.999, "99.9 %"), (100.0, "100 %"), (104.0, "104 %")],
)
def test_only_all_of_it_is_a_hundred_percent(value: float, want: str) -> None:
    assert say_percent(value) == want


def test_seconds_that_no_bucket_measured_are_named() -> None:
    parts = split_time({"training": 6.0, "starting": 2.0, "lost": 0.0}, 10.0)

    assert [(part.label, part.percent) for part in parts] == [
        ("training", 60.0),
        ("starting", 20.0),
        ("not accounted for", 20.0),
    ]


def test_run_without_time_has_no_budget() -> None:
    assert split_time({}, 0.0) == []


def test_what_a_terminal_would_obey_is_not_repeated() -> None:
    asked = "a\tb \x1b]52;c;eA==\x07 c\nd \x9bm \u202ecba"

    assert say_plainly(asked) == "a\tb \ufffd]52;c;eA==\ufffd c\ufffdd \ufffdm \ufffdcba"
    assert say_lines_plainly("a\x1b[2J\n  b\r\n") == "a\ufffd[2J\n  b\ufffd\n"
    assert say_plainly("s3://bucket/d\u00e4\u00e9\u4e2d") == "s3://bucket/d\u00e4\u00e9\u4e2d"
