"""Every public name has an example on a page, in a sample or in the values of the chart."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

import click
import yaml
from pydantic import JsonValue

from hack.chart.helm import CHART
from hack.chart.values import read_values
from hack.commands import walk
from tests.bundle.repository import ROOT
from tests.bundle.test_pages import PAGES, blocks_of, commands_in
from trainshed.cli.main import cli
from trainshed_api.reference import iterate_fields
from trainshed_api.shape import Shape, training_run_shape
from trainshed_api.status import ConditionType, Phase
from trainshed_controller.project import REFUSED

CHART_PAGE = CHART / "README.md"
CONTROLLER_PAGE = ROOT / "docs" / "controller.md"
TEXTS = [page.read_text("utf-8") for page in PAGES]
# They remain for one release, or do what another command does.
EARLIER = {"trainshed data digits", "trainshed list", "trainshed status"}
METRIC = r'"((?:trainshed|workqueue|controller_runtime)_\w+)"'


def load(text: str) -> list[JsonValue]:
    """Return the documents of YAML; none if it is no YAML, but a text or a template."""
    try:
        return list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.YAMLError:
        return []


def names_in(shape: Shape, value: JsonValue, path: str) -> Iterator[str]:
    """Yield the path of every field that a part of a TrainingRun sets."""
    yield path
    if isinstance(value, list):
        for each in value:
            if shape.items:
                yield from names_in(shape.items, each, f"{path}[]")
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in shape.fields:
                yield from names_in(shape.fields[name], each, f"{path}.{name}")
            elif shape.values:
                yield from names_in(shape.values, each, f"{path}.NAME")


def parts_shown() -> Iterator[tuple[str, JsonValue]]:
    """Yield name and value of all that pages and samples set in yaml, in a text or by --set."""
    texts = [block for page in PAGES for block in blocks_of(page, "yaml")]
    texts += re.findall(r"`(\w+: [^`]*)`", "".join(TEXTS))
    for folder in ("manifests", "examples"):
        texts += [file.read_text("utf-8") for file in (ROOT / folder).rglob("*.yaml")]
    for text in texts:
        for document in load(text):
            if isinstance(document, dict):
                yield from document.items()
    for words in (words for page in PAGES for words in commands_in(page)):
        for option, word in pairwise(words):
            if option == "--set":
                yield word.partition("=")[0].rpartition(".")[2], ""


def test_every_field_is_set_somewhere() -> None:
    fields = {
        path: shape
        for path, shape in iterate_fields(training_run_shape())
        if not shape.description.startswith("Deprecated")
    }
    dataset = fields["spec.data.datasets"].values
    assert dataset
    shown: set[str] = set()
    for name, value in parts_shown():
        for path, shape in fields.items():
            if path == name or path.endswith(f".{name}"):
                shown.update(names_in(shape, value, path))
        shown.update(names_in(dataset, value, "spec.data.datasets.NAME"))

    assert fields.keys() - shown == set()


def test_every_command_and_option_is_typed_somewhere() -> None:
    typed = [words for page in PAGES for words in commands_in(page)]
    typed += [text.split() for text in re.findall("`(trainshed [^`]+)`", "".join(TEXTS))]
    wanted, shown = set(), set()
    for path, command in walk(cli, "trainshed"):
        if path in EARLIER:
            continue
        mine = [words for words in typed if words[: len(path.split())] == path.split()]
        wanted.add(path)
        shown.update([path] if mine else [])
        for option in command.params:
            if isinstance(option, click.Option):
                # One example is enough for an option that several commands have.
                name = f"{option.opts[-1]}: {option.help}"
                wanted.add(name)
                spellings = {*option.opts, *option.secondary_opts}
                if any(spellings.intersection(words) for words in mine):
                    shown.add(name)

    assert wanted - shown == set()


def values_shown() -> list[JsonValue]:
    """Return the values of the chart that its page, other pages and its samples show."""
    files = sorted((CHART / "ci").glob("*.yaml"))
    texts = [*(file.read_text("utf-8") for file in files), *blocks_of(CHART_PAGE, "yaml")]
    texts += [block for page in PAGES for block in blocks_of(page, "yaml")]
    return [document for text in texts for document in load(text)]


def paths_in(value: JsonValue, path: str = "") -> Iterator[str]:
    """Yield the paths of the values that are set."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield f"{path}{name}"
            yield from paths_in(each, f"{path}{name}.")


def test_every_value_that_is_empty_by_default_is_set_somewhere() -> None:
    empty = {
        value.path
        for value in read_values(CHART / "values.yaml")
        if value.default in {"{}", "[]", '""'}
    }
    shown = {path for each in values_shown() for path in paths_in(each)}
    shown |= {re.sub(r"^groups\.\w+\.", "groupDefaults.", path) for path in shown}
    shown |= set(re.findall(r'--set "?([\w.-]+)', "".join(TEXTS)))

    assert empty - shown == set()


def test_the_page_of_the_chart_shows_values_that_exist() -> None:
    values = [f"{value.path}." for value in read_values(CHART / "values.yaml")]
    shown = {
        f"{path}." for text in blocks_of(CHART_PAGE, "yaml") for path in paths_in(load(text)[0])
    }

    known = {
        path
        for path in shown
        for value in values
        if value.startswith(path) or path.startswith(value)
    }
    assert shown - known == set()


def test_every_metric_is_in_a_query() -> None:
    source = (ROOT / "controller" / "trainshed_controller" / "metrics.py").read_text()
    [queries] = blocks_of(CONTROLLER_PAGE, "promql")

    assert {name for name in re.findall(METRIC, source) if name not in queries} == set()


def test_every_condition_and_every_event_has_an_example() -> None:
    text = CONTROLLER_PAGE.read_text("utf-8")
    conditions = re.findall(r"^\| `(\w+)` \| .* \| `(?:True|False)`", text, re.MULTILINE)
    events = re.findall(r"^\| `(\w+)` \| (?:Normal|Warning) \| \w", text, re.MULTILINE)

    assert set(conditions) == set(get_args(ConditionType))
    assert set(events) == {*get_args(Phase), REFUSED}


def test_the_search_finds_the_last_part_of_a_path() -> None:
    [separator] = re.findall(r"separator: '(.*)'", (ROOT / "mkdocs.yml").read_text())

    assert re.split(separator, "`spec.checkpoint.trustObjects`")[1:-1] == [
        "spec",
        "checkpoint",
        "trustObjects",
    ]
