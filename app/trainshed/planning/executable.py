"""Where the command of `spec.entrypoint` lies: found before anything starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

# These run the file that is their first argument.
PYTHONS, SHELLS = ("python", "python3"), ("bash", "sh")
# Options of Python that are followed by a value, and those after which no file comes.
VALUE_OPTIONS, NO_FILE_OPTIONS = ("-W", "-X"), ("-m", "-c")


def find_command(words: Sequence[str], beside: Path) -> tuple[str, ...]:
    """Return the words as they can be executed from here.

    Args:
        words: of the spec. `python` is the Python that runs this.
        beside: folder of the TrainingRun file; a program's or script's relative path that does not
            exist from here is looked for in it.

    Raises:
        SpecError: when the program or its script is not there.
    """
    name = words[0]
    found = [_find_program(name, beside), *words[1:]]
    position = _script_position(words)
    if position is not None:
        script = _find_file(words[position], beside)
        if script is None:
            field = f"spec.entrypoint[{position}]"
            raise SpecError([Problem(field, json.dumps(words[position]), _say_file(beside))])
        found[position] = script
    return tuple(found)


def _find_program(name: str, beside: Path) -> str:
    if name in PYTHONS:
        return sys.executable
    found = _find_file(name, beside) if os.sep in name else name
    program = shutil.which(found) if found else None
    if program is None:
        expected = f"a program on PATH, or the path of one: {_say_file(beside)}"
        raise SpecError([Problem("spec.entrypoint[0]", json.dumps(name), expected)])
    return program


def _script_position(words: Sequence[str]) -> int | None:
    """Return which word is the file that Python or a shell runs; None where there is none."""
    if words[0] not in (*PYTHONS, *SHELLS):
        return None
    position = 1
    while position < len(words) and words[position].startswith("-"):
        if words[position].startswith(NO_FILE_OPTIONS):
            return None
        position += 2 if words[position] in VALUE_OPTIONS else 1
    return position if position < len(words) else None


def _find_file(name: str, beside: Path) -> str | None:
    if Path(name).is_file():
        return name
    other = beside / name
    return str(other) if other.is_file() else None


def _say_file(beside: Path) -> str:
    places = dict.fromkeys([str(Path.cwd()), str(beside)])
    return f"a file in {' or '.join(places)}"
