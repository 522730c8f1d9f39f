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
# Those that end a process or a Pod. Workers start again inside the attempt; without its
# coordinator, its head or its RayJob the attempt has failed, by a fault of the infrastructure.
KILLS = {
    "kill-driver": 137,
    "kill-worker": 0,
    "kill-coordinator": 75,
    "delete-worker-pod": 0,
    "delete-head-pod": 75,
    "delete-rayjob": 75,
}
EXIT_CODES = SOFT | KILLS | {"cut-controller": 0}

# The signals of whole runs on this machine, and the phases in which each cannot be sent.
SIGNALS: Mapping[str, Collection[str]] = {
    "interrupt": (),
    "terminate": (),
    "terminate-group": (),
    "suspend": ("cluster-start",),  # its driver joins a Ray that runs already
    "kill-driver": (),
    "kill-worker": BEFORE_WORKERS,
    "kill-coordinator": BEFORE_WORKERS,
}
# The same of TrainingRuns in Kubernetes, where a cluster starts before its driver.
SIGNALS_ON_NODE: Mapping[str, Collection[str]] = {
    "suspend": (),
    "terminate": ("cluster-start",),
    "kill-driver": ("cluster-start",),
    "kill-worker": BEFORE_WORKERS,
    "kill-coordinator": BEFORE_WORKERS,
    "delete-worker-pod": BEFORE_WORKERS,
    "delete-head-pod": (),
    "delete-rayjob": (),
    "cut-controller": (),
}

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


def find_possible(
    phases: Mapping[str, Collection[str]],
    seed: int,
    signals: Mapping[str, Collection[str]] = SIGNALS,
) -> list[Stop]:
    """Return every stop that can happen.

    Args:
        phases: those that each program reaches, by its name.
        signals: with the phases in which each cannot be sent.
    """
    return [
        Stop(program, phase, signal, _choose_step(seed, program, phase, signal))
        for program, reached in phases.items()
        for phase in PHASES
        for signal, excluded in signals.items()
        if phase in reached and phase not in excluded
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


def _parts(stop: Stop) -> tuple[str, str, str]:
    return f"program {stop.program}", f"phase {stop.phase}", f"signal {stop.signal}"


def _choose_step(seed: int, *names: str) -> int:
    # Not the first one, which is a separate phase, nor the last ones, after which all is over.
    return random.Random("/".join([str(seed), *names])).randrange(2, STEPS - 2)
