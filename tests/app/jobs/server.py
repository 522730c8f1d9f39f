"""A small HTTP server that answers as a test says, and remembers what it was asked."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Reply = tuple[int, str]


@dataclass
class Server:
    """A running server.

    Args:
        answer: (path, body) -> (status, body); may be replaced while it runs.
    """

    answer: Callable[[str, str], Reply]
    address: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)


@contextmanager
def serve(answer: Callable[[str, str], Reply]) -> Iterator[Server]:
    """Run a server on a port of its own."""
    server = Server(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            size = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size).decode()
            server.asked.append((self.path, body))
            server.authorizations.append(self.headers.get("Authorization", ""))
            status, text = server.answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_POST = do_GET  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.address = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
