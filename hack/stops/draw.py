"""Which stops are tried: combinations of program, phase and signal, drawn by a seed. Pure."""

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

BEFORE_WORKERS = ("import", "planning", "cluster-start")
PHASES = (
    *BEFORE_WORKERS,
    "first-batch",
    "training",
    "waiting-for-rows",
    "checkpoint",
    "evaluation",
    "epoch-end",
    "report",
    "early-loss",
    "second-attempt",
)
# The signals that ask for a stop, and the exit code that docs/cli.md promises for each.
# `suspend` is the controller's answer to a snapshot of the driver: spec.suspend reaches it so.
SOFT = {"interrupt": 130, "terminate": 143, "terminate-group": 143, "suspend": 143}
# Those that end a process at once. Workers start again inside the attempt; without its coordinator
# the attempt has failed, by a fault of the infrastructure.
KILLS = {"kill-driver": 137, "kill-worker": 0, "kill-coordinator": 75}
SIGNALS = (*SOFT, *KILLS)
NEED_WORKERS = ("kill-worker", "kill-coordinator")

# Epochs of every program, and its minimum of steps.
EPOCHS, STEPS = 3, 18


@dataclass(frozen=True)
class Stop:
    """One stop of one run.

    Args:
        at: where in the phase: the step of `training`; other phases take an epoch from it.
    """

    program: str
    phase: str
    signal: str
    at: int

    @property
    def name(self) -> str:
        """Return what `--only` takes."""
        return f"{self.program}/{self.phase}/{self.signal}"


def find_possible(phases: Mapping[str, Collection[str]], seed: int) -> list[Stop]:
    """Return every stop that can happen.

    Args:
        phases: those that each program reaches, by its name.
    """
    return [
        Stop(program, phase, signal, _choose_step(seed, program, phase, signal))
        for program, reached in phases.items()
        for phase in PHASES
        for signal in SIGNALS
        if phase in reached and _can_be_sent(signal, phase)
    ]


def draw(possible: Sequence[Stop], seed: int, count: int) -> list[Stop]:
    """Return `count` different stops, or all, so that every program, phase and signal is drawn.

    Each time it takes a stop whose program, phase and signal were drawn least often until then.
    """
    generator = random.Random(seed)
    left = generator.sample(possible, len(possible))
    drawn: list[Stop] = []
    times: Counter[str] = Counter()
    while left and len(drawn) < count:
        stop = min(left, key=lambda s: sorted((times[p] for p in _parts(s)), reverse=True))
        left.remove(stop)
        times.update(_parts(stop))
        drawn.append(stop)
    return drawn


def _can_be_sent(signal: str, phase: str) -> bool:
    if signal == "suspend":  # its driver joins a Ray that runs already
        return phase != "cluster-start"
    return signal not in NEED_WORKERS or phase not in BEFORE_WORKERS


def _parts(stop: Stop) -> tuple[str, str, str]:
    return f"program {stop.program}", f"phase {stop.phase}", f"signal {stop.signal}"


def _choose_step(seed: int, *names: str) -> int:
    # Not the first one, which is a separate phase, nor the last ones, after which all is over.
    return random.Random("/".join([str(seed), *names])).randrange(2, STEPS - 2)
