"""Who reaches whom on a node, asked from within Pods that have Python."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from tests.e2e.running import RunningCluster

# State 0A is listening; what ends so is 127.0.0.1, which no other Pod can ask for.
_LIST = """
from pathlib import Path
for name in ("tcp", "tcp6"):
    for line in Path("/proc/net", name).read_text().splitlines()[1:]:
        local, _, state = line.split()[1:4]
        address, _, port = local.partition(":")
        if state == "0A" and not address.endswith("0100007F"):
            print(int(port, 16))
"""
_CALL = """
import socket, sys
from concurrent.futures import ThreadPoolExecutor
def call(address):
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), 3).close()
    except OSError:
        return
    print(address)
with ThreadPoolExecutor(256) as threads:
    list(threads.map(call, sys.stdin.read().split()))
"""


@dataclass(frozen=True)
class Place:
    """A Pod, as one that calls and is called."""

    cluster: RunningCluster
    namespace: str
    pod: str

    def address(self) -> str:
        """Return its IP."""
        return self._kubectl("get", "pod", self.pod, "-ojsonpath={.status.podIP}")

    def listening(self) -> set[str]:
        """Return `IP:port` of everything that listens in it."""
        address = self.address()
        return {f"{address}:{port}" for port in self._python(_LIST).split()}

    def reached(self, addresses: Collection[str]) -> set[str]:
        """Return those of some addresses `IP:port` that answer it."""
        return set(self._python(_CALL, stdin="\n".join(addresses)).split())

    def labels(self) -> dict[str, str]:
        """Return its labels."""
        labels: dict[str, str] = json.loads(
            self._kubectl("get", "pod", self.pod, "-ojsonpath={.metadata.labels}")
        )
        return labels

    def image(self) -> str:
        """Return what its first container was made from."""
        return self._kubectl("get", "pod", self.pod, "-ojsonpath={.spec.containers[0].image}")

    def _python(self, program: str, stdin: str = "") -> str:
        run = ("exec", "-i", self.pod, "--", "python", "-c", program)
        return self._kubectl(*run, stdin=stdin)

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments, stdin=stdin)
