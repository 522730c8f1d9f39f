"""Train a multilayer perceptron on rows of numbers: classification or regression.

Datasets: `train`, and `valid`, if there is one, for what is measured after each epoch.
Features are any columns of numbers; a column may hold one number a row or an array of them.
Shape letters: B rows of a batch, F features, K classes.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional as F

import trainshed
from trainshed.checkpoint.manifest import Prediction
from trainshed.programs.class_scores import class_scores
from trainshed.programs.label_guard import LabelGuard
from trainshed.programs.models import mlp
from trainshed.programs.optimizer import build_optimizer
from trainshed.programs.options import ProgramOptions, fault, pick


class TabularOptions(ProgramOptions):
    """Options of the tabular program."""

    task: Literal["classification", "regression"] = Field(
        default="classification", description="Predict a class or a number."
    )
    features: list[str] = Field(
        min_length=1, description="Input columns: numbers, or lists of numbers."
    )
    inputs: int = Field(
        default=0,
        ge=0,
        description="Numbers in one row of all features together; 0 means one in each column.",
    )
    label: str = Field(default="label", description="Column to predict.")
    classes: int = Field(
        default=2, ge=2, description="Number of classes; labels are 0 to classes - 1."
    )
    widths: list[int] = Field(
        default=[64, 64], description="Units of each hidden layer, from first to last."
    )
    dropout: float = Field(
        default=0.0, ge=0, lt=1, description="Dropout probability after each layer; 0 to below 1."
    )

    @property
    def num_inputs(self) -> int:
        """Numbers the model takes for a row."""
        return self.inputs or len(self.features)

    @property
    def outputs(self) -> int:
        """Numbers the model gives for a row."""
        return self.classes if self.task == "classification" else 1


def train(config: dict[str, object]) -> None:
    """Train on `config["features"]` to predict `config["label"]`."""
    # Ray Train is imported where it is needed: who only looks at this module does not wait.
    from ray.train.torch import prepare_model

    run = trainshed.current()
    options = TabularOptions.read(config)
    inputs = options.num_inputs
    model = prepare_model(build_model(config))
    optimizer, scheduler = build_optimizer(model, options)
    run.describe_model(
        features=options.features,
        builder=build_model,
        input_transform=join_features,
        predict=predict,
        config=config,
    )
    run.track(model, optimizer, scheduler)
    train_judge, valid_judge = build_judge(options, "train"), build_judge(options, "valid")

    def score(module: nn.Module, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        outputs = module(join_features(batch, options.features, inputs))
        return valid_judge.score(outputs.float(), pick(batch, options.label), run.step)

    for _ in run.epochs():
        for batch in run.batches("train"):
            with run.autocast():
                outputs = model(join_features(batch, options.features, inputs))
                labels = pick(batch, options.label)
                loss = train_judge.score(outputs, labels, run.step + 1)["loss"].mean()
            run.backward_step(loss)
            run.log(loss=loss)
        train_judge.finish()
        if "valid" in run.datasets:
            valid_judge.begin()
            run.evaluate(score)
            valid_judge.finish()
    counts = valid_judge.confusion()
    if counts is not None:
        run.sum_over_ranks(counts)
        if counts.any():
            run.show_confusion("rows of valid", counts)


def check_config(config: dict[str, object]) -> None:
    """Refuse a config that `train` would refuse.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    with torch.device("meta"):  # no memory for weights that nobody trains
        build_model(config)


def check_rows(config: dict[str, object], columns: Mapping[str, NDArray[np.generic]]) -> None:
    """Refuse first rows that `train` would refuse.

    Raises:
        ValueError: naming the column.
    """
    options = TabularOptions.read(config)
    pick(columns, options.label)
    features = {name: torch.from_numpy(pick(columns, name).copy()) for name in options.features}
    join_features(features, options.features, options.num_inputs)


def predict(
    model: Callable[[Tensor], Tensor], batch: dict[str, Tensor], about: Prediction
) -> dict[str, Tensor]:
    """Return the class of each row and the scores of all classes, or the number."""
    options = TabularOptions.read(about.config)
    outputs = model(join_features(batch, options.features, options.num_inputs))
    if options.task == "classification":
        return class_scores(outputs)
    return {"prediction": outputs.float().squeeze(1)}


def build_model(config: Mapping[str, object]) -> nn.Sequential:
    """Return the network that `config` describes.

    Raises:
        SpecError: naming `spec.config.<name>`.
    """
    options = TabularOptions.read(config)
    return mlp.build(options.num_inputs, options.widths, options.outputs, options.dropout)


def build_judge(options: TabularOptions, dataset: str) -> "Classification | Regression":
    """Return what turns the outputs for a dataset's rows into a loss and metrics."""
    if options.task == "classification":
        return Classification(options, dataset)
    return Regression(options, dataset)


class Classification:
    """Cross-entropy and accuracy of logits (B, K)."""

    def __init__(self, options: TabularOptions, dataset: str) -> None:
        self._labels = LabelGuard(dataset, options.label, options.classes)
        self._classes = options.classes
        self._confusion = torch.zeros(options.classes**2, dtype=torch.int64)

    def score(self, logits: Tensor, labels: Tensor, step: int) -> dict[str, Tensor]:
        """Return the loss and whether each row is right, (B,) each."""
        labels = self._labels.check(labels, step)
        loss = F.cross_entropy(logits, labels, reduction="none")
        taken_for = logits.argmax(dim=1)
        self._count(labels, taken_for)
        return {"loss": loss, "accuracy": (taken_for == labels).float()}

    def begin(self) -> None:
        """Reset the confusion matrix."""
        self._confusion = torch.zeros_like(self._confusion)

    def finish(self) -> None:
        """Raise for a wrong label that was not reported yet."""
        self._labels.finish()

    def confusion(self) -> NDArray[np.int64]:
        """Return what this rank's rows were taken for since `begin`, (K, K): is, taken for."""
        return self._confusion.cpu().reshape(self._classes, self._classes).numpy()

    def _count(self, labels: Tensor, taken_for: Tensor) -> None:
        pairs = labels * self._classes + taken_for
        # bincount would wait for a GPU to tell it the largest one.
        self._confusion = self._confusion.to(pairs.device)
        self._confusion.scatter_add_(0, pairs, torch.ones_like(pairs))


class Regression:
    """Squared and absolute error of predictions (B, 1)."""

    def __init__(self, options: TabularOptions, dataset: str) -> None:
        self._dataset = dataset
        self._column = options.label

    def score(self, predictions: Tensor, targets: Tensor, _step: int) -> dict[str, Tensor]:
        """Return the squared error as the loss and the absolute error, (B,) each."""
        check_targets(self._dataset, self._column, targets)
        error = predictions.squeeze(1) - targets.float()
        return {"loss": error.square(), "absoluteError": error.abs()}

    def begin(self) -> None:
        """Nothing is counted."""

    def finish(self) -> None:
        """Nothing is left open: any number is a target."""

    def confusion(self) -> None:
        """Return None: numbers are no classes."""


def check_targets(dataset: str, column: str, targets: Tensor) -> None:
    """Refuse targets that would be spread over predictions, instead of one for each.

    Raises:
        ValueError: naming the column.
    """
    if targets.ndim != 1:
        raise ValueError(
            f'dataset "{dataset}", column "{column}": a target must be one number a row, got the '
            f"shape {tuple(targets.shape)}"
        )


def join_features(batch: dict[str, Tensor], columns: list[str], inputs: int) -> Tensor:
    """Return the columns side by side as float (B, F).

    Raises:
        ValueError: when a column is not there.
        SpecError: when the numbers do not add up to `inputs`.
    """
    # parts: (B, numbers in the column) each
    parts = [pick(batch, column).float().reshape(len(batch[column]), -1) for column in columns]
    features = torch.cat(parts, dim=1)
    if features.shape[1] != inputs:
        raise fault("inputs", inputs, f"{features.shape[1]}: the length of a row of features")
    return features
