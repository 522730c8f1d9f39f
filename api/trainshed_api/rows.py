"""How the rows of a dataset are read: files, a function or a reader by name, or other datasets."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.formats import FormatName, options_of
from trainshed_api.names import BUCKET_SCHEMES
from trainshed_api.schema import (
    MOST_COUNT,
    Boolean,
    Bytes,
    FunctionName,
    Integer,
    JsonObject,
    NonEmpty,
    ReaderName,
    Share,
    SpecModel,
    Weights,
    annotate,
)
from trainshed_api.where import parse_where

# Of those of a mix, of all weights together: what a dataset is dealt in turns of 65,536 rows.
LEAST_SHARE = 0.0001
# Formats of which a log says which files there are.
_TABLES = ("delta", "iceberg", "lance")


class HoldoutSpec(SpecModel):
    """Which part of the rows is read if two datasets share files: random or by time, and fixed."""

    share: Share | None = Field(
        default=None,
        description="Fraction of the rows in the holdout: approximate, or exact with `stratify`. "
        "With `by`, the approximate fraction of its values. Set this or `before`.",
        json_schema_extra=annotate("app", "never"),
    )
    by: NonEmpty | None = Field(
        default=None,
        description="Column of the files, such as a user or a patient. All rows with the same "
        "value are on the same side. With `before`, the column of the time.",
        json_schema_extra=annotate("app", "never"),
    )
    before: NonEmpty | None = Field(
        default=None,
        description='Value of the column `by`, such as "2026-01-31": all later rows, and those of '
        "this value, are the holdout. Rows without a value are outside it.",
        json_schema_extra=annotate("app", "never", only_with="by"),
    )
    keep: Literal["rest", "held"] = Field(
        description="rest: the rows outside the holdout. held: the rows in the holdout.",
        json_schema_extra=annotate("app", "never"),
    )
    seed: Integer = Field(
        default=0,
        ge=0,
        le=MOST_COUNT,
        description="Seed of the holdout. It is independent of spec.seed, so that runs with "
        "different seeds are compared on the same rows.",
        json_schema_extra=annotate("app", "never"),
    )
    stratify: NonEmpty | None = Field(
        default=None,
        description="Column of the files. The holdout has the same fraction of the rows of each "
        "of its values, rounded to whole rows. This column of all rows is read before"
        " the run starts.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _has_one_rule(self) -> Self:
        problems = []
        if self.share is None and self.before is None:
            expected = "a number between 0 and 1, such as 0.2, or `by` and `before`"
            problems.append(Problem("share", None, f"missing; expected {expected}"))
        if self.share is not None and self.before is not None:
            problems.append(Problem("share", f"{self.share:g}", "no value with before"))
        if self.before is not None and self.by is None:
            problems.append(Problem("before", self.before, "no value without by"))
        if self.stratify is not None and self.by is not None:
            problems.append(Problem("stratify", self.stratify, "no value with by"))
        if problems:
            raise RuleError(problems)
        return self


class ReadSpec(SpecModel):
    """Where the rows of a dataset come from: files, a function of yours, or other datasets."""

    format: FormatName | None = Field(
        default=None,
        description="Format of the files in `path`. Set this, `use`, `reader` or `mix`.",
        json_schema_extra=annotate("app", "never"),
    )
    path: NonEmpty | None = Field(
        default=None,
        description="File or folder to read: a path, an address in a bucket, or an http:// or "
        "https:// address of one file. A relative path is below TRAINSHED_HOME, or, "
        "if that is not set, below the folder of the TrainingRun file.",
        json_schema_extra=annotate("app", "never", only_with="format"),
    )
    columns: tuple[NonEmpty, ...] = Field(
        default=(),
        description="Columns to read; empty reads all.",
        json_schema_extra=annotate("app", "never", only_with="format"),
    )
    where: NonEmpty | None = Field(
        default=None,
        description='Filter on the rows, such as label < 5 and split == "train": comparisons, in,'
        " is None, len, like, match, arithmetic, and, or, not. Parquet row groups without such rows"
        " are skipped.",
        json_schema_extra=annotate("app", "never", only_with="format"),
    )
    holdout: HoldoutSpec | None = Field(
        default=None,
        description="Split of the rows between two datasets with the same files: each row is in "
        "exactly one of them, whatever their other fields are.",
        json_schema_extra=annotate("app", "never", only_with="format"),
    )
    anonymous: Boolean = Field(
        default=False,
        description="Read a public bucket without credentials.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    requester_pays: Boolean = Field(
        default=False,
        description="Read an s3:// bucket whose requester pays for the requests.",
        json_schema_extra=annotate("app", "nextAttempt"),
    )
    endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://[^/@?#]+/?$",
        description="URL of the object store of an s3:// path. The default is the endpoint of the"
        " environment, which is that of the run storage.",
        json_schema_extra=annotate("app", "nextAttempt", only_with="format")
        | {
            "expected": "a URL of scheme, host and port, such as "
            "https://s3.eu-central-1.amazonaws.com"
        },
    )
    region: NonEmpty | None = Field(
        default=None,
        description="Region of the bucket of an s3:// path. The default is the region of the "
        "environment.",
        json_schema_extra=annotate("app", "nextAttempt", only_with="format"),
    )
    local_cache: Bytes | None = Field(
        default=None,
        description="Cache downloaded files on the node's disk, up to this size over all "
        "datasets, such as 20Gi. The least recently read files are deleted first.",
        json_schema_extra=annotate("app", "nextAttempt", only_with="format"),
    )
    use: FunctionName | None = Field(
        default=None,
        description="module:function that returns a ray.data.Dataset; it is called with `options`.",
        json_schema_extra=annotate("app", "never"),
    )
    reader: ReaderName | None = Field(
        default=None,
        description="Any other reader of ray.data, such as read_sql. It is called with `options`,"
        " in which module:function stands for a function of yours. Its rows are "
        "cached.",
        json_schema_extra=annotate("app", "never"),
    )
    options: JsonObject = Field(
        default_factory=dict,
        description="Options of the format, or keyword arguments of `use` or `reader`.",
        json_schema_extra=annotate("app", "never"),
    )
    mix: Weights | None = Field(
        default=None,
        description="Other datasets of the run with a weight each: the rows of all of them are "
        "interleaved, each in proportion to its weight.",
        json_schema_extra=annotate("app", "never"),
    )

    @model_validator(mode="after")
    def _read_one_way(self) -> Self:
        ways = {"format": self.format, "use": self.use, "reader": self.reader, "mix": self.mix}
        given = [name for name, value in ways.items() if value is not None]
        if len(given) != 1:
            got = " and ".join(given) or "none of format, use, reader and mix"
            expected = "exactly one: format (with path), use, reader or mix"
            raise RuleError([Problem("", got, expected)])
        if self.format is not None and self.path is None:
            raise RuleError([Problem("path", None, "missing; expected the file or folder to read")])
        values = {
            "path": (self.path, "format"),
            "columns": (self.columns, "format"),
            "where": (self.where, "format"),
            "holdout": (self.holdout and (self.holdout.share or self.holdout.by), "format"),
            "endpoint": (self.endpoint, "format"),
            "region": (self.region, "format"),
            "localCache": (self.local_cache, "format"),
        }
        problems = [
            Problem(name, show_value(value), f"no value without {way}")
            for name, (value, way) in values.items()
            if value and way not in given
        ]
        if self.options and self.mix is not None:
            problems.append(Problem("options", show_value(self.options), "it without mix"))
        if problems:
            raise RuleError(problems)
        if self.format is not None:
            options_of(self.format, self.options)
        if self.where is not None:
            parse_where(self.where)
        return self

    @model_validator(mode="after")
    def _values_fit_the_source(self) -> Self:
        scheme, separator, _ = (self.path or "").partition("://")
        values = {
            "anonymous": (self.anonymous, BUCKET_SCHEMES),
            "requesterPays": (self.requester_pays, ("s3",)),
            "endpoint": (self.endpoint, ("s3",)),
            "region": (self.region, ("s3",)),
        }
        problems = [
            Problem(
                name, show_value(value), f"no value without a path at {'://, '.join(schemes)}://"
            )
            for name, (value, schemes) in values.items()
            if value and not (separator and scheme in schemes)
        ]
        if self.local_cache and self.format in _TABLES:
            expected = f"no value with format {self.format}, whose log and files are read by ranges"
            problems.append(Problem("localCache", show_value(self.local_cache), expected))
        weights = self.mix or {}
        least = LEAST_SHARE * sum(weights.values())
        problems += [
            Problem(f"mix.{name}", str(weight), f"at least {least:g} beside the others")
            for name, weight in weights.items()
            if weight < least
        ]
        if problems:
            raise RuleError(problems)
        return self
