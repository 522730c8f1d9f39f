"""The TrainingRun file of a new project, from the columns and classes of its data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import numpy as np
import yaml

from trainshed.data.sources.column_arrays import is_text, join
from trainshed.inspect.counting import MOST_KINDS, TooManyValuesError, count_by
from trainshed.inspect.inputs import open_files
from trainshed.inspect.reading import CHUNK_ROWS, in_chunks, samples
from trainshed.planning.run_folders import PROJECT_FILE
from trainshed_api.errors import Problem, SpecError, one_of, show_value
from trainshed_api.names import API_VERSION, KIND

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.inspect.inputs import RowInput

Task = Literal["classification", "regression"]

# Columns that usually are the label, if the user names none.
_LABELS = ("label", "target", "class", "y")
# More different integers than this are amounts rather than classes.
_MOST_CLASSES = 20
# A column of texts that are all different in so many rows identifies them.
_LEAST_DIFFERENT = 20
_IMAGE_SIZE = 32
_LONGEST_NAME = 40
_NAME_CHARACTERS = re.compile(r"[^a-z0-9]+")


class _Dumper(yaml.SafeDumper):
    """Quotes each text that kubectl would read as another value, such as y or 1e3."""


_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"[yYnN]$|[-+.0-9]"), list("yYnN-+.0123456789")
)


def write_project(folder: Path, source: str, label: str | None, task: Task | None) -> list[str]:
    """Write a TrainingRun file that trains on the rows of files, and return what it does.

    Args:
        folder: of the project; the file must not exist in it.
        source: path or address of the data.
        label: the column to predict; None for one of the usual names.
        task: None to infer it from the label.

    Raises:
        SpecError: if the file exists, or no such column does.
    """
    file = folder / PROJECT_FILE
    if file.exists():
        raise SpecError([Problem("FOLDER", str(file), "a folder without this file")])
    given = open_files(source, None, (), ())
    if given.source.scan.format == "images":
        spec, said = _pictures(given, source)
    else:
        spec, said = _table(given, source, label, task)
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": _name_of(folder)},
        "spec": spec,
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=96,
        allow_unicode=True,
    )
    file.write_text(text, encoding="utf-8")
    ignored = folder / ".gitignore"
    if not ignored.exists():
        ignored.write_text("runs/\n")
    return [
        *said,
        f"to train: trainshed run {file}",
        f"to predict: trainshed predict {file} {source}",
    ]


def _name_of(folder: Path) -> str:
    """Return the name of a folder as one that a TrainingRun may have."""
    name = _NAME_CHARACTERS.sub("-", folder.absolute().name.lower()).lstrip("-0123456789")
    return name[:_LONGEST_NAME].rstrip("-") or "run"


def _pictures(given: RowInput, source: str) -> tuple[dict[str, JsonValue], list[str]]:
    classes = given.source.scan.classes
    config: dict[str, JsonValue] = {"imageSize": _IMAGE_SIZE, "classes": max(2, len(classes))}
    decode: JsonValue = {
        "use": "trainshed.transforms:decode_image",
        "options": {"size": _IMAGE_SIZE},
    }
    read: dict[str, JsonValue] = {"format": "images", "path": source}
    spec: dict[str, JsonValue] = {
        "train": "trainshed.programs.vision:train",
        "config": config,
        "epochs": 10,
        "batchSize": 64,
        "data": {"datasets": _datasets(read, {"transforms": [decode]}, None)},
        "workers": {"count": 1, "resources": {"cpu": 1}},
        "checkpoint": {"best": {"metric": "valid.accuracy", "mode": "max"}},
    }
    return spec, [f"classify pictures of {len(classes)} folders: {', '.join(classes)}"]


def _table(
    given: RowInput, source: str, label: str | None, task: Task | None
) -> tuple[dict[str, JsonValue], list[str]]:
    chunk_rows = in_chunks(given, given.reading(CHUNK_ROWS)).chunk_rows
    rows = join([read for read, _ in samples(given, chunk_rows)])
    label = _label_in(rows, label)
    _check_label(rows[label], label, task)
    classes = _classes_of(given, label, rows[label], task)
    features = [name for name in rows if name != label and _is_feature(rows[name])]
    if not features:
        raise SpecError([Problem("--data", source, "columns of numbers or categories")])
    params: dict[str, JsonValue] = {"objective": "reg:squarederror"}
    what = f"predict the number {label}"
    if classes:
        what = f"classify rows by {label}: {', '.join(map(str, classes))}"
        params = {"objective": "binary:logistic"}
        if len(classes) > 2:  # noqa: PLR2004 - as its name says
            params = {"objective": "multi:softprob", "num_class": len(classes)}
    left_out = [name for name in rows if name not in {label, *features}]
    spec: dict[str, JsonValue] = {
        "train": "trainshed.programs.boosted_trees:train",
        "framework": "xgboost",
        "config": {
            "params": params,
            "numBoostRound": 200,
            "earlyStoppingRounds": 20,
            "label": label,
            "features": list(features),
        },
        "data": {
            "datasets": _datasets(
                {"format": given.source.scan.format, "path": source},
                {},
                label if classes else None,
            )
        },
        "workers": {"count": 1, "resources": {"cpu": 1}},
    }
    said = [f"{what}, from {', '.join(features)}"]
    if left_out:
        said.append(f"left out: {', '.join(left_out)}; list them in config.features to use them")
    return spec, said


def _datasets(
    read: dict[str, JsonValue], others: dict[str, JsonValue], stratify: str | None
) -> dict[str, JsonValue]:
    """Return the datasets `train` and `valid`, which has a fifth of the rows."""
    share: dict[str, JsonValue] = {"share": 0.2}
    if stratify:
        share["stratify"] = stratify
    return {
        name: {"read": {**read, "holdout": {**share, "keep": keep}}, **others}
        for name, keep in (("train", "rest"), ("valid", "held"))
    }


def _label_in(rows: Columns, label: str | None) -> str:
    if label is None:
        label = next((name for name in _LABELS if name in rows), None)
        if label is None:
            expected = f"missing; expected the column to predict, one of {', '.join(rows)}"
            raise SpecError([Problem("--label", None, expected)])
    if label not in rows:
        raise SpecError([Problem("--label", show_value(label), one_of(label, rows))])
    return label


def _check_label(values: Array, label: str, task: Task | None) -> None:
    """Refuse labels that trees cannot learn.

    Raises:
        SpecError: naming them.
    """
    if not is_text(values) and (values.dtype.kind not in "biuf" or values.ndim > 1):
        expected = "a column with one number or text in each row. Change it by a transform"
        raise SpecError([Problem("--label", show_value(label), expected)])
    if task == "regression" and is_text(values):
        expected = f"classification, because {label} holds texts"
        raise SpecError([Problem("--task", task, expected)])
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise _lacks_values(show_value(label))


def _lacks_values(got: str) -> SpecError:
    expected = "a value in each row. Remove the rows without one"
    return SpecError([Problem("--label", got, expected)])


def _classes_of(
    given: RowInput, label: str, sample: Array, task: Task | None
) -> Sequence[object] | None:
    """Return the classes of all rows, in the order of their numbers; None for a regression.

    Args:
        given: all rows.
        label: the column.
        sample: its values in some rows.
        task: None to infer it.

    Raises:
        SpecError: for integers that are no numbers of classes, and for missing labels.
    """
    # Integers with missing values are read as floats.
    are_whole = sample.dtype.kind in "biu" or label in given.source.scan.floats
    are_amounts = not is_text(sample) and (not are_whole or len(np.unique(sample)) > _MOST_CLASSES)
    if task == "regression" or (task is None and are_amounts):
        return None
    try:
        classes = list(count_by(given, label, 1, lambda _: None))
    except TooManyValuesError as error:
        if task is None and are_whole:
            return None
        expected = f"a column with at most {MOST_KINDS} classes"
        raise SpecError([Problem("--label", show_value(label), expected)]) from error
    got = f"{show_value(label)}, with the values {', '.join(map(str, classes[:_MOST_CLASSES]))}"
    if None in classes:
        raise _lacks_values(got)
    are_numbers = all(isinstance(each, (int, float)) for each in classes)
    if task is None and are_numbers and len(classes) > _MOST_CLASSES:
        return None
    if len(classes) < 2:  # noqa: PLR2004 - a choice of one is none
        raise SpecError([Problem("--label", got, "a column with two classes or more")])
    if are_numbers and classes != list(range(len(classes))):
        expected = f"texts, or integers from 0 to {len(classes) - 1}. Change it by a transform"
        raise SpecError([Problem("--label", got, expected)])
    return classes


def _is_feature(values: Array) -> bool:
    """Return whether trees can use a column: numbers, or texts that repeat."""
    if not is_text(values):
        return values.dtype.kind in "biuf"
    texts = [value for value in values.tolist() if value is not None]
    return len(texts) < _LEAST_DIFFERENT or len(set(texts)) < len(texts)
