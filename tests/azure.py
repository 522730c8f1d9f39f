"""The fixture of an object store that speaks as Azure's: Azurite, for every test that asks for it.

`make test-azure` brings it; elsewhere those tests are skipped.
"""

import base64
import hashlib
import hmac
import os
import shutil
import urllib.request
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from hack.cluster.ports import LOOPBACK, pick_ports
from hack.cluster.processes import Launcher, wait_until
from tests.servers import listens, mark_users

TOOL = "azurite-blob"
_ACCOUNT, _KEY = "team", base64.b64encode(b"of a test alone").decode()
_VERSION = "2021-08-06"
_READY_SECONDS = 60


class AzureServer:
    """A running Azurite.

    Args:
        port: on loopback.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a client finds the server and may use it."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"http://{LOOPBACK}:{self._port}/{_ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        }

    def make_container(self) -> str:
        """Return the name of a new container.

        By a request of its own, signed with the account's key (Microsoft Learn, Authorize with
        Shared Key): the client that runs have makes none.
        """
        name = f"container-{uuid.uuid4().hex[:12]}"
        date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = f"x-ms-date:{date}\nx-ms-version:{_VERSION}"
        asked = f"/{_ACCOUNT}/{_ACCOUNT}/{name}\nrestype:container"
        signed = "\n".join(("PUT", *[""] * 11, headers, asked)).encode()
        digest = hmac.new(base64.b64decode(_KEY), signed, hashlib.sha256).digest()
        request = urllib.request.Request(
            f"http://{LOOPBACK}:{self._port}/{_ACCOUNT}/{name}?restype=container",
            method="PUT",
            headers={
                "x-ms-date": date,
                "x-ms-version": _VERSION,
                "Content-Length": "0",
                "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(digest).decode()}",
            },
        )
        with urllib.request.urlopen(request, timeout=_READY_SECONDS):
            return name


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark who uses the server, before `-m` chooses among the tests."""
    mark_users(items, "azure_server", "azure")


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """The server of this test process."""
    program = shutil.which(TOOL)
    if program is None:
        pytest.skip(f"{TOOL} is not on the PATH: make test-azure")
    folder = tmp_path_factory.mktemp("azure")
    [port] = pick_ports(1)
    # What it listens on, and that it tells its maker nothing; the client speaks later versions.
    words = (f"--blobHost={LOOPBACK}", f"--blobPort={port}", "--disableTelemetry")
    environment = {"AZURITE_ACCOUNTS": f"{_ACCOUNT}:{_KEY}", "PATH": os.environ["PATH"]}
    launcher = Launcher(folder / "logs", environment=environment, is_tied=True)
    started = launcher.start(
        TOOL, [program, *words, "--skipApiVersionCheck", f"--location={folder / 'data'}"]
    )
    try:
        wait_until(
            lambda: listens(port), f"{TOOL} listens", needs=[started], seconds=_READY_SECONDS
        )
        yield AzureServer(port)
    finally:
        started.process.kill()
        started.process.wait()
