"""The report of a run: one HTML file that opens offline and needs no other file.

Lives here: reading what a run left behind, and drawing it. Never here: Ray, torch, or anything
that a run does while it trains; a report can be written again at any time from the files alone.
Files change for these reasons: `read` with the files of a run, `curves`, `metrics`, `history` and
`provenance` with what is told of it, `plots` with how a chart looks, `page` and the template with
the page.
"""

from trainshed.report.load import NoRunFolderError
from trainshed.report.write import write_report

__all__ = ["NoRunFolderError", "write_report"]
