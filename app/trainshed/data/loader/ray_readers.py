"""Ray Data's readers by name: whether one exists, and accepts its arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, get_args, get_origin

from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.optional_packages import (
    OF_FORMATS,
    OptionalPackage,
    expected_packages,
    missing_of,
)
from trainshed.functions import find
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from trainshed.data.sampler.function import Function

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
MODULE = "ray.data"
# Packages that a reader or its tasks import: Ray 2.60 checks some of them only then.
PACKAGES: Mapping[str, Sequence[OptionalPackage]] = {
    "read_audio": [OF_FORMATS["audio"]],
    "read_avro": [OptionalPackage("fastavro", "fastavro")],
    "read_bigquery": [
        OptionalPackage("google.cloud.bigquery", "google-cloud-bigquery"),
        OptionalPackage("google.cloud.bigquery_storage", "google-cloud-bigquery-storage"),
    ],
    "read_clickhouse": [OptionalPackage("clickhouse_connect", "clickhouse-connect")],
    "read_delta": [OF_FORMATS["delta"]],
    "read_delta_sharing_tables": [OptionalPackage("delta_sharing", "delta-sharing")],
    "read_hudi": [OptionalPackage("hudi", "hudi")],
    "read_iceberg": [OF_FORMATS["iceberg"]],
    "read_images": [OptionalPackage("PIL", "pillow")],
    "read_kafka": [OptionalPackage("confluent_kafka", "confluent-kafka")],
    "read_lance": [OF_FORMATS["lance"]],
    "read_lerobot": [
        OptionalPackage("lerobot", "lerobot[dataset]"),
        OptionalPackage("fsspec", "fsspec"),
    ],
    "read_mcap": [OptionalPackage("mcap", "mcap")],
    "read_mongo": [
        OptionalPackage("pymongo", "pymongo"),
        OptionalPackage("pymongoarrow", "pymongoarrow"),
    ],
    "read_snowflake": [OptionalPackage("snowflake.connector", "snowflake-connector-python")],
    "read_tfrecords": [OptionalPackage("tensorflow", "tensorflow")],
    "read_unity_catalog": [OptionalPackage("databricks.sdk", "databricks-sdk")],
    "read_videos": [OptionalPackage("decord", "decord")],
    "read_zarr": [OptionalPackage("zarr", "zarr"), OptionalPackage("fsspec", "fsspec")],
}
# Types whose values a file can have; a function is given by name.
_PLAIN = (str, int, float, bool, list, dict, Any, inspect.Parameter.empty)
# Readers with one task for all rows, unless a hash of these columns splits them.
_SHARDED, _SHARD_KEYS = ("read_sql", "read_snowflake"), "shard_keys"


class _Cursor(Protocol):
    def execute(self, sql: str, *parameters: object) -> object: ...

    def fetchone(self) -> tuple[int]: ...


class _Connection(Protocol):
    """A database connection of PEP 249."""

    def cursor(self) -> _Cursor: ...

    def close(self) -> None: ...


def check_shards(use: str, options: Mapping[str, object], field: str) -> None:
    """Check a database before several tasks read it: all rows must be returned.

    With shards Ray 2.60 skips rows whose key is NULL, and treats any error of its check as lack of
    support (SQLDatasource): this call raises the database's errors.

    Args:
        use: `ray.data:read_sql`, or another reader.
        options: its keyword arguments, with functions.
        field: of these.

    Raises:
        DataError: if rows have no key.
    """
    if use != f"{MODULE}:read_sql" or not options.get("shard_keys"):
        return
    connect = cast("Callable[[], _Connection]", options["connection_factory"])
    keys, parameters = cast("list[str]", options["shard_keys"]), options.get("sql_params")
    lacking = " OR ".join(f"{key} IS NULL" for key in keys)
    query = f"SELECT COUNT(*) FROM ({options['sql']}) as T WHERE {lacking}"
    with closing(connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(query, *([] if parameters is None else [parameters]))
        [rows] = cursor.fetchone()
    if rows:
        raise DataError(
            f"{field}.shard_keys: {rows} rows have no {' or no '.join(keys)}; expected keys that "
            "all rows have, or none: Ray would leave these rows out"
        )


def find_reader(use: str, options: Mapping[str, object], field: str) -> Callable[..., object]:
    """Return a reader of Ray Data.

    Args:
        use: `ray.data:read_sql`.
        options: its keyword arguments.
        field: the spec's field of the reader to name in errors, e.g. `... .read.reader`.

    Raises:
        SpecError: if Ray Data has no such reader, the reader needs a Python object or a package
            that is not installed, or the arguments do not match.
    """
    import ray.data

    name = use.partition(":")[2]
    reader = getattr(ray.data, name, None)
    if not callable(reader):
        there = {each: getattr(ray.data, each) for each in dir(ray.data)}
        known = [
            each
            for each, value in there.items()
            if each.startswith(("read_", "from_")) and callable(value) and object_of(value) is None
        ]
        raise SpecError([Problem(field, name, f"one of {', '.join(known)}")])
    if (argument := object_of(reader)) is not None:
        expected = (
            f"read.use with a function of yours that calls it: no file can hold its {argument}"
        )
        raise SpecError([Problem(field, name, expected)])
    if missing := missing_of(PACKAGES.get(name, ())):
        raise SpecError([Problem(field, name, expected_packages(missing))])
    try:
        inspect.signature(reader).bind(**options)
    except TypeError as error:
        taken = ", ".join(inspect.signature(reader).parameters)
        expected = f"keyword arguments of ray.data.{name}: {taken}"
        raise SpecError([Problem(options_field(field), str(error), expected)]) from error
    with_functions(reader, options, options_field(field))
    return reader  # type: ignore[no-any-return]  # callable() narrows to Callable[..., Any]


def object_of(reader: Callable[..., object]) -> str | None:
    """Return the argument of a reader that must be a Python object; None without one.

    Args:
        reader: of Ray Data's.
    """
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for name, parameter in inspect.signature(reader).parameters.items():
        is_needed = parameter.default is inspect.Parameter.empty and parameter.kind not in several
        if is_needed and not _is_plain(parameter.annotation):
            return name
    return None


def _is_plain(kind: object) -> bool:
    """Return whether a file can have a value of a type; an unresolved type it cannot.

    Ray uses names of types in packages that may not be installed.
    """
    if kind in _PLAIN:
        return True
    origin = get_origin(kind)
    if origin in (Union, UnionType, list):
        return any(map(_is_plain, get_args(kind)))
    return origin in (dict, Callable)


def is_read_by_one_task(use: Function) -> bool:
    """Return whether one task reads all rows of a reader, whatever their number."""
    module, _, name = use.use.partition(":")
    keys = dict(use.options).get(_SHARD_KEYS)
    return module == MODULE and name in _SHARDED and not keys


def options_field(field: str) -> str:
    """Return the field of a reader's arguments from that of its name."""
    return field.removesuffix("reader") + "options"


def with_functions(
    reader: Callable[..., object], options: Mapping[str, object], field: str
) -> dict[str, object]:
    """Return the options, with functions instead of names where the reader takes some.

    Raises:
        SpecError: if a function does not exist.
    """
    wants = {
        name: "Callable" in str(parameter.annotation)
        for name, parameter in inspect.signature(reader).parameters.items()
    }
    return {
        name: find(value, f"{field}.{name}")
        if wants.get(name) and isinstance(value, str) and _FUNCTION.fullmatch(value)
        else value
        for name, value in options.items()
    }
