"""Write the report of a run: folder -> page -> one HTML file, put in place at once."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trainshed.report.load import read_run
from trainshed.report.page import Page, compose_page
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import REPORT


def write_report(run_folder: Folder) -> str:
    """Write `report.html` into the folder of a run, running or ended, and return where it lies.

    Raises NoRunFolderError where the folder holds no run, and OSError where it cannot be written.
    """
    # The page names the folder, so use a path that is valid on other machines.
    folder = Disk(run_folder.path.absolute()) if run_folder.path else run_folder
    page = compose_page(read_run(folder))
    # A message may hold half of a surrogate pair, which no encoding has.
    folder.write(REPORT, render_page(page).encode("utf-8", errors="replace"))
    return str(folder / REPORT)


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
