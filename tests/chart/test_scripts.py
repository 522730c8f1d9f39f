"""The program of `helm test`, against a dashboard that this test plays."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from hack.chart.helm import CHART

SCRIPT = (CHART / "files" / "nodes.py").read_text()
TOKEN = "right"


def node(group: str, state: str = "ALIVE") -> dict[str, object]:
    return {"state": state, "labels": {"trainshed.dev/group": group}}


@contextmanager
def dashboard(nodes: list[dict[str, object]], *, closed: bool = True) -> Iterator[str]:
    """Answer as Ray's dashboard does: nodes for who has the token, 401 for who has none."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization")
            right = given == f"Bearer {TOKEN}"
            status = 200 if right or not closed else (403 if given else 401)
            body = json.dumps({"data": {"result": {"result": nodes}}}).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if status == 200 else b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run_script(address: str, want: dict[str, int], token: str = TOKEN) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={
            "PATH": os.environ["PATH"],
            "DASHBOARD": address,
            "WANT": json.dumps(want),
            "RAY_AUTH_TOKEN": token,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_cluster_with_its_nodes_passes() -> None:
    with dashboard([node("head"), node("gpu"), node("gpu"), node("cpu", "DEAD")]) as address:
        code, output = run_script(address, {"head": 1, "gpu": 2, "cpu": 0})

    assert code == 0
    assert '{"gpu": 2, "head": 1}' in output


def test_a_missing_node_is_named() -> None:
    with dashboard([node("head"), node("gpu"), node("gpu", "DEAD")]) as address:
        code, output = run_script(address, {"head": 1, "gpu": 2})

    assert code == 1
    assert "group gpu has 1 nodes, want 2" in output


def test_a_cluster_that_is_open_fails() -> None:
    with dashboard([node("head")], closed=False) as address:
        code, output = run_script(address, {"head": 1})

    assert code == 1
    assert "answers 200 to who has no token, want 401" in output


def test_a_token_of_another_cluster_fails() -> None:
    with dashboard([node("head")]) as address:
        code, output = run_script(address, {"head": 1}, token="wrong")

    assert code == 1
    assert "answers 403 to the cluster's token, want 200" in output


def test_a_dashboard_that_is_away_is_said() -> None:
    with dashboard([]) as address:
        pass
    code, output = run_script(address, {"head": 1})

    assert code == 1
    assert "does not answer" in output
