"""The report of a run: one HTML file that opens offline and needs no other file.

Reads the files of a run and draws them. It imports neither Ray nor torch, so a report can be
written again at any time from the files alone. `load` reads the files of a run; `curves`,
`metrics`, `history` and `provenance` select what the report shows; `plots` draws charts; `page`
and the template lay out the page.
"""

from trainshed.report.load import NoRunFolderError
from trainshed.report.write import write_report

__all__ = ["NoRunFolderError", "write_report"]
