"""How every benchmark measures: sides take turns; medians and ratios go into a table and JSON."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe, machine, wait_until_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RESULTS = Path(__file__).parent / "results"

# Columns of a table that is written to a file or a pipe.
WIDTH = 120

Sample = dict[str, float]
console = Console(width=None if sys.stdout.isatty() else WIDTH)


@dataclass(frozen=True)
class Target:
    """A bound on the median of a figure, on its worst value, or on its ratio to another figure."""

    of: Literal["value", "worst", "ratio"]
    bound: Literal["<=", ">="]
    limit: float

    def __str__(self) -> str:
        name = "" if self.of == "value" else f"{self.of} "
        return f"{name}{self.bound} {self.limit:g}"


@dataclass(frozen=True)
class Figure:
    """One row of the table.

    Args:
        name: what was measured, and on which side.
        unit: unit of the values.
        values: one value for each repeat.
        against: name and values of another side in the same repeats, for the ratio.
        target: bound that the figure should meet.
    """

    name: str
    unit: str
    values: Sequence[float]
    against: tuple[str, Sequence[float]] | None = None
    target: Target | None = None

    @property
    def median(self) -> float:
        """Return the median of the values."""
        return statistics.median(self.values)

    @property
    def ratio(self) -> float | None:
        """Return the median of the ratios within each repeat, which cancels slow drift."""
        if self.against is None:
            return None
        pairs = zip(self.values, self.against[1], strict=True)
        return statistics.median(value / other for value, other in pairs)

    @property
    def met(self) -> bool | None:
        """Return whether the target is met; None without one."""
        if self.target is None:
            return None
        is_minimum = self.target.bound == ">="
        value = {
            "value": self.median,
            "worst": min(self.values) if is_minimum else max(self.values),
            "ratio": self.ratio,
        }[self.target.of]
        assert value is not None, f"{self.name}: its target is a ratio, but it has no other side"
        return value >= self.target.limit if is_minimum else value <= self.target.limit


class Options(argparse.Namespace):
    """The options that all benchmarks have.

    Args:
        repeats: runs of each side.
        quick: use smaller sizes, to see that the benchmark works; its figures mean nothing.
        cache: folder for generated rows.
    """

    repeats: int
    quick: bool
    cache: Path


@dataclass
class Samples:
    """What each side measured: one sample for each repeat."""

    by_side: dict[str, list[Sample]] = field(default_factory=dict)

    def of(self, side: str, name: str) -> list[float]:
        """Return the values of a side with one name, one for each repeat."""
        return [sample[name] for sample in self.by_side[side]]


def parser_for(about: str | None) -> argparse.ArgumentParser:
    """Return a parser of the common options, to which a benchmark may add its own."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="runs of each side (default 5)")
    parser.add_argument("--quick", action="store_true", help="smaller; the figures mean nothing")
    default = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    parser.add_argument("--cache", type=Path, default=Path(default) / "trainshed-benchmarks")
    return parser


def parse_options(parser: argparse.ArgumentParser | str | None) -> Options:
    """Return the options of the command line.

    Args:
        parser: parser with more options, or the docstring of a benchmark that has no others.
    """
    if not isinstance(parser, argparse.ArgumentParser):
        parser = parser_for(parser)
    return parser.parse_args(namespace=Options())


def run_sides(
    sides: Mapping[str, Callable[[Path], Sample]],
    options: Options,
    *,
    is_mirrored: bool = False,
    is_timed: bool = True,
) -> Samples:
    """Run all sides once in each repeat, each in an empty folder that is removed afterwards.

    Args:
        sides: functions that measure.
        options: options of the benchmark.
        is_mirrored: alternate the order of the sides (ABBA, not ABAB), for small differences.
        is_timed: wait for an idle machine before each side.
    """
    samples = Samples({side: [] for side in sides})
    for repeat in range(options.repeats):
        order = list(sides.items())
        for side, run in reversed(order) if is_mirrored and repeat % 2 else order:
            busy = wait_until_idle() if is_timed and not options.quick else 0.0
            with tempfile.TemporaryDirectory(
                prefix="trainshed-benchmark-", ignore_cleanup_errors=True
            ) as folder:
                sample = run(Path(folder))
            samples.by_side[side].append(sample | {"othersBusy": busy})
            values = ", ".join(f"{name} {_format(value)}" for name, value in sample.items())
            console.print(f"[dim]{repeat + 1}/{options.repeats} {side}: {values}[/dim]")
    return samples


def publish(
    name: str,
    figures: Sequence[Figure],
    samples: Samples,
    options: Options,
    results: Path = RESULTS,
) -> None:
    """Print the table; write everything to `results` as JSON, and the table as Markdown."""
    table = Table(title=f"{name}: {options.repeats} repeats, {describe()}")
    for column in ("", "median", "min - max", "ratio", "to", "target", "met"):
        table.add_column(column, justify="left" if column in ("", "to") else "right")
    rows = [cells(figure) for figure in figures]
    for row in rows:
        table.add_row(*row)
    console.print(table)
    results.mkdir(exist_ok=True)
    finished = datetime.now(UTC)
    file = results / f"{name}-{finished:%Y%m%d-%H%M%S}.json"
    document = {
        "benchmark": name,
        "finishedAt": finished.isoformat(timespec="seconds"),
        "command": ["python", "-m", "benchmarks", name, *sys.argv[1:]],
        "quick": options.quick,
        "machine": machine(),
        "figures": [
            asdict(figure) | {"median": figure.median, "ratio": figure.ratio, "met": figure.met}
            for figure in figures
        ],
        "samples": samples.by_side,
    }
    file.write_text(json.dumps(document, indent=1), encoding="utf-8")
    lines = "".join(f"| {name} | {' | '.join(row)} |\n" for row in rows)
    file.with_suffix(".md").write_text(lines, encoding="utf-8")  # for RESULTS.md
    console.print(f"written: {file}", soft_wrap=True)


def cells(figure: Figure) -> list[str]:
    """Return a figure as a row of the table."""
    return [
        figure.name,
        f"{_format(figure.median)} {figure.unit}",
        f"{_format(min(figure.values))} - {_format(max(figure.values))}",
        f"{figure.ratio:.2f}" if figure.ratio is not None else "",
        figure.against[0] if figure.against else "",
        str(figure.target or ""),
        {True: "yes", False: "no", None: ""}[figure.met],
    ]


def _format(value: float) -> str:
    """Return a number with three significant digits, or as a whole number from 100 on."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
