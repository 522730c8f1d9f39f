"""The user's rules about failures: which count otherwise, and which end the run. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainshed_controller.judge import Ending

if TYPE_CHECKING:
    from trainshed_api.failure import FailurePolicySpec


def apply_rules(ending: Ending, policy: FailurePolicySpec) -> tuple[Ending, bool]:
    """Return the ending as the user's rules see it, and whether they forbid a further attempt."""
    if ending.outcome not in ("Application", "Infrastructure", "OutOfMemory"):
        return ending, False
    for rule in policy.rules:
        if rule.exit_codes and ending.exit_code not in rule.exit_codes:
            continue
        if rule.log_pattern and not contains(f"{ending.message}\n{ending.logs}", rule.log_pattern):
            continue
        if rule.action == "Fail":
            return ending, True
        changed = Ending(
            "Infrastructure", ending.reason, ending.message, ending.exit_code, ending.node
        )
        return changed, False
    return ending, False


def contains(text: str, pattern: str) -> bool:
    """Say whether the text has the pattern's parts in this order; no such search can hang."""
    position = 0
    for part in pattern.split("*"):
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True
