"""A web server of a test: it gives files, notes who asked how, and has the habits of real ones."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest
from typing_extensions import override

from hack.cluster.ports import LOOPBACK


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class WebServer:
    """What it gives, and how.

    Args:
        files: by their paths, which begin with a slash.
        moved: where paths lead to, as a Location has it.
        gives_ranges: whether a part of a file may be asked for.
        tells_size: whether it says how large a file is.
        tells: what else it says of each file.
        gives_heads: whether it may be asked about a file alone.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    gives_ranges: bool = True
    tells_size: bool = True
    tells: dict[str, str] = field(default_factory=dict)
    gives_heads: bool = True
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def count(self, method: str, *, of_ranges: bool = False) -> int:
        """Return how many requests came, of whole files or of ranges."""
        return sum(
            each.method == method and ("range" in each.headers) == of_ranges for each in self.asked
        )


@pytest.fixture
def web() -> Iterator[WebServer]:
    """A server without files, which a test gives it."""
    given = WebServer()

    class Answers(_Answers):
        of = given

    with ThreadingHTTPServer((LOOPBACK, 0), Answers) as server:
        given.url = f"http://{LOOPBACK}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield given
        server.shutdown()
        thread.join()


class _Answers(BaseHTTPRequestHandler):
    of: WebServer

    def do_GET(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.of.asked.append(Asked(self.command, self.path, headers))
        path = unquote(urlsplit(self.path).path)
        if self.command == "HEAD" and not self.of.gives_heads:
            self._say(403, self.of.tells, b"")
        elif path in self.of.moved:
            self._say(302, {"Location": self.of.moved[path]}, b"")
        elif path not in self.of.files:
            self._say(404, {}, b"")
        else:
            self._give(self.of.files[path], headers.get("range", ""))

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _give(self, content: bytes, asked: str) -> None:
        if not (asked and self.of.gives_ranges):
            self._say(200, self.of.tells, content)
            return
        size = len(content)
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, size - int(last))
        stop = min(size, int(last) + 1) if first and last else size
        if start >= size:
            self._say(416, {}, b"")
            return
        place = f"bytes {start}-{stop - 1}/{size}"
        self._say(206, {**self.of.tells, "Content-Range": place}, content[start:stop])

    def _say(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        self.send_response(status)
        if self.of.tells_size:
            self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass
