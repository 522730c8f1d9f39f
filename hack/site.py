"""What mkdocs.yml needs beyond Markdown: the chart's page, links to sources, and drawn diagrams."""

import base64
import posixpath
import re

import mmdr
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_SOURCES = "https://github.com/trainshed/trainshed/blob/main/"
_LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
# Pages whose source is not below docs/.
_ELSEWHERE = {"chart.md": "charts/trainshed/README.md"}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages whose source is not below docs/."""
    for name, source in _ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=source))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a page whose links to files outside docs/ lead to the repository on GitHub."""
    name = page.file.src_uri
    source = _ELSEWHERE.get(name, posixpath.join("docs", name))
    pages = {source: name for name, source in _ELSEWHERE.items()}

    def address(link: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link[1]))
        target = pages.get(path) or (path[len("docs/") :] if path.startswith("docs/") else "")
        if not target:
            return f"]({_SOURCES}{path}{link[2] or ''})"
        return f"]({posixpath.relpath(target, posixpath.dirname(name) or '.')}{link[2] or ''})"

    return _LINK.sub(address, markdown)


def draw_diagram(source: str, *_: object, **__: object) -> str:
    """Return a Mermaid block as a picture, so that a reader needs no JavaScript."""
    svg = mmdr.render(source).svg().encode()
    return f'<img alt="Diagram" src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}">'
