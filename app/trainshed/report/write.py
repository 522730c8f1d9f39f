"""Write the report of a run: folder -> page -> one HTML file, put in place at once."""

import os
import tempfile
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trainshed.report.page import Page, compose_page
from trainshed.report.read import read_run

REPORT_NAME = "report.html"


def write_report(run_folder: Path) -> Path:
    """Write `report.html` into the folder of a run, running or ended, and return its path.

    Raises NoRunFolderError where the folder holds no run, and OSError where it cannot be written.
    """
    page = compose_page(read_run(run_folder.absolute()))
    target = run_folder.absolute() / REPORT_NAME
    # Somebody may have the report open: they see the old one or the new one, never half of it.
    handle, temporary = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(render_page(page))
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return target


def render_page(page: Page) -> str:
    """The page as HTML; every text in it is escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html.j2").render(page=page)
