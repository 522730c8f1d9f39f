"""What must not be in any file of the repository."""

import re
from pathlib import Path

import pytest

from tests.bundle.repository import ROOT, read_text, tracked_files

FORBIDDEN = {
    "a registry's host: where packages come from is for each machine to say": (
        r"(?:pypi|pythonhosted|npmjs|crates|maven|debian)\.(?:org|io|com)"
        # Without those two, golang.org is part of the names of Go modules.
        r"|(?:proxy|sum)\.golang\.org"
    ),
    # An image's own user may be named; it is the same on every machine.
    "a path of one machine": r"(?<![\w.$}/~:-])/(?:work|root|home(?!/ray\b)|Users)/",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "a conflict left by a merge": r"^(?:<{7} |>{7} )",
}
DRAWERS = {"util", "utils", "helper", "helpers", "common", "base", "misc", "manager"}


@pytest.mark.parametrize("pattern", FORBIDDEN.values(), ids=FORBIDDEN)
def test_no_tracked_file_holds(pattern: str) -> None:
    wanted = re.compile(pattern, re.MULTILINE)
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked_files()
        for match in wanted.finditer(read_text(path) or "")
    ]
    assert found == []


def test_no_module_is_a_drawer() -> None:
    assert [
        path for path in _modules() if path.stem in DRAWERS or path.parent.name in DRAWERS
    ] == []


def test_every_package_opens_with_a_charter() -> None:
    packages = [path for path in _modules() if path.name == "__init__.py"]
    assert [path for path in packages if not path.read_text().startswith('"""')] == []


def test_scripts_are_executable_and_stop_at_the_first_error() -> None:
    scripts = [
        path
        for path in tracked_files()
        if (read_text(path) or "").startswith("#!/usr/bin/env bash")
    ]
    assert scripts, "there is at least .ci/run"
    assert [path for path in scripts if not path.stat().st_mode & 0o100] == []
    assert [path for path in scripts if "set -euo pipefail" not in path.read_text()] == []


def _modules() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".py"]
