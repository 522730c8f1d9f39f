"""The reference of the command line: `python -m hack.commands` writes docs/commands.md."""

from __future__ import annotations

import textwrap
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trainshed.cli.main import Unloaded, cli

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMANDS = Path(__file__).parent.parent / "docs" / "commands.md"
_PIPE = r"\|"  # in a cell of a table
_HEAD = """# All commands and options

Generated from the commands by `python -m hack.commands`; do not edit. [Command line](cli.md)
explains them by task, with exit codes and environment variables. In the search of the site leave
out the dashes of an option: `rows-per-file`.

## Shell completion

```console
$ eval "$(_TRAINSHED_COMPLETE=bash_source trainshed)"    # in ~/.bashrc; zsh_source in ~/.zshrc
$ _TRAINSHED_COMPLETE=fish_source trainshed | source     # fish
```
"""


def walk(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that are no groups, in alphabetical order, each with its full name."""
    if isinstance(command, Unloaded):
        command = command.load()
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, below in sorted(command.commands.items()):
        yield from walk(below, f"{path} {name}")


def render_commands() -> str:
    """Return help and options of all commands as Markdown."""
    return _HEAD + "".join(_section(*each) for each in walk(cli, "trainshed"))


def _section(path: str, command: click.Command) -> str:
    with click.Context(command, info_name=path) as context:
        usage = " ".join([path, *command.collect_usage_pieces(context)])
        options = [each for each in command.params if isinstance(each, click.Option)]
        records = [option.get_help_record(context) for option in options]
    text = "\n\n".join(
        textwrap.fill(" ".join(paragraph.split()), 100)
        for paragraph in cleandoc(command.help or "").split("\n\n")
    )
    rows = "".join(
        f"| `{names.replace('|', _PIPE)}` | {' '.join(said.split())} |\n"
        for names, said in filter(None, records)
    )
    table = f"\n| Option | Meaning |\n|---|---|\n{rows}" if rows else ""
    return f"\n## {path}\n\n{text}\n\n```console\n$ {usage}\n```\n{table}"


if __name__ == "__main__":
    COMMANDS.write_text(render_commands())
