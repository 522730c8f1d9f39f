"""The one way a TrainingRun file is read: every command sees what `kubectl apply` would make."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.kubeyaml import EXPECTED_DEPTH, MOST_LEVELS, parse_json, parse_yaml
from trainshed_api.validation import normalise_document, validate_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainshed_api.v1alpha1 import TrainingRunResource

Document = dict[str, JsonValue]

_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]+\])*)")


def load_file(path: Path | str, settings: Sequence[str] = ()) -> TrainingRunResource:
    """Return the TrainingRun of a file, `settings` ("path=value") applied to it first.

    Raises SpecError, also for a file that cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(
            [Problem(str(path), None, error.strerror or str(error))], str(path)
        ) from None
    except UnicodeDecodeError:
        raise SpecError(
            [Problem(str(path), None, "expected a text file in UTF-8")], str(path)
        ) from None
    return load_text(text, str(path), settings)


def load_text(text: str, source: str, settings: Sequence[str] = ()) -> TrainingRunResource:
    """Return the TrainingRun of a YAML or JSON text named `source`. Raises SpecError."""
    return validate_document(_written(text, source, settings), source)


def load_written(path: Path, settings: Sequence[str] = ()) -> Document:
    """Return the object of a file that was validated as it is written, without any default."""
    return _written(path.read_text(encoding="utf-8"), str(path), settings)


def _written(text: str, source: str, settings: Sequence[str]) -> Document:
    document = load_document(text, source)
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise SpecError([Problem("--set", show_value(setting), "path=value")], source)
        document = set_value(document, path.strip(), value)
    return document


def load_document(text: str, source: str) -> Document:
    """Return the one object of a text, not yet validated. Raises SpecError for none or several."""
    documents: list[JsonValue] | None = None
    # Like kubectl: what begins like JSON is tried as JSON, which may be indented by tabs.
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            documents = [parse_json(text)]
    if documents is None:
        documents = parse_yaml(text, source)
    if len(documents) != 1:
        got = f"{len(documents)} documents" if documents else "an empty file"
        raise SpecError([Problem(source, got, "exactly one TrainingRun")], source)
    document = normalise_document(documents[0], source)
    if not isinstance(document, dict):
        raise SpecError([Problem(source, show_value(document), "a TrainingRun object")], source)
    return document


def set_value(document: Document, path: str, text: str) -> Document:
    """Return the document with one value replaced or added.

    path: as in error texts, `spec.data.datasets.train.transforms[0].options.size`; maps on the way
    are made, list items must exist. text: read as YAML, so `0.1` is a number and `[1, 2]` a list;
    a single sign other than `~` stands for itself, such as `,` and `#`. Whether the path exists in
    the model is found by validation.
    """
    steps = _split_path(path)
    is_sign = len(text) == 1 and not text.isalnum() and text != "~"
    values = [text] if is_sign else parse_yaml(text, f"--set {path}")
    if len(values) > 1:
        raise SpecError([Problem(path, show_value(text), "one value")])
    value = normalise_document(values[0], f"--set {path}") if values else None
    result = _replace(document, steps, value, path)
    if not isinstance(result, dict):
        raise AssertionError("a path starts with a key")
    return result


def _split_path(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for part in path.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise SpecError(
                [Problem("--set", show_value(path), "a path such as spec.config.learningRate")]
            )
        steps.append(match[1])
        steps.extend(int(index) for index in re.findall(r"[0-9]+", match[2]))
    if len(steps) > MOST_LEVELS:
        raise SpecError([Problem("--set", show_value(path), f"a path of {EXPECTED_DEPTH}")])
    return steps


def _replace(
    target: JsonValue, steps: Sequence[str | int], value: JsonValue, path: str
) -> JsonValue:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        if not isinstance(target, list) or step >= len(target):
            size = f"a list of {len(target)}" if isinstance(target, list) else "no list"
            raise SpecError([Problem(path, f"[{step}] of {size}", "an item that exists")])
        return [
            _replace(item, rest, value, path) if i == step else item
            for i, item in enumerate(target)
        ]
    if target is None:
        target = {}
    if not isinstance(target, dict):
        raise SpecError([Problem(path, f"{step} of {show_value(target)}", "a map to put it in")])
    return target | {step: _replace(target.get(step), rest, value, path)}
