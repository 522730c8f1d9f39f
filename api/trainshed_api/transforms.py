"""What is done to the rows of a dataset, by functions of the user's, and what that takes."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.schema import (
    MOST_COUNT,
    Bytes,
    Count,
    FunctionName,
    Integer,
    JsonObject,
    NonEmpty,
    SpecModel,
    annotate,
)

TransformKind = Literal["batches", "rows", "filter", "groups"]
BatchFormat = Literal["numpy", "pandas", "pyarrow"]


class TransformSpec(SpecModel):
    """One function over the rows that does the same in every epoch; its result may be cached."""

    use: FunctionName = Field(
        description="module:function, or a class: an instance is created once in each process and"
        " called.",
        json_schema_extra=annotate("app", "never"),
    )
    kind: TransformKind = Field(
        default="batches",
        description="Input of the function. batches: some rows; it returns rows. rows: one row; "
        "it returns one row. filter: some rows; it returns True for each row to keep."
        " groups: all rows with equal values in `by`; it returns any number of rows.",
        json_schema_extra=annotate("app", "never"),
    )
    options: JsonObject = Field(
        default_factory=dict,
        description="Keyword arguments of the function.",
        json_schema_extra=annotate("app", "never"),
    )
    init: JsonObject = Field(
        default_factory=dict,
        description="Keyword arguments of the constructor, if `use` is a class.",
        json_schema_extra=annotate("app", "never"),
    )
    batch_size: Count | None = Field(
        default=None,
        description="Maximum rows in one call, for kind batches and filter. The default is a "
        "whole block.",
        json_schema_extra=annotate("app", "never"),
    )
    batch_format: BatchFormat = Field(
        default="numpy",
        description="Type of the input: a dict of NumPy arrays, a pandas DataFrame or a pyarrow "
        "Table. The function may return any of them.",
        json_schema_extra=annotate("app", "never"),
    )
    by: tuple[NonEmpty, ...] = Field(
        default=(),
        description="For kind groups: the columns whose values identify a group.",
        json_schema_extra=annotate("app", "never"),
    )
    order_by: tuple[NonEmpty, ...] = Field(
        default=(),
        description="For kind groups: the columns by which the rows of a group are sorted. Equal "
        "rows, and all rows without this field, are in the order of the files.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _fields_fit_the_kind(self) -> Self:
        problems = []
        if self.batch_size is not None and self.kind not in ("batches", "filter"):
            expected = "no value without kind batches or filter"
            problems.append(Problem("batchSize", str(self.batch_size), expected))
        if self.batch_format != "numpy" and self.kind == "rows":
            expected = "no value with kind rows, which are dicts; or another kind"
            problems.append(Problem("batchFormat", show_value(self.batch_format), expected))
        if self.kind == "groups" and not self.by:
            expected = "missing; expected the columns that make a group"
            problems.append(Problem("by", None, expected))
        for name, columns in (("by", self.by), ("orderBy", self.order_by)):
            if columns and self.kind != "groups":
                expected = "no value without kind groups"
                problems.append(Problem(name, show_value(list(columns)), expected))
        if problems:
            raise RuleError(problems)
        return self


class FunctionSpec(SpecModel):
    """A function, or a class, and what it is given beside rows."""

    use: FunctionName
    options: JsonObject = Field(
        default_factory=dict,
        description="Keyword arguments of the function.",
        json_schema_extra=annotate("app", "never"),
    )
    init: JsonObject = Field(
        default_factory=dict,
        description="Keyword arguments of the constructor, if `use` is a class.",
        json_schema_extra=annotate("app", "never"),
    )


class AugmentSpec(FunctionSpec):
    """One random function over batches, different in each epoch; it runs after every cache."""

    use: FunctionName = Field(
        description="module:function of one batch, or a class as in `transforms`. It may take "
        "`rng`, a generator whose random numbers depend on seed, epoch and row.",
        json_schema_extra=annotate("app", "never"),
    )


class CollateSpec(FunctionSpec):
    """The function that makes of the rows of a batch what the model takes."""

    use: FunctionName = Field(
        description="module:function of a batch's columns, or a class as in `transforms`. It may "
        "take `rng` as in `augment`. It returns tensors and arrays, in nested dicts, "
        "lists, tuples and dataclasses.",
        json_schema_extra=annotate("app", "never"),
    )


class TaskSpec(SpecModel):
    """What each task of Ray Data is given that reads and transforms rows of a dataset."""

    cpus: Integer = Field(
        default=1,
        ge=1,
        le=MOST_COUNT,
        description="CPUs of each task, for functions that use threads; at most data.cpus.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    memory: Bytes | None = Field(
        default=None,
        description="Memory to reserve for each task, such as 4Gi, which limits the tasks on a "
        "node. The default reserves none.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )

    def say(self) -> str:
        """Return it in words."""
        memory = f", {self.memory} of memory" if self.memory else ""
        return f"{self.cpus} CPUs{memory}"
