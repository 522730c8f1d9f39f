"""Resolves SOURCE: files, or a dataset of a TrainingRun file with its transforms.

This process reads the files of most datasets; rows that need Ray Data are a separate class.
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
from trainshed.data.sources.opener import store_options_of
from trainshed.functions import find, find_for_rows
from trainshed.inspect.generated_rows import GeneratedRows
from trainshed.inspect.skipped_records import SkippedRecords
from trainshed.planning.code import enter
from trainshed.planning.paths import home_of, locate_source
from trainshed.retry import READS
from trainshed.storage.addresses import is_web
from trainshed.storage.disk import Disk
from trainshed_api.errors import Problem, RuleError, SpecError, one_of, show_value
from trainshed_api.formats import options_of
from trainshed_api.loading import load_file, set_value
from trainshed_api.rows import ReadSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from trainshed.data.sampler.file_tables import Source
    from trainshed.data.sampler.fragments import Fragment
    from trainshed.data.sampler.function import Function
    from trainshed_api.formats import FormatName
    from trainshed_api.v1alpha1 import DatasetSpec, TrainingRunResource

SOURCE = "SOURCE"
# Delta's log folder: its other files include deleted and replaced rows.
_DELTA = "_delta_log"


@dataclass(frozen=True)
class RowInput:
    """Rows of files, and how to read them.

    Args:
        source: the files.
        field: its name in errors.
        columns: to read; empty for all.
        transforms: in order.
        left_out: collects bad records; None if the first one is an error.
    """

    source: Source
    field: str
    columns: tuple[str, ...] = ()
    transforms: tuple[Function, ...] = ()
    left_out: SkippedRecords | None = None

    @property
    def fragments(self) -> Sequence[Fragment]:
        """Return the fragments to read, for progress reports."""
        return self.source.fragments

    def unrounded(self) -> RowInput:
        """Return the same rows for showing and counting, with the exact integers of the files.

        Nullable integers that float64 would round become masked arrays, which no transform
        gets.
        """
        if self.transforms:
            return self
        scan = replace(self.source.scan, masks=True)
        return replace(self, source=replace(self.source, scan=scan))

    def reading(self, chunk_rows: int) -> Reading:
        """Return the reading options, with at most this many rows at once."""
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
    text: str,
    form: FormatName | None,
    given: Sequence[str],
    columns: Sequence[str],
    known: Mapping[str, JsonValue] | None = None,
) -> RowInput:
    """Return the rows of files.

    Args:
        text: a path or an address of a file or a folder.
        form: format of the files; None to infer it from their names.
        given: the format's options, "name=value" each.
        columns: to read; empty for all.
        known: options that hold unless `given` replaces them.

    Raises:
        SpecError: naming the wrong argument of the command.
        InfrastructureError: if the storage does not return what is needed.
    """
    form = form or format_of(text)
    at = locate_source(text, Disk(Path.cwd()), SOURCE)
    try:
        options = _options(given, dict(known or {}))
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
        cpus: for Ray Data, if it makes the rows; it gets at least those of the spec.
        raw: whether to leave out the transforms.

    Raises:
        SpecError: naming the wrong field.
        InfrastructureError: if the storage does not return what is needed.
    """
    run = load_file(file)
    dataset = run.spec.data.datasets.get(name)
    field = f"spec.data.datasets.{name}"
    if dataset is None:
        known = run.spec.data.datasets
        expected = one_of(name, known) if known else "a file that has datasets"
        raise SpecError([Problem("--dataset", show_value(name), expected)])
    if dataset.read.mix is not None:
        parts = ", ".join(dataset.read.mix)
        expected = f"one that reads rows itself: --dataset with one of {parts}"
        raise SpecError([Problem(f"{field}.read.mix", "a mix", expected)])
    if raw:
        dataset = dataset.model_copy(update={"transforms": ()})
    home = home_of(file)
    if dataset.transforms or dataset.read.path is None:
        enter(run.spec.code, file.absolute().parent)
    transforms = transforms_of(dataset, field)
    if dataset.read.path is None:
        _check_functions(transforms)
        return _made(run, name, dataset, None, cpus)
    at = locate_source(
        dataset.read.path, home, f"{field}.read.path", store_options_of(dataset.read)
    )
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
    run: TrainingRunResource, name: str, dataset: DatasetSpec, source: Source | None, cpus: int
) -> GeneratedRows:
    """Return the rows of a function, or of groups, as a run plans them."""
    # The size of rows only affects how Ray Data plans its memory.
    guess = Measured(ROW_BYTES, keeps_rows=True) if source else None
    plan = plan_dataset(name, dataset, source, guess, CacheMemory(0, 0), 1)
    if plan.use is not None and dataset.read.reader is not None:
        from trainshed.data.loader.ray_readers import find_reader  # imports Ray

        find_reader(plan.use.use, dataset.read.options, plan.use.field)
    elif plan.use is not None:
        find(plan.use.use, plan.use.field)
    return GeneratedRows(plan, max(cpus, run.spec.data.cpus), run.spec.env)


def format_of(text: str, otherwise: FormatName | None = None) -> FormatName:
    """Return the format that the names of files imply.

    Args:
        text: a path or an address of a file or a folder.
        otherwise: the format if names imply none.

    Raises:
        SpecError: if they imply several, or none.
    """
    at = locate_source(text, Disk(Path.cwd()), SOURCE)
    if is_web(str(at)):
        names = [urlsplit(str(at)).path.rpartition("/")[2]]
    elif at.name and READS.read(lambda: at.parent.stat(at.name)):
        names = [at.name]
    elif READS.read((at / _DELTA).exists):
        if otherwise == "delta":
            return otherwise
        expected = (
            "--format delta for the rows of this table, or --format parquet for all its files"
        )
        raise SpecError([Problem(SOURCE, str(at), expected)])
    else:
        names = READS.read(lambda: names_of(at, SOURCE))
    found = formats_of(names)
    if len(found) == 1:
        return found[0]
    if otherwise and not found and names:
        return otherwise
    if found:
        expected = f"files of one format, or --format with one of {', '.join(found)}"
    elif names:
        expected = f"files whose endings tell their format, or --format: {names[0]} tells none"
    else:
        expected = "a file, or a folder with files"
    raise SpecError([Problem(SOURCE, str(at), expected)])


def _options(given: Sequence[str], options: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise SpecError([Problem("--option", show_value(each), "name=value")])
        options = set_value(options, name.strip(), value)
    return options


def _as_a_word(problem: Problem) -> Problem:
    """Return a problem that quotes the user's input for the field."""
    field = problem.field.removeprefix(f"{SOURCE}.")
    first, _, rest = field.partition(".")
    words = {"path": SOURCE, "columns": "--columns", "--set": "--option"}
    field = f"--option {rest}" if first == "options" and rest else words.get(field, field)
    return Problem(field, problem.got, problem.expected)
