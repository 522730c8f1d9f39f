"""Ray Data's own readers, called by name: whether one is there, and takes what it is given."""

from __future__ import annotations

import inspect
import re
from contextlib import closing
from typing import TYPE_CHECKING, Protocol, cast

from trainshed.data.read.errors import DataError
from trainshed.functions import find
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
MODULE = "ray.data"


class _Cursor(Protocol):
    def execute(self, sql: str, *parameters: object) -> object: ...

    def fetchone(self) -> tuple[int]: ...


class _Connection(Protocol):
    """A connection to a database, as PEP 249 has it."""

    def cursor(self) -> _Cursor: ...

    def close(self) -> None: ...


def check_shards(use: str, options: Mapping[str, object], field: str) -> None:
    """Ask a database, where several tasks are to read it, whether all rows would come.

    Ray 2.60 reads no row whose key is NULL then, and takes whatever fails when it looks for shards
    for the lack of them (SQLDatasource): what the database has against being read is raised here.

    Args:
        use: `ray.data:read_sql`, or another reader.
        options: its keyword arguments, with functions.
        field: of these.

    Raises:
        DataError: when rows have no key.
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
            f"{field}.shard_keys: {rows} rows have no {' or no '.join(keys)}, want keys that all "
            "rows have, or none: Ray would leave these rows out"
        )


def find_reader(use: str, options: Mapping[str, object], field: str) -> Callable[..., object]:
    """Return a reader of Ray Data's.

    Args:
        use: `ray.data:read_sql`.
        options: its keyword arguments.
        field: the spec's field of the reader to name in errors, e.g. `... .read.reader`.

    Raises:
        SpecError: when Ray Data has no such reader, or it has no such arguments, or lacks some.
    """
    import ray.data

    name = use.partition(":")[2]
    reader = getattr(ray.data, name, None)
    if not callable(reader):
        known = ", ".join(each for each in dir(ray.data) if each.startswith(("read_", "from_")))
        raise SpecError([Problem(field, name, f"one of {known}")])
    try:
        inspect.signature(reader).bind(**options)
    except TypeError as error:
        taken = ", ".join(inspect.signature(reader).parameters)
        want = f"keyword arguments of ray.data.{name}, which are {taken} ({error})"
        raise SpecError([Problem(options_field(field), None, want)]) from error
    with_functions(reader, options, options_field(field))
    return reader  # type: ignore[no-any-return]  # callable() narrows to Callable[..., Any]


def options_field(field: str) -> str:
    """Return the field of a reader's arguments by that of its name."""
    return field.removesuffix("reader") + "options"


def with_functions(
    reader: Callable[..., object], options: Mapping[str, object], field: str
) -> dict[str, object]:
    """Return the options, functions in the place of their names where the reader wants some.

    Raises:
        SpecError: when a function is not there.
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
