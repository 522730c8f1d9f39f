"""Runs over numbered rows of any format, and what each of their steps had in it."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pydantic import BaseModel, JsonValue

from tests.app.data import row_numbers, sample_functions
from tests.app.data.losses import BATCH, CACHES, ROWS, SHUFFLES, WIDTH, Step, Way
from tests.app.data.numbered import FORMATS, write_files
from tests.e2e.running import ROOT
from tests.e2e.runs import STORAGE, Runs, make_counting, notes_of
from tests.e2e.user_code import rows

FILES = 12
CODE = f"{STORAGE}/code/numbered_rows.zip"
WIDENED: JsonValue = {"use": f"{row_numbers.__name__}:widened", "options": {"width": WIDTH}}


class Line(BaseModel, frozen=True):
    """What one worker noted of a step.

    Args:
        started: when its function began, seconds since 1970.
        rank: of the worker.
        done: steps that lay behind its function when that began.
        at: when this was noted.
        step: of the run, from 1.
        epoch: from 0.
        id: numbers of its rows.
        draw: of the augmentation of each.
        node: on which each was made, as `marked` says it.
        made: when each was, seconds since 1970.
    """

    started: float
    rank: int
    done: int
    at: float
    step: int
    epoch: int
    id: tuple[int, ...]
    draw: tuple[float, ...]
    node: tuple[int, ...]
    made: tuple[float, ...]


def give_rows(runs: Runs, folder: Path, forms: Sequence[str]) -> None:
    """Write numbered rows into a folder, and put them and the code on the storage."""
    for form in forms:
        runs.give_folder(write_files(folder / form, form, ROWS, FILES), f"numbered/{form}")
    modules = (row_numbers, sample_functions, rows)
    runs.give_code(ROOT, [Path(str(module.__file__)) for module in modules], CODE)


def make_numbered(
    name: str,
    way: Way,
    *,
    seconds_per_step: float,
    seconds_per_row: float,
    cpus: int = 1,
    **others: JsonValue,
) -> dict[str, JsonValue]:
    """Return a run of two epochs that notes the rows of each step.

    Args:
        name: of it.
        way: of the dataset that it trains on.
        seconds_per_step: that training waits in each.
        seconds_per_row: that a row takes to be made.
        cpus: for data.
        **others: further datasets.
    """
    marked: JsonValue = {
        "use": f"{rows.__name__}:marked",
        "options": {"seconds_per_row": seconds_per_row},
    }
    train: JsonValue = {
        "read": read_of(way.format),
        "transforms": [WIDENED, marked],
        "augment": [{"use": f"{sample_functions.__name__}:noise"}],
        "shuffle": SHUFFLES[way.mode],
        "cache": CACHES[way.cache],
        "feed": {"lastBatch": "keep"},
    }
    return make_counting(
        name,
        epochs=2,
        seconds_per_step=seconds_per_step,
        train=f"{rows.__name__}:train",
        code={"workingDir": f"file://{CODE}"},
        batchSize=BATCH,
        data={"cpus": cpus, "datasets": {"train": train, **others}},
        workers={"count": 2, "resources": {"cpu": 1}},
        checkpoint={"everySteps": 5},
    )


def read_of(form: str) -> JsonValue:
    """Return how the rows of a format are read."""
    options = dict(FORMATS[form].options)
    return {"format": form, "path": f"numbered/{form}", "options": options}


def read_lines(runs: Runs, name: str) -> list[Line]:
    """Return what all workers of a run of make_numbered noted so far, of all starts."""
    text = runs.in_head("sh", "-c", f"cat {notes_of(name)}/rows-*")
    return [Line.model_validate_json(line) for line in text.splitlines()]


def that_count(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the steps that count, in the order of steps.

    A start goes on from a checkpoint, and does anew what of the starts before it came later.
    """
    kept: list[Line] = []
    for rank in sorted({line.rank for line in lines}):
        of_rank = sorted((each for each in lines if each.rank == rank), key=lambda x: x.started)
        counted: list[Line] = []
        for _, started in groupby(of_rank, key=lambda line: line.started):
            again = list(started)
            counted = [line for line in counted if line.step <= again[0].done] + again
        kept += counted
    return sorted(kept, key=lambda line: (line.step, line.rank))


def steps_of(lines: Sequence[Line], epoch: int) -> list[Step]:
    """Return (number, draw) of the rows of each step of an epoch, of all ranks together."""
    of_epoch = [line for line in lines if line.epoch == epoch]
    return [
        sorted(row for line in ranks for row in zip(line.id, map(int, line.draw), strict=True))
        for _, ranks in groupby(of_epoch, key=lambda line: line.step)
    ]
