"""The Ray and the controller of a run that is suspended, which only a run in a cluster can be."""

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.ports import pick_ports
from hack.stops.judge import GRACE_SECONDS
from tests.app.jobs.server import Server, serve
from tests.app.processes import end_with_us
from tests.app.ray_head import Head, start_node
from trainshed_api import names
from trainshed_api.job import encode_run
from trainshed_api.loading import load_file

ORDER = {"reason": "Suspended", "graceSeconds": GRACE_SECONDS}


@dataclass(frozen=True)
class Controlled:
    """What a driver inside a Ray cluster has around it.

    Args:
        controller: answers the driver's snapshots.
    """

    head: Head
    controller: Server

    def driver_environment(self, file: Path, attempt: int) -> dict[str, str]:
        """Return the environment in which `trainshed run` is the driver of a controller's job."""
        return self.head.inside | {
            names.ENV_SPEC: encode_run(load_file(file)),
            names.ENV_NAMESPACE: "stops",
            names.ENV_UID: "5109c1b2-aaaa-bbbb-cccc-1234567890ab",
            names.ENV_ATTEMPT: str(attempt),
            names.ENV_PROGRESS_URL: f"{self.controller.address}/progress",
        }

    def order(self, *, suspends: bool) -> threading.Event:
        """Answer snapshots so from now on; return what is set once an answer was sent."""
        sent = threading.Event()

        def answer(_: str, __: str) -> tuple[int, str]:
            sent.set()
            return 200, json.dumps({"stop": ORDER if suspends else None})

        self.controller.answer = answer
        return sent


@contextmanager
def control(folder: Path, environment: Mapping[str, str]) -> Iterator[Controlled]:
    """Run a Ray whose storage is a folder, and a controller.

    Args:
        environment: of the Ray's processes.
    """
    port = str(*pick_ports(1))
    head = Head("", f"127.0.0.1:{port}", folder, environment)
    with (
        # Not below the run's folder: paths of sockets have to be short.
        tempfile.TemporaryDirectory(prefix="stops-", ignore_cleanup_errors=True) as sessions,
        end_with_us(head.mark),
        serve(lambda *_: (200, "{}")) as controller,
    ):
        words = ("--head", "--port", port, "--temp-dir", sessions, "--num-cpus", "4")
        start_node(head, *words, "--include-dashboard", "false")
        yield Controlled(head, controller)
