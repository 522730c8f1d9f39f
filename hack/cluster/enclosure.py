"""The namespaces that a whole cluster lives in, held by one process.

Network, mounts and process numbers of the cluster are its own. When the holder is killed, the
kernel ends every process in them, and with the last process go mounts, interfaces and firewall
rules: nothing has to be undone step by step, whatever state the cluster was in.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.failure import ClusterError

_MARK = "TRAINSHED_LOCAL_CLUSTER"
# Where programs write with no setting to change it: covered by folders of the cluster, so that two
# clusters and a containerd of the machine do not meet there.
COVERED = (
    "/run/containerd",
    "/run/netns",
    "/var/lib/kubelet",
    "/var/lib/cni",
    "/var/log/containers",
    "/var/log/pods",
)


@dataclass(frozen=True)
class Enclosure:
    """The namespaces of one cluster by its name, whether they exist now or not."""

    name: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes of this cluster, dead scripts' included."""
        return {_MARK: self.name}

    def holder(self) -> int | None:
        """Return the process that is number 1 inside, or None where there is none."""
        for pid in self._marked():
            with contextlib.suppress(OSError):
                status = Path(f"/proc/{pid}/status").read_text()
                # Its number outside, then the one inside; number 1 is a machine's own init, too.
                numbers = next(line for line in status.splitlines() if line.startswith("NSpid:"))
                if pid != 1 and numbers.split()[-1] == "1":
                    return pid
        return None

    def inside(self) -> tuple[str, ...]:
        """Return what stands before a command to run it as a part of the cluster."""
        return ("nsenter", f"--target={self._held()}", "--net", "--mount", "--pid", "--")

    def beside(self) -> tuple[str, ...]:
        """Return what stands before a client's command: the cluster's network, nothing else."""
        return ("nsenter", f"--net=/proc/{self._held()}/ns/net", "--")

    def create(self, init: str) -> None:
        """Make the namespaces, with `init` as the process that holds them and buries the dead."""
        covers = []
        for path in COVERED:
            own = self.folder / "covers" / path.strip("/").replace("/", "-")
            own.mkdir(parents=True)
            Path(path).mkdir(parents=True, exist_ok=True)
            covers.append(f"mount --bind {own} {path}")
        script = " && ".join([*covers, "ip link set lo up", f"exec {init} -P"])
        with (self.folder / "holder.log").open("wb") as log:
            process = subprocess.Popen(
                # Mounts of the machine come in, those of the cluster do not get out.
                [
                    *("unshare", "--net", "--mount", "--propagation=slave", "--pid", "--fork"),
                    *("--mount-proc", "sh", "-ec", script),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )
        deadline = time.monotonic() + 10
        while not self._is_held_by(init):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (self.folder / "holder.log").read_text().strip()
                raise ClusterError(f"no namespaces for cluster {self.name}: {said or 'no message'}")
            time.sleep(0.05)

    def destroy(self) -> None:
        """Kill all that is inside and what still waits for it outside."""
        deadline = time.monotonic() + 30
        while pids := list(self._marked()):
            if time.monotonic() > deadline:
                raise ClusterError(f"processes of cluster {self.name} do not end: {pids}")
            # The holder first: with it the kernel ends the rest at once.
            for pid in filter(None, [self.holder(), *pids]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _held(self) -> int:
        holder = self.holder()
        if holder is None:
            raise ClusterError(f"cluster {self.name} is not up: make cluster")
        return holder

    def _is_held_by(self, init: str) -> bool:
        holder = self.holder()
        with contextlib.suppress(OSError):
            return holder is not None and Path(f"/proc/{holder}/exe").readlink() == Path(init)
        return False

    def _marked(self) -> Iterator[int]:
        mine = f"{_MARK}={self.name}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or belongs to another user
                if mine in (folder / "environ").read_bytes().split(b"\0"):
                    yield int(folder.name)
