"""Which rows are meant: files, or a dataset of a TrainingRun file with its transforms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainshed.data.order.plan import transforms_of
from trainshed.data.read.files import formats_of, open_source
from trainshed.data.read.listing import is_data
from trainshed.data.read.opening import reach_of
from trainshed.data.read.source import Reading
from trainshed.functions import find_for_rows
from trainshed.patience import READS
from trainshed.plan.code import enter
from trainshed.plan.places import home_of, locate_source
from trainshed.records.addresses import is_web
from trainshed.records.disk import Disk
from trainshed.rows.left_out import LeftOut
from trainshed_api.errors import Problem, RuleError, SpecError, show_value
from trainshed_api.formats import options_of
from trainshed_api.loading import load_file, set_value
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from trainshed.data.order.files import Source
    from trainshed.data.order.function import Function
    from trainshed.records.storage import Folder
    from trainshed_api.formats import FormatName
    from trainshed_api.v1alpha1 import DatasetSpec

SOURCE = "SOURCE"
# Delta's own folder: beside its newest rows the files have deleted and replaced ones.
_DELTA = "_delta_log/"


@dataclass(frozen=True)
class Input:
    """Rows, and how they come to be.

    Args:
        source: the files.
        field: what names them in errors.
        columns: to read; empty for all.
        transforms: in their order.
        left_out: told of records that are bad; None where the first of them is an error.
    """

    source: Source
    field: str
    columns: tuple[str, ...] = ()
    transforms: tuple[Function, ...] = ()
    left_out: LeftOut | None = None

    def reading(self, chunk_rows: int) -> Reading:
        """Return how they are read, at most so many at once."""
        return Reading(
            self.field,
            self.columns,
            self.transforms,
            (),
            chunk_rows,
            self.source.scan,
            changes_rows=bool(self.transforms),
        )


def open_files(
    text: str, form: FormatName | None, given: Sequence[str], columns: Sequence[str]
) -> Input:
    """Return the rows of files.

    Args:
        text: a path or an address of a file or a folder.
        form: of the files; None where their names tell.
        given: the format's options, "name=value" each.
        columns: to read; empty for all.

    Raises:
        SpecError: naming the word of the command that will not do.
        WorldError: when the storage does not give what has to be looked at.
    """
    at = locate_source(text, Disk(Path.cwd()), SOURCE)
    form = form or _format_told(at)
    try:
        options = _options(given)
        options_of(form, options)
        read = ReadSpec.model_validate(
            {"format": form, "path": text, "columns": list(columns), "options": options}
        )
        source = open_source(at, read, SOURCE)
    except (SpecError, RuleError) as error:
        raise SpecError([_as_a_word(problem) for problem in error.problems]) from error
    return Input(source, SOURCE, read.columns)


def open_dataset(file: Path, name: str, *, raw: bool) -> Input:
    """Return the rows of a dataset of a TrainingRun, after its transforms; raw: before them.

    Raises:
        SpecError: naming the field that will not do.
        WorldError: when the storage does not give what has to be looked at.
    """
    run = load_file(file)
    dataset = run.spec.data.datasets.get(name)
    field = f"spec.data.datasets.{name}"
    if dataset is None:
        known = ", ".join(run.spec.data.datasets) or "none is there"
        raise SpecError([Problem("--dataset", show_value(name), f"one of: {known}")])
    path = _path_of(dataset, field)
    home = home_of(file)
    if dataset.transforms and not raw:
        enter(run.spec.code, file.absolute().parent)
    at = locate_source(path, home, f"{field}.read.path", reach_of(dataset.read))
    skips_bad = dataset.on_bad_record == "skip"
    source = open_source(at, dataset.read, f"{field}.read", skips_bad=skips_bad)
    transforms = () if raw else transforms_of(dataset, field)
    for function in transforms:
        find_for_rows(function.use, dict(function.init), function.field.removesuffix(".use"))
        if function.kind == "groups":
            want = "a kind that needs no rows of other files, as only a run groups them; or --raw"
            raise SpecError([Problem(function.beside("kind"), "groups", want)])
    limit = dataset.bad_record_limit
    left_out = LeftOut(field, limit, source.about_rows) if skips_bad else None
    return Input(source, field, dataset.read.columns, transforms, left_out)


def _path_of(dataset: DatasetSpec, field: str) -> str:
    """Return where a dataset's files lie; raises SpecError for one that has none of its own."""
    read = dataset.read
    if read.mix is not None:
        parts = ", ".join(read.mix)
        want = f"one with files of its own: --dataset with one of {parts}"
        raise SpecError([Problem(f"{field}.read.mix", "a mix", want)])
    if read.path is None:
        want = "format and path: what a function returns is there only in a run"
        got = show_value(read.use or read.reader)
        raise SpecError([Problem(f"{field}.read", got, want)])
    return read.path


def _format_told(at: Folder) -> FormatName:
    """Return the format that the names of files tell.

    Raises:
        SpecError: when they tell none, or several.
    """
    if is_web(str(at)):
        names = [urlsplit(str(at)).path.rpartition("/")[2]]
    elif at.name and READS.read(lambda: at.parent.stat(at.name)):
        names = [at.name]
    else:
        names = [each.name for each in READS.read(at.tree)]
    if any(name.startswith(_DELTA) for name in names):
        want = "--format delta for the rows of this table, or --format parquet for all its files"
        raise SpecError([Problem(SOURCE, str(at), want)])
    names = [name for name in names if is_data(name)]
    found = formats_of(names)
    if len(found) == 1:
        return found[0]
    if found:
        want = f"files of one format, or --format with one of {', '.join(found)}"
    elif names:
        want = f"files whose endings tell their format, or --format: {names[0]} tells none"
    else:
        want = "a file, or a folder with files"
    raise SpecError([Problem(SOURCE, str(at), want)])


def _options(given: Sequence[str]) -> dict[str, JsonValue]:
    options: dict[str, JsonValue] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise SpecError([Problem("--option", show_value(each), "name=value")])
        options = set_value(options, name.strip(), value)
    return options


def _as_a_word(problem: Problem) -> Problem:
    """Return a problem with what its author typed for the field that it names."""
    field = problem.field.removeprefix(f"{SOURCE}.")
    first, _, rest = field.partition(".")
    words = {"path": SOURCE, "columns": "--columns", "--set": "--option"}
    field = f"--option {rest}" if first == "options" and rest else words.get(field, field)
    return Problem(field, problem.got, problem.want)
