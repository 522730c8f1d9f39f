"""What is wrong with a TrainingRun, said so that its author can mend it: field, value, what would be right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LONGEST_SHOWN = 80


@dataclass(frozen=True)
class Problem:
    """One mistake: the dotted camelCase path of the field, the value got (if it matters) and what is wanted."""

    field: str
    got: str | None
    want: str

    def __str__(self) -> str:
        """One line for the user."""
        if self.got is None:
            return f"{self.field}: {self.want}"
        return f"{self.field}: got {self.got}, want {self.want}"


class SpecError(ValueError):
    """A TrainingRun that cannot be accepted; `problems` has every mistake found, `source` names the file."""

    def __init__(self, problems: Iterable[Problem], source: str = "") -> None:
        """Collect the problems of one file."""
        self.problems = tuple(problems)
        self.source = source
        super().__init__("\n".join(str(problem) for problem in self.problems))


class RuleError(ValueError):
    """Raised by the model's own cross-field rules; each path is relative to the model that raises it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Collect the broken rules of one model."""
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in problems))


def show_value(value: object) -> str:
    """Return the value as JSON, cut to what fits on a line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
