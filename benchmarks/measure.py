"""How every benchmark measures: sides take turns; medians and ratios go into a table and JSON."""

from __future__ import annotations

import argparse
import json
import os
import shutil
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

# Of a table in a file or a pipe.
WIDTH = 120

Sample = dict[str, float]
console = Console(width=None if sys.stdout.isatty() else WIDTH)


@dataclass(frozen=True)
class Target:
    """What a figure should be: a bound on its median, its worst, or its ratio to another figure."""

    of: Literal["value", "worst", "ratio"]
    bound: Literal["<=", ">="]
    limit: float

    def __str__(self) -> str:
        name = "" if self.of == "value" else f"{self.of} "
        return f"{name}{self.bound} {self.limit:g}"


@dataclass(frozen=True)
class Figure:
    """One line of the table.

    Args:
        name: what was measured, and on which side.
        unit: of the values.
        values: one a repeat.
        against: another side's name and its values of the same repeats; gives the ratio.
        target: if there is one.
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
        """Return the median of the ratios within each repeat: what drifts cancels out there."""
        if self.against is None:
            return None
        pairs = zip(self.values, self.against[1], strict=True)
        return statistics.median(mine / other for mine, other in pairs)

    @property
    def met(self) -> bool | None:
        """Say whether the target is met; None without one."""
        if self.target is None:
            return None
        least = self.target.bound == ">="
        value = {
            "value": self.median,
            "worst": min(self.values) if least else max(self.values),
            "ratio": self.ratio,
        }[self.target.of]
        assert value is not None, f"{self.name}: a target for the ratio and nothing to compare with"
        return (
            value <= self.target.limit if self.target.bound == "<=" else value >= self.target.limit
        )


@dataclass(frozen=True)
class Options:
    """What the command line says.

    Args:
        repeats: of each side.
        quick: smaller, to see that it works; the figures count for nothing.
        cache: folder of the generated rows.
    """

    repeats: int
    quick: bool
    cache: Path


@dataclass
class Samples:
    """What the sides measured: one sample a repeat, side by side."""

    by_side: dict[str, list[Sample]] = field(default_factory=dict)

    def of(self, side: str, name: str) -> list[float]:
        """Return the values of a side with one name, one for each repeat."""
        return [sample[name] for sample in self.by_side[side]]


def options(about: str | None) -> Options:
    """Read the command line."""
    return options_in(parser_of(about).parse_args())


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """Return what reads the command line, to which a benchmark may add options of its own."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="of each side (default 5)")
    parser.add_argument("--quick", action="store_true", help="smaller; figures count for nothing")
    default = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    parser.add_argument("--cache", type=Path, default=Path(default) / "trainshed-benchmarks")
    return parser


def options_in(given: argparse.Namespace) -> Options:
    """Return the options that all benchmarks have."""
    return Options(given.repeats, given.quick, given.cache)


def in_turn(
    sides: Mapping[str, Callable[[Path], Sample]],
    given: Options,
    *,
    is_mirrored: bool = False,
    is_timed: bool = True,
) -> Samples:
    """Run all sides one after the other, again and again: ABAB, so that what drifts hits all.

    Mirrored: ABBA, for differences as small as what the first of two leaves to the second.
    What is not timed does not wait for an idle machine.

    Each side gets an empty folder of its own that is removed afterwards.
    """
    samples = Samples({side: [] for side in sides})
    for repeat in range(given.repeats):
        order = list(sides.items())
        for side, run in reversed(order) if is_mirrored and repeat % 2 else order:
            busy = wait_until_idle() if is_timed and not given.quick else 0.0
            folder = Path(tempfile.mkdtemp(prefix="trainshed-benchmark-"))
            try:
                sample = run(folder)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            samples.by_side[side].append(sample | {"othersBusy": busy})
            shown = ", ".join(f"{name} {_digits(value)}" for name, value in sample.items())
            console.print(f"[dim]{repeat + 1}/{given.repeats} {side}: {shown}[/dim]")
    return samples


def publish(
    name: str,
    figures: Sequence[Figure],
    samples: Samples,
    given: Options,
    results: Path = RESULTS,
) -> None:
    """Print the table; write all as JSON into `results`, and the rows in Markdown beside it."""
    table = Table(title=f"{name}: {given.repeats} repeats, {describe()}")
    for column in ("", "median", "min - max", "ratio", "to", "target", "met"):
        table.add_column(column, justify="left" if column in ("", "to") else "right")
    rows = [cells(figure) for figure in figures]
    for row in rows:
        table.add_row(*row)
    console.print(table)
    results.mkdir(exist_ok=True)
    at = datetime.now(UTC)
    file = results / f"{name}-{at:%Y%m%d-%H%M%S}.json"
    document = {
        "benchmark": name,
        "finishedAt": at.isoformat(timespec="seconds"),
        "command": ["python", "-m", f"benchmarks.{name}", *sys.argv[1:]],
        "quick": given.quick,
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
    ratio, met = figure.ratio, figure.met
    return [
        figure.name,
        f"{_digits(figure.median)} {figure.unit}",
        f"{_digits(min(figure.values))} - {_digits(max(figure.values))}",
        f"{ratio:.2f}" if ratio is not None else "",
        figure.against[0] if figure.against else "",
        str(figure.target or ""),
        {True: "yes", False: "no", None: ""}[met],
    ]


def _digits(value: float) -> str:
    """Return a number with as many digits as matter."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
