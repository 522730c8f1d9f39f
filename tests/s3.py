"""The fixtures of a real S3 server, for every test that asks for `s3`.

One server a test process: it is a tenth of a second's work, listens on loopback alone, needs no
root, and ends with the process that started it. Objects are files below a temporary folder.
"""

import uuid
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import S3Store

from hack.cluster.ports import LOOPBACK, pick_ports
from hack.cluster.processes import Launcher, Started, wait_until
from hack.tools.finder import find
from tests.servers import get_tools, listens, mark_users

TOOL = "versitygw"
_ACCESS_KEY, _SECRET_KEY = "trainshed", "of-a-test-alone"
_REGION = "us-east-1"
# RetryPolicy for a machine that is busy with other things.
_READY_SECONDS = 60
_MISSING = pytest.StashKey[str]()


class S3Server:
    """An S3 server that can go away and come back with what it held, at the same address.

    It ends with the thread that started it (Linux): a thread that calls `start` has to outlive it.

    Args:
        folder: where it keeps its objects and its log.
    """

    def __init__(self, folder: Path) -> None:
        [self.port] = pick_ports(1)
        self._data = folder / "data"
        self._launcher = Launcher(
            folder / "logs",
            environment={"ROOT_ACCESS_KEY": _ACCESS_KEY, "ROOT_SECRET_KEY": _SECRET_KEY},
            is_tied=True,
        )
        self._running: Started | None = None

    @property
    def endpoint(self) -> str:
        """Return the URL that clients ask."""
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a client finds the server and may use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": _ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET_KEY,
            "AWS_REGION": _REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has neither been ended nor died."""
        return self._running is not None and self._running.is_running()

    @property
    def process(self) -> int:
        """Return the number of its process, which has been started."""
        assert self._running is not None
        return self._running.process.pid

    def make_bucket(self) -> str:
        """Return the name of a new bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        (self._data / name).mkdir(parents=True)
        return name

    def folder_of(self, bucket: str) -> Path:
        """Return where the objects of a bucket lie, as files."""
        return self._data / bucket

    def start(self) -> None:
        """Start it, where it does not run; return when it answers."""
        if self.is_running:
            return
        self._data.mkdir(parents=True, exist_ok=True)
        address = f"--port={LOOPBACK}:{self.port}"
        words = ("--quiet", f"--region={_REGION}", address, "posix")
        self._running = self._launcher.start(TOOL, [find(TOOL), *words, self._data])
        wait_until(
            lambda: listens(self.port),
            f"{TOOL} listens",
            needs=[self._running],
            seconds=_READY_SECONDS,
        )

    def stop(self) -> None:
        """End it: requests that it has begun are answered first."""
        if self._running is not None:
            self._running.stop()
            self._running = None

    def kill(self) -> None:
        """End it at once, with all that it was doing."""
        if self._running is not None:
            self._running.process.kill()
            self._running.process.wait()
            self._running = None


def open_bucket(
    environment: Mapping[str, str], bucket: str, *, timeout_seconds: float = 60
) -> S3Store:
    """Return a client that asks once and never again: a test sees each answer."""
    return S3Store(
        bucket,
        endpoint=environment["AWS_ENDPOINT_URL"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region=environment["AWS_REGION"],
        client_options={"allow_http": True, "timeout": timedelta(seconds=timeout_seconds)},
        retry_config={"max_retries": 0},
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark who uses the server, before `-m` chooses among the tests."""
    mark_users(items, "s3_server", "s3")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the server before the first test."""
    get_tools(session, "s3", [TOOL], _MISSING)


@pytest.fixture(scope="session")
def s3_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    """The server of this test process, for fixtures that outlive a test."""
    if missing := request.config.stash.get(_MISSING, None):
        pytest.skip(missing)
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def s3(s3_server: S3Server) -> Iterator[S3Server]:
    """A running S3 server; a test may end it, and the next one finds it running again."""
    yield s3_server
    s3_server.start()


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """The name of a new bucket."""
    return s3.make_bucket()
