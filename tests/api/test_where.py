"""A condition is read, or refused by a rule: nothing that a person writes does more than that."""

import pytest

from trainshed_api.errors import RuleError
from trainshed_api.where import Among, Compared, columns_of, parse_where

REFUSED = {
    "too deep": (
        "not " * 900 + "a == 1",
        "where: got more than 50 levels; expected .*, less deeply nested",
    ),
    "too deep for Python": ("not " * 1010 + "a == 1", "where: "),
    "too long": (" or ".join(["a < 1"] * 600), "of at most 4096 characters"),
    "wider than any column": ("a == " + "9" * 30, "where: got `a beside 999"),
    "among nothing": ("a in ()", r"where: got `a beside \(\)`"),
    "among values of several types": ('a in (1, "x")', r"where: got `a beside \(1, 'x'\)`"),
    "a call": ("(lambda: 1)() == 1", "where: got `"),
    "values alone": ("1 + 1 == 2", "where: got `1 [+] 1 beside 2`; expected .* with a column"),
    "another function": ("max(a) == 1", r"where: got `max\(a\) beside 1`"),
    "the length of a value": ('len("a") == 1', "where: got `len"),
    "a pattern that is a column": ("like(a, b)", r"where: got `like\(a, b\)`"),
    "sums that are too deep": ("+".join(["a"] * 99) + " > 1", "where: got `a "),
    "an attribute": ("a.b == 1", "where: got `"),
    "arithmetic": ("a == 10 ** 10 ** 10", "where: got `"),
    "no text": ("a == \0", "null bytes"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_condition_is_refused(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=said) as caught:
        parse_where(text)

    assert len(str(caught.value)) < 400


def test_numbers_up_to_the_ends_of_64_bits_are_values() -> None:
    assert parse_where(f"a >= {-(2**63)}") == Compared("a", ">=", -(2**63))
    assert parse_where(f"a in ({2**64 - 1}, 0.5)") == Among("a", (2**64 - 1, 0.5))


def test_a_condition_has_the_columns_of_what_it_computes() -> None:
    text = 'len(a) < b + col("c d") * 2 or like(e, "x%") or f is None'

    assert [*columns_of(parse_where(text))] == ["a", "b", "c d", "e", "f"]
