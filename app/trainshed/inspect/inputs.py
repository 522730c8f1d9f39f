"""Which rows are meant: files, or a dataset of a TrainingRun file with its transforms.

Of most datasets this process reads the files; what only Ray Data makes is told apart here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from trainshed.data.sampler.dataset_plan import ROW_BYTES, plan_dataset, transforms_of
from trainshed.data.sampler.function import are_grouped
from trainshed.data.sampler.sizes import CacheMemory, Measured
from trainshed.data.sources.dataset_files import formats_of, open_source
from trainshed.data.sources.fragment_reader import Reading
from trainshed.data.sources.listing import names_of
from trainshed.data.sources.opener import reach_of
from trainshed.functions import find, find_for_rows
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.skipped_records import SkippedRecords
from trainshed.planning.code import enter
from trainshed.planning.paths import home_of, locate_source
from trainshed.retry import READS
from trainshed.storage.addresses import is_web
from trainshed.storage.disk import Disk
from trainshed_api.errors import Problem, RuleError, SpecError, show_value
from trainshed_api.formats import options_of
from trainshed_api.loading import load_file, set_value
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from trainshed.data.sampler.fragments import Fragment, Source
    from trainshed.data.sampler.function import Function
    from trainshed.storage.folder import Folder
    from trainshed_api.formats import FormatName
    from trainshed_api.v1alpha1 import DatasetSpec, TrainingRun

SOURCE = "SOURCE"
# Delta's own folder: beside its newest rows the files have deleted and replaced ones.
_DELTA = "_delta_log"


@dataclass(frozen=True)
class RowInput:
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
    left_out: SkippedRecords | None = None

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Return what is read on its own, of which progress is told."""
        return self.source.fragments

    def unrounded(self) -> RowInput:
        """Return the same rows to be shown or counted, with each integer as it is in the files.

        Those that float64 would round are masked arrays where some are missing, which no transform
        is given.
        """
        if self.transforms:
            return self
        scan = replace(self.source.scan, masks=True)
        return replace(self, source=replace(self.source, scan=scan))

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
) -> RowInput:
    """Return the rows of files.

    Args:
        text: a path or an address of a file or a folder.
        form: of the files; None where their names tell.
        given: the format's options, "name=value" each.
        columns: to read; empty for all.

    Raises:
        SpecError: naming the word of the command that will not do.
        InfrastructureError: when the storage does not give what has to be looked at.
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
    return RowInput(source, SOURCE, read.columns)


def open_dataset(file: Path, name: str, cpus: int, *, raw: bool) -> RowInput | GeneratedRows:
    """Return the rows of a dataset of a TrainingRun, after its transforms; raw: before them.

    Args:
        file: the TrainingRun.
        name: of the dataset.
        cpus: that Ray Data may take, where it makes the rows; it has those of the spec at least.
        raw: whether the transforms are left out.

    Raises:
        SpecError: naming the field that will not do.
        InfrastructureError: when the storage does not give what has to be looked at.
    """
    run = load_file(file)
    dataset = run.spec.data.datasets.get(name)
    field = f"spec.data.datasets.{name}"
    if dataset is None:
        known = ", ".join(run.spec.data.datasets) or "none is there"
        raise SpecError([Problem("--dataset", show_value(name), f"one of: {known}")])
    if dataset.read.mix is not None:
        parts = ", ".join(dataset.read.mix)
        want = f"one with rows of its own: --dataset with one of {parts}"
        raise SpecError([Problem(f"{field}.read.mix", "a mix", want)])
    if raw:
        dataset = dataset.model_copy(update={"transforms": ()})
    home = home_of(file)
    if dataset.transforms or dataset.read.path is None:
        enter(run.spec.code, file.absolute().parent)
    transforms = transforms_of(dataset, field)
    if dataset.read.path is None:
        _check_functions(transforms)
        return _made(run, name, dataset, None, cpus)
    at = locate_source(dataset.read.path, home, f"{field}.read.path", reach_of(dataset.read))
    skips_bad = dataset.on_bad_record == "skip"
    source = open_source(at, dataset.read, f"{field}.read", skips_bad=skips_bad)
    _check_functions(transforms)
    limit = dataset.bad_record_limit
    left_out = SkippedRecords(field, limit, source.about_rows) if skips_bad else None
    if are_grouped(transforms):
        return replace(_made(run, name, dataset, source, cpus), left_out=left_out)
    return RowInput(source, field, dataset.read.columns, transforms, left_out)


def _check_functions(transforms: Sequence[Function]) -> None:
    for function in transforms:
        find_for_rows(function.use, dict(function.init), function.field.removesuffix(".use"))


def _made(
    run: TrainingRun, name: str, dataset: DatasetSpec, source: Source | None, cpus: int
) -> GeneratedRows:
    """Return the rows of a function, or of groups, as a run plans to make them."""
    # How large rows are only says how Ray Data plans its memory.
    guess = Measured(ROW_BYTES, keeps_rows=True) if source else None
    plan = plan_dataset(name, dataset, "ray-data", source, guess, CacheMemory(0, 0), 1, processes=0)
    if plan.use is not None and dataset.read.reader is not None:
        from trainshed.data.loader.ray_readers import find_reader  # imports Ray

        find_reader(plan.use.use, dataset.read.options, plan.use.field)
    elif plan.use is not None:
        find(plan.use.use, plan.use.field)
    return GeneratedRows(plan, max(cpus, run.spec.data.cpus), run.spec.env)


def _format_told(at: Folder) -> FormatName:
    """Return the format that the names of files tell.

    Raises:
        SpecError: when they tell none, or several.
    """
    if is_web(str(at)):
        names = [urlsplit(str(at)).path.rpartition("/")[2]]
    elif at.name and READS.read(lambda: at.parent.stat(at.name)):
        names = [at.name]
    elif READS.read((at / _DELTA).exists):
        want = "--format delta for the rows of this table, or --format parquet for all its files"
        raise SpecError([Problem(SOURCE, str(at), want)])
    else:
        names = READS.read(lambda: names_of(at, SOURCE))
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
