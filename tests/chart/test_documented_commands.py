"""The first commands of the docs, typed as they stand, on a machine where Helm knows no repository.

A TLS server on loopback stands in for KubeRay's chart repository: Helm reaches it by HTTPS_PROXY
and trusts its certificate by SSL_CERT_FILE, so the commands themselves need no change.
"""

import datetime
import os
import re
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hack.chart.helm import CHART, ROOT
from hack.cluster.ports import LOOPBACK

STAND_IN = ROOT / "tests" / "kuberay" / "chart"
[DEPENDENCY] = yaml.safe_load((CHART / "Chart.yaml").read_text())["dependencies"]
REPOSITORY = urlsplit(DEPENDENCY["repository"])
# What a page tells to type before anything needs a cluster.
LOCAL = ("helm dependency ", "helm pull ", "mkdir ", "mv ")
PAGES = ("README.md", "charts/trainshed/README.md", "docs/install.md")
TIMEOUT_SECONDS = 120


def commands_of(page: str) -> list[list[str]]:
    """Return the local commands of each console block that brings KubeRay's chart."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    typed = [re.findall(r"^\$ (.*)", block, re.M) for block in blocks]
    local = [[line for line in lines if line.startswith(LOCAL)] for lines in typed]
    return [lines for lines in local if any(line.startswith("helm ") for line in lines)]


CASES = [
    pytest.param(commands, id=f"{page}: {commands[0]}")
    for page in PAGES
    for commands in commands_of(page)
]


def run(
    command: str | Sequence[str], folder: Path, environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command] if isinstance(command, str) else command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def make_certificate(host: str, folder: Path) -> tuple[Path, Path]:
    """Write a certificate of the host that is its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public, private = folder / "certificate.pem", folder / "key.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return public, private


class Repository(BaseHTTPRequestHandler):
    """A proxy whose tunnels end here: it is KubeRay's repository, and every other host is 502."""

    protocol_version = "HTTP/1.1"
    files: Path
    tls: ssl.SSLContext

    def do_CONNECT(self) -> None:
        if self.path != f"{REPOSITORY.hostname}:443":
            self.send_error(502)
            return
        self.send_response(200)
        self.end_headers()
        self.connection = self.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb")
        self.wfile = self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def do_GET(self) -> None:
        path = self.files / self.path.removeprefix(REPOSITORY.path)
        content = path.read_bytes() if path.is_file() else b""
        self.send_response(200 if content else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Print nothing."""


@pytest.fixture
def fresh_machine(helm: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user who has Helm and has never used it."""
    for folder in ("bin", "certificates", "files", "home"):
        (tmp_path / folder).mkdir()
    (tmp_path / "bin" / "helm").symlink_to(helm)
    public, private = make_certificate(str(REPOSITORY.hostname), tmp_path / "certificates")
    home = tmp_path / "home"
    environment = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "HELM_CONFIG_HOME": str(home / "config"),
        "HELM_CACHE_HOME": str(home / "cache"),
        "HELM_DATA_HOME": str(home / "data"),
        "SSL_CERT_FILE": str(public),
    }
    files = tmp_path / "files"
    for command in (f"helm package {STAND_IN} --destination {files}", f"helm repo index {files}"):
        done = run(command, files, environment)
        assert done.returncode == 0, done.stderr

    class Server(Repository):
        pass

    Server.files = files
    Server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    Server.tls.load_cert_chain(public, private)
    with ThreadingHTTPServer((LOOPBACK, 0), Server) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield {**environment, "HTTPS_PROXY": f"http://{LOOPBACK}:{server.server_port}"}
        server.shutdown()
        thread.join()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, as far as the commands look at it."""
    folder = tmp_path / "clone"
    shutil.copytree(CHART, folder / "charts" / CHART.name, ignore=shutil.ignore_patterns("charts"))
    return folder


@pytest.mark.parametrize("commands", CASES)
def test_the_commands_bring_kuberays_chart_to_a_fresh_clone(
    commands: list[str], fresh_machine: dict[str, str], clone: Path
) -> None:
    for command in commands:
        done = run(command, clone, fresh_machine)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"

    listed = run("helm dependency list charts/trainshed", clone, fresh_machine).stdout
    [row] = [line.split() for line in listed.splitlines() if DEPENDENCY["name"] in line]
    assert row[1] == DEPENDENCY["version"]
    assert row[-1] == "ok"
    # An unchanged clone stays unchanged: the lock is under version control.
    lock = clone / "charts" / CHART.name / "Chart.lock"
    assert lock.read_text() == (CHART / "Chart.lock").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_page_that_installs_brings_kuberays_chart_first(page: str) -> None:
    assert commands_of(page), page
