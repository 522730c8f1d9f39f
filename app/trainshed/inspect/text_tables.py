"""Tables of rows, columns and counts for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from trainshed.display.formatting import MISSING, say_bytes, say_count, say_percent, say_plainly
from trainshed.inspect.statistics import MOST_VALUES
from trainshed.inspect.values import as_key, say_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainshed.inspect.schema import Schema
    from trainshed.inspect.statistics import Summary

# Rows with more columns are printed as blocks of lines.
MOST_COLUMNS = 8
MOST_CLASSES = 20


def rows_table(rows: Sequence[Mapping[str, object]]) -> RenderableType:
    """Return rows as a table, or one block of lines per row if there are many columns."""
    if len(rows[0]) > MOST_COLUMNS:
        return _blocks(rows)
    table = _table("")
    for name in rows[0]:
        table.add_column(Text(say_plainly(name)), overflow="ellipsis", no_wrap=True)
    for number, row in enumerate(rows):
        table.add_row(Text(str(number), "dim"), *(Text(say_value(each)) for each in row.values()))
    return table


def schema_table(schema: Schema) -> RenderableType:
    """Return the description of an input: its columns, then its files."""
    table = _table("column", "stored", "read")
    if schema.has_transforms:
        table.add_column("after transforms")
    for each in schema.columns:
        kinds = [each.stored, each.read, *([each.after] if schema.has_transforms else [])]
        table.add_row(Text(say_plainly(each.name)), *map(_plain, kinds))
    lines = list(_of_files(schema))
    if schema.classes:
        some = ", ".join(
            f"{number} {say_plainly(name)}"
            for number, name in enumerate(schema.classes[:MOST_CLASSES])
        )
        more = f", ... ({say_count(len(schema.classes))} in all)"
        lines.append(f"labels: {some}{more * (len(schema.classes) > MOST_CLASSES)}")
    return Group(table, Text("\n".join(lines)))


def _of_files(schema: Schema) -> Iterator[str]:
    cut = schema.fragments
    if cut is None:
        yield f"made by {say_plainly(schema.format)}"
        yield "rows: unknown before they are made"
        return
    about = "" if schema.rows is not None else "about "
    yield (
        f"{schema.format}: {say_count(schema.files)} file{'s' * (schema.files != 1)}, "
        f"{say_bytes(schema.bytes or 0)}"
    )
    yield f"rows: {about}{say_count(schema.likely_rows)}"
    yield (
        f"fragments: {say_count(cut.count)}, {say_bytes(cut.least_bytes)} to "
        f"{say_bytes(cut.most_bytes)}, median {say_bytes(cut.median_bytes)}"
    )


def summaries_table(summaries: Sequence[Summary]) -> RenderableType:
    """Return the statistics of each column as text."""
    table = _table("column", "type")
    for name in ("rows", "missing", "min", "max", "mean", "std"):
        table.add_column(name, justify="right")
    table.add_column("values")
    for each in summaries:
        table.add_row(
            *(Text(say_plainly(said)) for said in (each.name, each.type)),
            *(Text(say_count(number)) for number in (each.rows, each.missing)),
            *(Text(say_value(value)) for value in (each.min, each.max, each.mean, each.std)),
            Text(_say_values(each)),
        )
    return table


def _say_values(summary: Summary) -> str:
    if summary.has_more:
        return f"more than {say_count(MOST_VALUES)}"
    if summary.values is None:
        return MISSING
    some = ", ".join(f"{say_value(each.value)} {say_count(each.rows)}" for each in summary.frequent)
    more = ", ..." * (summary.values > len(summary.frequent))
    return f"{say_count(summary.values)}: {some}{more}"


def counts_table(title: str, counts: Sequence[tuple[object, int]]) -> RenderableType:
    """Return a table of the rows per key, with their sum."""
    table, rows = _table(), sum(count for _, count in counts)
    table.add_column(Text(say_plainly(title)))
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    for kind, count in counts:
        share = say_percent(100 * count / rows) if rows else MISSING
        table.add_row(Text(say_value(as_key(kind))), say_count(count), share)
    table.add_section()
    table.add_row("all", say_count(rows), "")
    return table


def _plain(kind: str | None) -> Text:
    """Return a type that includes field names."""
    return Text(MISSING if kind is None else say_plainly(kind))


def _blocks(rows: Sequence[Mapping[str, object]]) -> RenderableType:
    table = _table("", "column", "value")
    for number, row in enumerate(rows):
        for place, (name, value) in enumerate(row.items()):
            first = "" if place else str(number)
            table.add_row(Text(first, "dim"), Text(say_plainly(name)), Text(say_value(value)))
        table.add_section()
    return table


def _table(*names: str) -> Table:
    return Table(*names, box=None, pad_edge=False, header_style="bold")
