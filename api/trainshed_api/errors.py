"""What is wrong with a TrainingRun, said so that its author can mend it: field, value, remedy."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_LONGEST_SHOWN = 80
_MOST_NAMES = 20


@dataclass(frozen=True)
class Problem:
    """One mistake.

    field: its dotted camelCase path. got: the value as shown to the user, None if it says nothing.
    expected: what would be right; without a value, the whole sentence.
    """

    field: str
    got: str | None
    expected: str

    def __str__(self) -> str:
        """One line for the user."""
        if self.got is None:
            return f"{self.field}: {self.expected}"
        return f"{self.field}: got {self.got}; expected {self.expected}"


class SpecError(ValueError):
    """A TrainingRun that cannot be accepted: every mistake found, and the file they are in."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        """Collect the problems of one file."""
        self.problems = tuple(problems)
        self.source = source
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RuleError(ValueError):
    """A broken cross-field rule of the model; paths are relative to the model that raises it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Collect the broken rules of one model."""
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def show_value(value: object) -> str:
    """Return the value as JSON, cut to what fits on a line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name that a misspelled one is likely to mean; upper case and _ do not count."""
    spellings = {each.lower().replace("_", ""): each for each in known}
    near = difflib.get_close_matches(name.lower().replace("_", ""), spellings, n=1, cutoff=0.6)
    return spellings[near[0]] if near else None


def one_of(name: str, known: Collection[str]) -> str:
    """Return what is expected instead of a name that is not known, with the nearest one."""
    listed = ", ".join([*known][:_MOST_NAMES])
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    near = nearest(name, known)
    return f"one of {listed}{more}" + (f". Did you mean {near}?" if near else "")


def no_column(name: str, columns: Collection[str]) -> str:
    """Return the text of an error about a column that rows do not have."""
    return f'there is no column "{name}"; expected {one_of(name, columns)}'
