"""Runs the commands that pages show, and compares what they print with what the page says.

    python -m hack.pages docs/gallery/detection.md docs/how-to/resume.md

`make gallery NAME=detection` runs one page of the gallery or of the how-tos, `make gallery` all of
them but those with a line `<!-- needs: a bucket -->`, which run only by name. In a page `...`
stands for any lines, or for the end of a line. Numbers may differ by a tenth, as sums of floats
differ between machines. The picture that a page shows is the first chart of the report of its last
run.
"""

from __future__ import annotations

import argparse
import math
import os
import pty
import re
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("gallery", "how-to")
_TENTH = 0.1
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
_STYLE = ROOT / "app" / "trainshed" / "report" / "style.css"


def list_pages(name: str = "") -> list[Path]:
    """Return the pages that show runs, or the one of this name."""
    pages = [page for each in FOLDERS for page in sorted((ROOT / "docs" / each).glob("*.md"))]
    return [page for page in pages if page.stem == (name or page.stem) and page.stem != "README"]


def shown_session(page: Path) -> tuple[list[str], list[str]]:
    """Return the commands of the first console of a page, and the lines that it shows of them."""
    found = re.search(r"^```console\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = found[1].splitlines() if found else []
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return commands, [line for line in lines if not line.startswith("$ ") and line.strip() != "..."]


def missing_lines(shown: list[str], printed: str) -> list[str]:
    """Return the lines of a page that the commands have not printed in this order."""
    rest = iter(printed.splitlines())
    return [line for line in shown if not any(is_alike(line, each) for each in rest)]


def is_alike(shown: str, printed: str) -> bool:
    """Return whether a printed line is the shown one but for spaces and a tenth of its numbers."""
    words, found = shown.split(), printed.split()
    if words[-1:] == ["..."]:
        words = words[:-1]
        found = found[: len(words)]
    return len(words) == len(found) and all(map(_is_close, words, found))


def _is_close(shown: str, printed: str) -> bool:
    try:
        return math.isclose(float(shown), float(printed), rel_tol=_TENTH)
    except ValueError:
        return shown == printed


def first_chart(report: str) -> str:
    """Return the first chart of a report as a picture of its own."""
    found = re.search(r'<svg class="chart" (viewBox="0 0 \d+.*?</svg>)', report, re.DOTALL)
    if found is None:
        raise SystemExit("report: got no chart; expected one, of a run that reported a metric.")
    css = _STYLE.read_text("utf-8")
    colors, rules = css.partition("* {")[0], re.findall(r"^(?:svg|\.c0).*\n", css, re.MULTILINE)
    style = "".join([colors, "text { font-family: sans-serif; }\n", *rules])
    head, line, rest = found[1].partition("<line")
    opened = f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" {head}'
    return f"{opened}<style>\n{style}</style>\n{line}{rest}\n"


def run_page(page: Path, home: Path) -> list[str]:
    """Run the commands of a page until one fails, with `home` as TRAINSHED_HOME.

    Returns:
        What differs from the page: its lines that are missing, and the exit code of a failure.
    """
    commands, shown = shown_session(page)
    code, printed = run_commands(commands, str(home))
    return [*missing_lines(shown, printed), *([f"exit code {code}"] if code else [])]


def draw_picture(page: Path, home: Path) -> None:
    """Write the picture that a page shows, from the report of its last run."""
    reports = sorted(home.glob("runs/local/*/report.html"), key=lambda file: file.stat().st_mtime)
    picture = page.with_suffix(".svg")
    if reports and picture.name in page.read_text("utf-8"):
        picture.write_text(first_chart(reports[-1].read_text("utf-8")))


def run_commands(commands: list[str], home: str) -> tuple[int, str]:
    """Return the exit code of commands, and what they print on a terminal, as for people."""
    printed: list[bytes] = []

    def read(terminal: int) -> bytes:
        printed.append(os.read(terminal, 4096))
        return printed[-1]

    search = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = [search, f"TRAINSHED_HOME={home}", "TERM=dumb", "COLUMNS=160"]
    bash = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(commands)]
    status = pty.spawn(["env", f"--chdir={ROOT}", *settings, *bash], read)
    text = _CONTROL.sub("", b"".join(printed).decode(errors="replace"))
    return os.waitstatus_to_exitcode(status), text


def needs_of(page: Path) -> str | None:
    """Return what the commands of a page need besides the clone."""
    found = re.search(r"^<!-- needs: (.*) -->$", page.read_text("utf-8"), re.MULTILINE)
    return found and found[1]


def main(argv: list[str] | None = None) -> int:
    """Run pages; return 1 if one of them shows what its commands do not print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--name", default="", help="the page of this name")
    arguments = parser.parse_args(argv)
    missing: dict[str, list[str]] = {}
    pages = arguments.pages or list_pages(arguments.name)
    if not pages:
        names = ", ".join(page.stem for page in list_pages())
        parser.error(f"--name: got {arguments.name}; expected one of {names}.")
    is_named = bool(arguments.pages or arguments.name)
    for page in pages:
        if not is_named and (needs := needs_of(page)):
            print(f"=== {page.stem}: skipped, needs {needs}; NAME={page.stem} runs it", flush=True)
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="trainshed-page-") as home:
            missing[page.stem] = run_page(page, Path(home))
            if not missing[page.stem]:
                draw_picture(page, Path(home))
        print(f"=== {page.stem}: {time.monotonic() - started:.0f} s", flush=True)
    for name, lines in missing.items():
        print(f"{name}: {'as shown' if not lines else f'not as shown: {lines}'}")
    return int(any(missing.values()))


if __name__ == "__main__":
    sys.exit(main())
