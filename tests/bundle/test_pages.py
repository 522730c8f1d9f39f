"""What pages show is right: programs, parts of TrainingRuns, and commands with their options.

tests/bundle/test_data_page.py compares the yaml of docs/data with the samples.
"""

import ast
import contextlib
import pkgutil
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
import yaml
from pydantic import JsonValue

from hack.commands import COMMANDS
from tests.builders import make_document
from tests.bundle.repository import ROOT
from trainshed.cli.main import cli
from trainshed_api import names
from trainshed_api.status import ConditionType, Phase
from trainshed_api.syntax import parse_python
from trainshed_api.validation import validate_document

PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted(
        path
        for path in (ROOT / "docs").rglob("*.md")
        if path != COMMANDS and path.parent.name != "decisions"
    ),
]
# The first field of yaml that is for another program, by page.
OTHERS = {
    ("frameworks.md", "controller"),  # values of the chart
    ("install.md", "controller"),
    ("install.md", "resource.customizations.health.trainshed.dev_TrainingRun"),  # Argo CD
    ("coming-from.md", "apiVersion"),
    ("automation.md", "apiVersion"),
    ("automation.md", "name"),  # GitHub Actions
}
# They import packages that are not among the requirements; `make test-trainers` has them.
OF_TRAINERS = ("trainshed.lightning", "trainshed.huggingface")
MANIFEST = re.compile(r"^( *)apiVersion: trainshed\.dev/v1alpha1\n(?:\1.*\n|\n)+", re.MULTILINE)


def blocks_of(page: Path, language: str) -> list[str]:
    """Return what a page shows in a language."""
    found = re.findall(
        rf"^( *)```{language}\n(.*?)^\1```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    return [textwrap.dedent(text) for _, text in found]


def shown(language: str) -> list[object]:
    """Return a parameter for each block of all pages."""
    return [
        pytest.param(page, text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, text in enumerate(blocks_of(page, language), 1)
    ]


@pytest.mark.parametrize(("page", "text"), shown("python"))
def test_programs_are_python_and_import_what_exists(page: Path, text: str) -> None:
    tree = parse_python(text)
    assert tree.body
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(str(module), names):
                imported = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute(ast.Name("trainshed"), name):
                imported = [f"trainshed.{name}"]
            case _:
                continue
        for name in imported:
            if name.split(".")[0] == "trainshed" and not name.startswith(OF_TRAINERS):
                pkgutil.resolve_name(name)


@pytest.mark.parametrize(("page", "text"), shown("yaml"))
def test_parts_of_training_runs_are_accepted(page: Path, text: str) -> None:
    for document in documents_in(page, text):
        run = validate_document(document, page.name)

        datasets = run.spec.data.datasets
        mixed = {part for dataset in datasets.values() for part in dataset.read.mix or ()}
        assert datasets.keys() - mixed <= {"train", "valid"}


def documents_in(page: Path, text: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the TrainingRuns that a block is, has in it, or is a part of."""
    if manifests := list(MANIFEST.finditer(text)):
        for manifest in manifests:
            filled = re.sub(r"\{\{.*?\}\}", "1", textwrap.dedent(manifest[0]))
            yield yaml.safe_load(filled)
        return
    block = yaml.safe_load(text)
    if page.parent.name == "data" or (page.name, next(iter(block))) in OTHERS:
        return
    if isinstance(block.get("train"), dict):  # datasets, of which some show no `read`
        read = {"read": {"format": "parquet", "path": "rows"}}
        datasets = {name: {**read, **dataset} for name, dataset in block.items()}
        block = {"data": {"datasets": datasets}}
    yield make_document(**block.get("spec", block))


def commands_in(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command of consoles, workflows and texts."""
    text = page.read_text("utf-8").replace("\\\n", " ")
    lines = re.findall(r"^ *(?:\$ |- run: )(.*)$", text, re.MULTILINE)
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;"):
                yield words
                words = []
            elif words or "=" not in word:  # else the environment of the command
                words.append(word)
        yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_show(page: Path) -> None:
    for words in commands_in(page):
        if words and Path(words[0]).name == "trainshed":
            parse(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_texts_name_commands_and_options_that_exist(page: Path) -> None:
    for code in re.findall(r"`trainshed ([a-z][^`]*)`", page.read_text("utf-8").replace("\n", " ")):
        with contextlib.suppress(click.BadParameter):  # a text may leave out FILE, or say NAME
            parse(shlex.split(code))


def test_pages_name_all_conditions_metrics_variables_and_exit_codes() -> None:
    metrics = (ROOT / "controller" / "trainshed_controller" / "metrics.py").read_text()
    kinds = "trainshed|workqueue|controller_runtime"
    wanted = {f"`{name}`" for name in (*get_args(ConditionType), *get_args(Phase))}
    wanted |= set(re.findall(rf'"((?:{kinds})_\w+)"', metrics))
    for name, value in vars(names).items():
        if name.startswith("ENV_"):
            wanted.add(value)
        elif name.startswith("EXIT_"):
            wanted.add(f"| {value} |")
    text = "".join(page.read_text("utf-8") for page in PAGES)
    assert {name for name in wanted if name not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets_of_make_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = {
        word
        for words in commands_in(page)
        if words[:1] == ["make"]
        for word in words[1:]
        if re.fullmatch(r"[a-z-]+", word)
    }
    assert targets - set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) == set()


def parse(words: list[str]) -> None:
    """Parse a command without running it.

    Raises:
        click.UsageError: if it is wrong.
    """
    command: click.Command = cli
    context = click.Context(cli, info_name="trainshed")
    with contextlib.suppress(click.exceptions.Exit):
        while isinstance(command, click.Group) and words:
            name, found, words = command.resolve_command(context, words)
            assert found
            command = found
            context = click.Context(command, info_name=name, parent=context)
        if words:
            command.parse_args(context, words)
