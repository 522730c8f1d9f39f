"""What may be said of each format of files: the names and values of `read.options` beside `format`.

A format whose options are not named here takes none. How each is read is the run's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from trainshed_api.errors import Problem, RuleError, show_value
from trainshed_api.schema import Boolean, Count, Integer, NonEmpty, SpecModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

FormatName = Literal[
    "parquet",
    "csv",
    "json",
    "text",
    "images",
    "binary",
    "numpy",
    "tfrecords",
    "webdataset",
    "audio",
    "video",
    "lance",
    "delta",
    "iceberg",
]
FORMATS: tuple[FormatName, ...] = get_args(FormatName)

# Of a column of a text file: how its values are written says the rest.
ColumnType = Literal["bool", "int32", "int64", "float32", "float64", "string"]
OneCharacter = Annotated[str, Field(min_length=1, max_length=1)]
# Encodings of one byte a character, whose first 128 are ASCII: their files can be cut at line ends.
Encoding = Literal[
    "utf-8",
    "latin-1",
    "iso-8859-2",
    "iso-8859-15",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "koi8-r",
]
# Of a recording, in seconds.
Length = Annotated[float, Field(ge=0.001, le=86_400)]


class NoOptions(SpecModel):
    """Of a format that tells all by itself."""


class CsvOptions(SpecModel):
    """Of comma-separated values."""

    delimiter: OneCharacter = Field(default=",", description="Between two values.")
    quote: Annotated[str, Field(max_length=1)] = Field(
        default='"', description="Around a value that has delimiters; empty: quotes are text."
    )
    escape: OneCharacter | None = Field(
        default=None,
        description="Before a quote inside a value, such as the backslash of Spark and MySQL.",
    )
    comment: OneCharacter | None = Field(
        default=None, description="Skip lines that begin with this character."
    )
    decimal: Literal[".", ","] = Field(default=".", description="Decimal point of numbers.")
    null_values: tuple[str, ...] = Field(
        default=(),
        description="Texts that mean a missing number, beside the usual ones such as NA and null.",
    )
    encoding: Encoding = Field(
        default="utf-8", description="Encoding of the files; convert files in any other one."
    )
    header: Boolean = Field(default=True, description="Whether a file's first line names columns.")
    names: tuple[NonEmpty, ...] = Field(
        default=(), description="The columns, where no header names them."
    )
    types: dict[str, ColumnType] = Field(
        default_factory=dict,
        description="Type of a column; of others the first lines of some files tell.",
    )
    multiline: Boolean = Field(
        default=False,
        description="Whether values in quotes may have line ends: each file is then read whole.",
    )

    @model_validator(mode="after")
    def _characters_differ(self) -> Self:
        given = (self.delimiter, self.quote, self.escape, self.comment)
        used = [character for character in given if character]
        if len({*used}) < len(used) or any(not c.isascii() or c.isalnum() for c in used):
            what = "delimiter, quote, escape and comment"
            raise ValueError(f"{what} that differ and are ASCII, but no letters or digits")
        if self.comment and self.multiline:
            raise ValueError("comment or multiline, not both: a quoted line may begin alike")
        return self


class JsonOptions(SpecModel):
    """Of JSON, an object a row."""

    lines: Boolean = Field(
        default=True,
        description="true: an object on each line. false: each file is one list of objects.",
    )
    types: dict[str, ColumnType] = Field(
        default_factory=dict,
        description="Type of a column; of others the first lines of some files tell.",
    )


class TextOptions(SpecModel):
    """Of plain text, a line a row, in the column `text`."""

    empty_lines: Boolean = Field(default=False, description="Whether an empty line is a row.")


class ImagesOptions(SpecModel):
    """Of pictures, one a file, in the column `image` as they are stored."""

    labels: Literal["folder", "none"] = Field(
        default="folder",
        description="folder: the column `label` numbers the folders right below `path`, by name.",
    )


class TfrecordsOptions(SpecModel):
    """Of TensorFlow's records, an `Example` each."""

    lengths: dict[str, Integer] = Field(
        default_factory=dict,
        description="Values of a column, where not each row has one; 0 for any number.",
    )


class WebdatasetOptions(SpecModel):
    """Of tar files whose members come in groups of one name, a column for each ending."""

    decode: Boolean = Field(
        default=True,
        description="Whether numbers (cls, id), texts (txt), json and npy are decoded.",
    )


class AudioOptions(SpecModel):
    """Of recordings, one a file, in the columns `audio` and `rate`."""

    labels: Literal["folder", "none"] = Field(
        default="none",
        description="folder: the column `label` numbers the folders right below `path`, by name.",
    )
    seconds: Length | None = Field(
        default=None,
        description="Cut or pad with silence to this length; by default each keeps its length.",
    )
    rate: Count | None = Field(
        default=None,
        description="Frames a second that each must have; else, with `seconds`, the first one's.",
    )


class VideoOptions(SpecModel):
    """Of films, a frame a row, in the columns `frame`, `number` and `path`."""

    every: Count = Field(default=1, description="Take each so-manieth frame.")
    size: tuple[Count, Count] | None = Field(
        default=None,
        description="Height and width in pixels to scale to; else films must be of one size.",
    )


class DeltaOptions(SpecModel):
    """Of Delta tables."""

    version: Integer | None = Field(
        default=None, ge=0, description="Which version; without it the newest, which is then kept."
    )


class IcebergOptions(SpecModel):
    """Of Iceberg tables; `path` is the table's identifier, namespace.table."""

    catalog: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of the catalog as pyiceberg has them: `name`, `type`, `uri`.",
    )
    snapshot: Integer | None = Field(
        default=None, description="Which snapshot; without it the newest, which is then kept."
    )


class LanceOptions(SpecModel):
    """Of Lance tables."""

    version: Count | None = Field(
        default=None, description="Which version; without it the newest, which is then kept."
    )


_OPTIONS: Mapping[FormatName, type[SpecModel]] = {
    "csv": CsvOptions,
    "json": JsonOptions,
    "text": TextOptions,
    "images": ImagesOptions,
    "tfrecords": TfrecordsOptions,
    "webdataset": WebdatasetOptions,
    "audio": AudioOptions,
    "video": VideoOptions,
    "delta": DeltaOptions,
    "iceberg": IcebergOptions,
    "lance": LanceOptions,
}


def options_of(name: FormatName, given: Mapping[str, JsonValue]) -> SpecModel:
    """Return what a format's options say.

    Raises:
        RuleError: naming each option, below `options`, that the format does not have, or whose
            value it cannot be.
    """
    model = _OPTIONS.get(name, NoOptions)
    try:
        return model.model_validate(dict(given), by_alias=True, by_name=False)
    except ValidationError as error:
        raise RuleError([_problem(name, model, detail) for detail in error.errors()]) from None


def _problem(name: str, model: type[SpecModel], detail: Mapping[str, object]) -> Problem:
    path = detail["loc"]
    assert isinstance(path, tuple)
    field = ".".join(["options", *map(str, path)])
    known = ", ".join(each.alias or key for key, each in model.model_fields.items())
    if detail["type"] == "extra_forbidden":
        valid = f"format {name} has {known}" if known else f"format {name} has no options"
        return Problem(field, None, f"unknown option; {valid}")
    message = str(detail["msg"]).removeprefix("Value error, ")
    return Problem(field, show_value(detail["input"]), message[:1].lower() + message[1:])
