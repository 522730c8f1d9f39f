"""The program of `helm test`, against a dashboard and an API server that this test plays."""

import json
import os
import runpy
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hack.chart.helm import CHART
from tests.chart.rendering import Renderer, at, of_kind, rows, text
from tests.chart.test_documented_commands import make_certificate
from trainshed_api.names import NO_IMAGE

SCRIPT = (CHART / "files" / "nodes.py").read_text()
TOKEN = "right"
IMAGE = "ghcr.io/trainshed/app:0.1.0"
FORBIDDEN = "unexpected status from HEAD request: 403 Forbidden"


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

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def serving(server: HTTPServer) -> Iterator[int]:
    """Have the server answer; give its port."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def api_server(account: Path, pods: list[dict[str, object]]) -> Iterator[str]:
    """Answer as the API server does: Pods for who has the account's token, 403 for others."""
    certificate, key = make_certificate("localhost", account)
    certificate.rename(account / "ca.crt")
    (account / "token").write_text("account")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            right = self.headers.get("Authorization") == "Bearer account"
            self.send_response(200 if right else 403)
            self.end_headers()
            self.wfile.write(json.dumps({"items": pods}).encode() if right else b"")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with serving(server) as port:
        yield f"https://localhost:{port}/api/v1/namespaces/trainshed/pods"


def waiting_pod(name: str, reason: str, message: str, statuses: str) -> dict[str, object]:
    state = {"waiting": {"reason": reason, "message": message}}
    container = {"name": "ray", "image": IMAGE, "state": state}
    return {"metadata": {"name": name}, "status": {statuses: [container]}}


def run_script(
    address: str,
    want: dict[str, int],
    token: str = TOKEN,
    pods: str = "https://localhost:9",
    account: Path = Path("/nowhere"),
) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={
            "PATH": os.environ["PATH"],
            "DASHBOARD": address,
            "WANT": json.dumps(want),
            "RAY_AUTH_TOKEN": token,
            "PODS": pods,
            "ACCOUNT": str(account),
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
    assert "group gpu has 1 nodes; expected 2" in output


def test_a_cluster_that_is_open_fails() -> None:
    with dashboard([node("head")], closed=False) as address:
        code, output = run_script(address, {"head": 1})

    assert code == 1
    assert "answers 200 to who has no token; expected 401" in output


def test_a_token_of_another_cluster_fails() -> None:
    with dashboard([node("head")]) as address:
        code, output = run_script(address, {"head": 1}, token="wrong")

    assert code == 1
    assert "answers 403 to the cluster's token; expected 200" in output


def test_a_dashboard_that_is_away_is_said() -> None:
    with dashboard([]) as address:
        pass
    code, output = run_script(address, {"head": 1})

    assert code == 1
    assert "does not answer" in output


@pytest.mark.parametrize("statuses", ["initContainerStatuses", "containerStatuses"])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_an_image_that_cannot_be_pulled_is_named(
    tmp_path: Path, statuses: str, reason: str
) -> None:
    broken = waiting_pod("trainshed-cpu-worker-x", reason, FORBIDDEN, statuses)
    starts = waiting_pod("trainshed-head-x", "ContainerCreating", "", statuses)
    with dashboard([node("head")]) as address, api_server(tmp_path, [broken, starts]) as pods:
        code, output = run_script(address, {"head": 1, "cpu": 1}, pods=pods, account=tmp_path)

    assert code == 1
    assert output.splitlines() == [
        f"Pod trainshed-cpu-worker-x: image {IMAGE} cannot be pulled: {reason}: {FORBIDDEN}",
        "group cpu has 0 nodes; expected 1. Look at the Pods: kubectl get pods -l "
        "ray.io/is-ray-node=yes",
    ]


def test_the_controller_and_the_test_know_the_same_reasons() -> None:
    assert runpy.run_path(str(CHART / "files" / "nodes.py"))["NO_IMAGE"] == NO_IMAGE


def test_a_head_whose_image_cannot_be_pulled_is_named(tmp_path: Path) -> None:
    head = waiting_pod("trainshed-head-x", "InvalidImageName", "invalid", "containerStatuses")
    with dashboard([]) as address:
        pass
    with api_server(tmp_path, [head]) as pods:
        code, output = run_script(address, {"head": 1}, pods=pods, account=tmp_path)

    assert code == 1
    assert "Pod trainshed-head-x: image" in output
    assert "does not answer" in output


def test_an_api_server_that_refuses_hides_nothing_else(tmp_path: Path) -> None:
    with dashboard([node("head")]) as address, api_server(tmp_path, []) as pods:
        (tmp_path / "token").write_text("another")
        code, output = run_script(address, {"cpu": 1}, pods=pods, account=tmp_path)

    assert code == 1
    assert "The API server does not list the Pods: HTTP Error 403" in output
    assert "group cpu has 0 nodes; expected 1" in output


def test_the_test_does_not_need_the_image_that_it_looks_for(renderer: Renderer) -> None:
    """It could not start where the nodes cannot."""
    [pod] = of_kind(renderer.render(), "Pod")
    [container] = rows(pod, "spec", "containers")

    assert "/controller:" in text(container, "image")
    # Helm prints what it said.
    assert at(pod, "metadata", "annotations", "helm.sh/hook-output-log-policy") == "hook-failed"


def test_without_the_controller_the_test_runs_in_the_image_that_there_is(
    renderer: Renderer,
) -> None:
    [pod] = of_kind(renderer.render(None, "--set=controller.enabled=false"), "Pod")
    [container] = rows(pod, "spec", "containers")

    assert "/app:" in text(container, "image")


def test_the_test_lists_the_pods_of_its_release(renderer: Renderer) -> None:
    objects = renderer.render()
    [pod] = of_kind(objects, "Pod")
    env = {text(row, "name"): at(row, "value") for row in rows(pod, "spec", "containers", 0, "env")}
    [role] = [
        role
        for role in of_kind(objects, "Role")
        if at(role, "metadata", "name") == at(pod, "spec", "serviceAccountName")
    ]
    mounts = {
        at(mount, "mountPath") for mount in rows(pod, "spec", "containers", 0, "volumeMounts")
    }

    assert str(env["PODS"]).endswith(
        "/namespaces/trainshed/pods?labelSelector=app.kubernetes.io/instance=trainshed"
    )
    assert rows(role, "rules") == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert env["ACCOUNT"] in mounts
