"""Which frameworks there are, what has to be installed for each, and which fields it cannot obey.

A field that a framework cannot obey is refused where it says anything but its default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

FrameworkName = Literal["torch", "xgboost", "tensorflow"]


@dataclass(frozen=True)
class FrameworkRules:
    """What the contract knows of a framework.

    Args:
        module: that has to be installed where workers run.
        refused: fields of the spec, and why the framework cannot obey each.
        refused_of_datasets: the same by paths below each dataset.
        takes_text: whether a column of texts can be trained on as it is.
        most_gpus: of one worker; None for any number.
        dtypes_refused: of `feed.dtypes`.
        may_learn_rows: whether training begins before anybody knows the rows of an epoch.
    """

    module: str
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_of_datasets: Mapping[str, str] = field(default_factory=dict)
    takes_text: bool = False
    most_gpus: int | None = None
    dtypes_refused: tuple[str, ...] = ()
    may_learn_rows: bool = False

    @property
    def has_batches(self) -> bool:
        """Say whether a step is a batch of rows."""
        return "batchSize" not in self.refused


_ALL_ROWS = "every round looks at all rows"
_TORCH_PROFILER = "torch.profiler records steps of PyTorch"
_CONFIG_ROUNDS = "a step is a round, and spec.config says how many there are"

RULES: Mapping[FrameworkName, FrameworkRules] = {
    "torch": FrameworkRules("torch", may_learn_rows=True),
    "xgboost": FrameworkRules(
        "xgboost",
        refused={
            "epochs": _CONFIG_ROUNDS,
            "batchSize": _ALL_ROWS,
            "accumulate": _ALL_ROWS,
            "precision": "XGBoost computes in float32",
            "syncBatchNorm": "trees have no BatchNorm",
            "profile": _TORCH_PROFILER,
        },
        refused_of_datasets={
            "shuffle.mode": _ALL_ROWS,
            "shuffle.bufferSize": _ALL_ROWS,
            "augment": _ALL_ROWS,
            "read.mix": _ALL_ROWS,
            "rowsPerEpoch": _ALL_ROWS,
            "split": "each worker has its share of the rows, and together they have all",
            "feed.dtypes": "XGBoost takes features as float32",
            "feed.lastBatch": _ALL_ROWS,
            "feed.collate": "a matrix of numbers is made of all columns of rows",
        },
        takes_text=True,
    ),
    "tensorflow": FrameworkRules(
        "tensorflow",
        refused={
            "accumulate": "Keras makes a step of each batch",
            "precision": "a program of Keras sets it by tf.keras.mixed_precision",
            "syncBatchNorm": "a layer of Keras has it: BatchNormalization(synchronized=True)",
            "profile": _TORCH_PROFILER,
        },
        refused_of_datasets={
            "feed.collate": "the `pair` of its program makes inputs and targets of a batch",
        },
        # Its strategy would deal a worker's batches out to them, half of an epoch to each.
        most_gpus=1,
        dtypes_refused=("bfloat16",),
    ),
}
