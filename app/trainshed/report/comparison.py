"""Compare runs: what differs in their files, data, code and results, and their curves. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trainshed.display.formatting import MISSING, say_count, say_duration, say_number
from trainshed.report.curves import NUM_COLOURS, collect_curves
from trainshed.report.load import RunData
from trainshed.report.metrics import list_metrics
from trainshed.report.plots import Chart, Series
from trainshed.report.provenance import list_provenance
from trainshed_api.redaction import is_secret, without_password
from trainshed_api.spechash import flatten

SECTIONS = ("result", "file", "data", "code", "versions", "machine")
HASH_DIGITS = 8


@dataclass(frozen=True)
class Difference:
    """A fact in which runs differ, with its value in each of them."""

    section: str
    fact: str
    values: tuple[str, ...]


def labels(runs: Sequence[RunData]) -> list[str]:
    """Return what tells runs apart: their names, or their folders if two have one name."""
    names = [run.provenance.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder) for run in runs]


def list_differences(runs: Sequence[RunData], states: Sequence[str]) -> list[Difference]:
    """Return all facts in which runs differ, results first.

    Args:
        runs: to compare.
        states: of their last attempts.
    """
    found = [dict(_facts(run, state)) for run, state in zip(runs, states, strict=True)]
    facts = dict.fromkeys(fact for each in found for fact in each)
    every = [
        Difference(*fact, tuple(each.get(fact, MISSING) for each in found))
        for fact in sorted(facts, key=lambda fact: SECTIONS.index(fact[0]))
    ]
    return [_without_secrets(each) for each in every if len(set(each.values)) > 1]


def _without_secrets(found: Difference) -> Difference:
    """Return a difference without values that may be a key or a password."""
    if found.fact.startswith("spec.env.") or is_secret(found.fact):
        shown = [each if each == MISSING else "differs" for each in found.values]
    else:
        shown = [without_password(each) for each in found.values]
    return replace(found, values=tuple(shown))


def overlay_curves(runs: Sequence[RunData]) -> list[Chart]:
    """Return the charts of all runs, those of one metric on one chart; a run has one colour."""
    charts: dict[str, Chart] = {}
    for number, (run, label) in enumerate(zip(runs, labels(runs), strict=True)):
        for chart in collect_curves(run.attempts, run.step_name).charts:
            series = tuple(_series(each, label, number) for each in chart.series)
            there = charts.get(chart.title)
            charts[chart.title] = replace(
                there or chart,
                series=(*(there.series if there else ()), *series),
                resumes=(),
                repeated=(),
                checkpoints=(),
            )
    return list(charts.values())


def _series(series: Series, label: str, number: int) -> Series:
    drawn = tuple(stroke for stroke in series.strokes if stroke.look == "line")
    name = f"{label}: {series.label}"
    return replace(series, label=name, colour=number % NUM_COLOURS, strokes=drawn or series.strokes)


def _facts(run: RunData, state: str) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield section and name of each fact, and its value."""
    result = run.result
    yield ("result", "outcome"), result.outcome if result else state
    if result:
        yield ("result", "steps"), say_count(result.step)
        yield ("result", "wall time"), say_duration(result.wall_seconds)
        yield ("result", "samples/s"), say_count(result.samples_per_second)
    for name, *values in list_metrics(run):
        yield ("result", name), say_number(values[0])
    for path, value in flatten(run.provenance.spec, "spec"):
        yield ("file", path), value
    git = run.provenance.git
    if git:
        yield ("code", "commit"), git.commit + " with uncommitted changes" * git.dirty
    for file, digest in run.provenance.code.items():
        yield ("code", file), digest[:HASH_DIGITS]
    for heading, facts in list_provenance(run).items():
        if heading.lower() in SECTIONS:
            for name, value in facts:
                yield (heading.lower(), name), value
