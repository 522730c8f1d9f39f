"""Reads a written report back as a browser would, as far as tests need it."""

from html.parser import HTMLParser

from trainshed.report import write_report
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import REPORT

VOID = {"meta", "link", "img", "line", "path", "circle", "rect", "br"}


class ParsedPage(HTMLParser):
    """The text of a page, its addresses, and the tags that were left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.alternatives: list[str] = []
        self.numbers: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        """Every word that a reader sees, separated by single spaces."""
        return " ".join(" ".join(self.words).split())

    @property
    def unclosed(self) -> list[str]:
        """Tags that were opened and never closed."""
        return self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self._open.append(tag)
        for name, value in attrs:
            if name in {"src", "href", "xlink:href", "action", "srcset", "data"}:
                self.addresses.append(value or "")
            if name in {"alt", "aria-label"}:
                self.alternatives.append(value or "")
            if name in {"d", "cx", "cy", "x", "y", "x1", "x2", "y1", "y2", "width"}:
                self.numbers.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in {"style", "script"}:
            self.words.append(data)


def write_page(run: Folder) -> ParsedPage:
    """Write the report of a run and read it back."""
    write_report(run)
    return ParsedPage(run.read(REPORT).decode())
