"""Observes a training function that knows nothing of it; `spec.train` of every program.

Runs in workers. What the driver does when it imports the module is a phase as well.
"""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from torch import nn

from hack.stops.marks import (
    begin,
    begin_batches,
    count_step,
    hold,
    identify,
    keep_weights,
)
from trainshed.worker.active_run import running
from trainshed.worker.current import Run
from trainshed.worker.evaluation import Score, Scores

# The dataset whose batches are the run's steps.
MAIN = "train"


def train(config: Mapping[str, object]) -> None:
    """Train `config["function"]` with `config["config"]`, observed."""
    module, _, name = str(config["function"]).partition(":")
    function = getattr(importlib.import_module(module), name)
    run = running()
    assert run
    begin(run.rank)
    if isinstance(run, Run):
        observed = Observed(run)
        function(config["config"])
        observed.finish()
    else:
        # This file may not name the boosting package: the framework of its functions differs.
        from hack.stops.observed_rounds import ObservedRounds

        rounds = ObservedRounds(run)
        function(config["config"])
        rounds.finish()


class Observed:
    """The run of this worker, whose methods report what they do.

    Args:
        run: its methods are replaced, as no subclass of it could be made.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.epoch = 0
        self._given: dict[str, list[int]] = {}
        self._has_stepped = False
        self._parts: dict[str, nn.Module] = {}
        self._batches, self._epochs, self._step = run.batches, run.epochs, run.backward_step
        self._evaluate, self._track = run.evaluate, run.track
        for name in ("batches", "epochs", "backward_step", "evaluate", "track"):
            setattr(run, name, getattr(self, name))

    def epochs(self) -> Iterator[int]:
        """Yield the epochs."""
        for epoch in self._epochs():
            self.epoch = epoch
            yield epoch
            hold("epoch-end", epoch=epoch)

    def batches(self, name: str, **options: type) -> Iterator[object]:
        """Yield batches; what was trained counts when the function is done with it."""
        for number, batch in enumerate(self._batches(name, **options)):
            self._given.setdefault(name, []).extend(identify(batch))
            step, self._has_stepped = self._run.step + 1, False
            if number == 0 and name == MAIN:
                begin_batches()
            try:
                yield batch
            finally:  # the function may leave a loop with the step that it has made
                if name == MAIN and self._has_stepped:
                    count_step(self._run.rank, self.epoch, step, self._given)
                    self._given.clear()

    def backward_step(self, *words: object, **named: object) -> None:
        """Go backward."""
        self._step(*words, **named)  # type: ignore[arg-type]  # whatever it takes
        self._has_stepped = True

    def evaluate(self, score: Score[object], *words: object, **named: object) -> dict[str, float]:
        """Evaluate."""

        def observed(module: nn.Module, batch: object) -> Scores:
            hold("evaluation", epoch=self.epoch)
            return score(module, batch)

        return self._evaluate(observed, *words, **named)  # type: ignore[arg-type]

    def track(self, *parts: object, **others: object) -> None:
        """Track one thing more, of which a checkpoint has to take the state."""
        named = {str(number): part for number, part in enumerate(parts)} | others
        for name, part in named.items():
            for each in part if isinstance(part, tuple) else (part,):
                if isinstance(each, nn.Module):
                    self._parts[name] = each
        self._track(*parts, **others, observer=Taken(self))  # type: ignore[arg-type]

    def finish(self) -> None:
        """Keep the weights of what was tracked; other functions keep theirs themselves."""
        states = {name: part.state_dict() for name, part in self._parts.items()}
        if states:
            if self._run.rank == 0:
                keep_weights(states, next(iter(states.values())))
            hold("report")


@dataclass
class Taken:
    """What a checkpoint takes the state of, so that its beginning is a phase."""

    observed: Observed

    def state_dict(self) -> dict[str, object]:
        """Return nothing."""
        hold("checkpoint", epoch=self.observed.epoch)
        return {"observed": True}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Load nothing."""


hold("import")
