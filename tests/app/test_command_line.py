"""`trainshed --help` and `import trainshed` are quick, and list what there is."""

import subprocess
import sys

import pytest

from trainshed.cli.main import COMMANDS, Unloaded

HEAVY = {"aiohttp", "numpy", "pandas", "pyarrow", "pydantic", "ray", "rich", "torch", "yaml"}


@pytest.mark.parametrize("words", ["--help", "--version", "no-such-command"])
def test_the_list_of_commands_imports_no_heavy_library(words: str) -> None:
    program = (
        "import atexit, sys, trainshed; from trainshed.cli.main import main; sys.argv[1:] = "
        f"[{words!r}]; atexit.register(lambda: print('imported', *{HEAVY} & {{*sys.modules}})); "
        "main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "imported", done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_the_list_of_commands_says_what_their_help_says(command: tuple[str, str, str]) -> None:
    assert Unloaded(*command).load().get_short_help_str(limit=100) == command[2]
