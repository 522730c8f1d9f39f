"""Write the report of a run: folder -> page -> one HTML file, put in place at once."""

from trainshed.report.load import read_run
from trainshed.report.page import render_page
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import REPORT


def write_report(run_folder: Folder) -> str:
    """Write `report.html` into the folder of a run, running or ended, and return where it lies.

    Raises NoRunFolderError where the folder holds no run, and OSError where it cannot be written.
    """
    # The page names the folder, so use a path that is valid on other machines.
    folder = Disk(run_folder.path.absolute()) if run_folder.path else run_folder
    page = render_page(read_run(folder))
    # A message may hold half of a surrogate pair, which no encoding has.
    folder.write(REPORT, page.encode("utf-8", errors="replace"))
    return str(folder / REPORT)
