"""Train a multilayer perceptron on rows of numbers: classification or regression.

Datasets: `train`, and `valid` for what is measured after each epoch. Features are
any columns of numbers; a column may hold one number a row or an array of them.
Shape letters: B rows of a batch, F features, K classes.
"""

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.programs.labels import LabelGuard
from trainshed.programs.models import mlp
from trainshed.programs.optimizer import build_optimizer
from trainshed.programs.options import ProgramOptions, fault


class TabularOptions(ProgramOptions):
    """Options of the tabular program."""

    task: Literal["classification", "regression"] = "classification"
    features: list[str] = Field(min_length=1, description="Columns the model looks at.")
    inputs: int = Field(
        default=0, ge=0, description="Numbers in a row of all features; 0: one a column."
    )
    label: str = Field(default="label", description="Column to predict.")
    classes: int = Field(default=2, ge=2, description="Labels go from 0 to classes - 1.")
    widths: list[int] = Field(default=[64, 64], description="Units of each hidden layer.")
    dropout: float = Field(default=0.0, ge=0, lt=1, description="Share dropped after each layer.")


def train(config: dict[str, object]) -> None:
    """Train on `config["features"]` to predict `config["label"]`."""
    # Ray Train is imported where it is needed: who only looks at this module does not wait.
    from ray.train.torch import prepare_model

    run = trainshed.current()
    options = TabularOptions.read(config)
    judge = Classification(options) if options.task == "classification" else Regression(options)
    inputs = options.inputs or len(options.features)
    model = prepare_model(mlp.build(inputs, options.widths, judge.outputs, options.dropout))
    optimizer, scheduler = build_optimizer(model, options)
    run.track(model, optimizer, scheduler)

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        features = join_features(batch, options.features, inputs)
        return judge.score(module(features).float(), batch[options.label], run.step)

    for _ in run.epochs():
        for batch in run.batches("train"):
            with run.autocast():
                outputs = model(join_features(batch, options.features, inputs))
                loss = judge.score(outputs, batch[options.label], run.step)["loss"].mean()
            run.backward_step(loss)
            run.log(loss=loss)
        judge.finish()
        run.evaluate(score)
        judge.finish()


class Classification:
    """Cross-entropy and accuracy of logits (B, K)."""

    def __init__(self, options: TabularOptions) -> None:
        self.outputs = options.classes
        self._labels = LabelGuard("train or valid", options.label, options.classes)

    def score(self, logits: Tensor, labels: Tensor, step: int) -> dict[str, Tensor]:
        """Return the loss and whether each row is right, (B,) each."""
        labels = self._labels.check(labels, step)
        loss = F.cross_entropy(logits, labels, reduction="none")
        return {"loss": loss, "accuracy": (logits.argmax(dim=1) == labels).float()}

    def finish(self) -> None:
        """Raise for a wrong label that was not reported yet."""
        self._labels.finish()


class Regression:
    """Squared and absolute error of predictions (B, 1)."""

    outputs = 1

    def __init__(self, options: TabularOptions) -> None:
        self._column = options.label

    def score(self, predictions: Tensor, targets: Tensor, _step: int) -> dict[str, Tensor]:
        """Return the squared error as the loss and the absolute error, (B,) each."""
        if targets.ndim != 1:
            raise ValueError(
                f'column "{self._column}": a target must be one number a row, got the shape '
                f"{tuple(targets.shape)}"
            )
        error = predictions.squeeze(1) - targets.float()
        return {"loss": error.square(), "absoluteError": error.abs()}

    def finish(self) -> None:
        """Nothing is left open: any number is a target."""


def join_features(batch: dict[str, Tensor], columns: list[str], inputs: int) -> Tensor:
    """Return the columns side by side as float (B, F).

    Raises:
        ValueError: when a column is not there or the numbers do not add up to `inputs`.
    """
    for column in columns:
        if column not in batch:
            raise fault("features", columns, f'"{column}" is not among {", ".join(batch)}')
    parts = [
        batch[column].float().flatten(1)
        if batch[column].ndim > 1
        else batch[column].float().unsqueeze(1)
        for column in columns
    ]
    features = torch.cat(parts, dim=1)
    if features.shape[1] != inputs:
        raise fault("inputs", inputs, f"a row of the features holds {features.shape[1]} numbers")
    return features
