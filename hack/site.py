"""What mkdocs.yml needs beyond Markdown: links into the repository, and drawn diagrams."""

import base64
import posixpath
import re

import mmdr
from mkdocs.structure.pages import Page

_SOURCES = "https://github.com/trainshed/trainshed/blob/main/"
_LINK_UPWARDS = re.compile(r"\]\((\.\./[^)\s]+)\)")


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a page whose links to files outside docs/ lead to the repository on GitHub."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def address(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if path.startswith("docs/") else f"]({_SOURCES}{path})"

    return _LINK_UPWARDS.sub(address, markdown)


def draw_diagram(source: str, *_: object, **__: object) -> str:
    """Return a Mermaid block as a picture, so that a reader needs no JavaScript."""
    svg = mmdr.render(source).svg().encode()
    return f'<img alt="Diagram" src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}">'
