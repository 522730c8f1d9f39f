"""One fault and the tests: those of its package that are quick, then those that are slow."""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hack.faults.checkout import Checkout
from hack.faults.table import Fault

SLOW = "not (e2e or gpu or tensorflow or azure)"
PURE = f"{SLOW} and not (ray or control_plane)"
# What pytest ends with: all passed, some failed, nothing was chosen.
PASSED, FAILED, NOTHING = 0, 1, 5
_SKIPPED = re.compile(r"\b\d+ skipped\b")
_SEEN_BY = re.compile(r"^(?:FAILED|ERROR) (\S+::.*?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """Which test saw a fault.

    Args:
        fault: its id.
        caught: by which tests; empty for none.
        test: that saw it.
        seconds: until then.
        notes: what was left out.
    """

    fault: str
    caught: Literal["pure", "slow", ""]
    test: str
    seconds: float
    notes: tuple[str, ...]


def try_fault(checkout: Checkout, fault: Fault, *, with_slow: bool) -> Result:
    """Return which test sees the fault first."""
    began = time.monotonic()
    phases: list[tuple[Literal["pure", "slow"], tuple[str, ...], str]]
    phases = [("pure", fault.pure, PURE), ("slow", fault.slow, SLOW)]
    notes: list[str] = []
    for phase, targets, chosen in phases if with_slow else phases[:1]:
        notes += [f"no {target}" for target in targets if not checkout.has_target(target)]
        there = [target for target in targets if checkout.has_target(target)]
        with checkout.having(fault):
            seen = _first_failure(checkout, there, chosen, notes) if there else ""
        # A test that fails without the fault as well has seen something else.
        if seen and _first_failure(checkout, [seen], chosen, []):
            notes.append(f"{seen} fails without the fault")
        elif seen:
            return Result(fault.id, phase, seen, time.monotonic() - began, tuple(notes))
    return Result(fault.id, "", "", time.monotonic() - began, tuple(notes))


def _first_failure(checkout: Checkout, there: Sequence[str], chosen: str, notes: list[str]) -> str:
    """Return the first test that fails; empty where all pass. What is skipped is noted."""
    done = subprocess.run(
        [checkout.python, "-m", "pytest", "-x", "-q", "-m", chosen, *there],
        cwd=checkout.root, env=checkout.environment,
        check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if done.returncode in (PASSED, NOTHING):
        if skipped := _SKIPPED.search(done.stdout):
            notes.append(skipped[0])
        return ""
    found = _SEEN_BY.search(done.stdout)
    if done.returncode != FAILED or found is None:
        # A fault that keeps a file of tests from being imported is seen, too; pytest says 2 then.
        collecting = re.search(r"^ERROR (\S+)", done.stdout, re.MULTILINE)
        if collecting is None:
            print(done.stdout, file=sys.stderr)
            raise SystemExit(f"pytest ended with {done.returncode} and named no test")
        return collecting[1]
    return found[1]
