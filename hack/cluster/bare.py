"""A cluster of one node from processes alone, for Linux with root and no container engine."""

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from hack.cluster import addons, node, preflight
from hack.cluster.client import Client
from hack.cluster.control_plane import (
    Ports,
    Site,
    answers,
    start_control_plane,
    write_identities,
)
from hack.cluster.diagnosis import diagnose
from hack.cluster.enclosure import Enclosure
from hack.cluster.failure import ClusterError
from hack.cluster.image import write_image
from hack.cluster.processes import Launcher, wait_until
from hack.tools.finder import find

HOME = Path("/var/lib/trainshed/clusters")
_CGROUPS = Path("/sys/fs/cgroup")
# Ten times the default of either version: with the default all Pods together get the CPU time of
# one process, and on a busy machine Ray does not start.
_CPU_WEIGHTS = {"cpu.shares": "10240", "cpu.weight": "1000"}
_READY_SECONDS = 300


@dataclass(frozen=True)
class BareCluster:
    """One cluster by its name, whether it is up or not."""

    name: str

    @property
    def folder(self) -> Path:
        """Return the folder of all that belongs to it."""
        return HOME / self.name

    @property
    def site(self) -> Site:
        """Return where its control plane lives. The ports are its own: so is the network."""
        return Site(self.folder / "kubernetes", Ports(), node_address=node.NODE_ADDRESS)

    @property
    def node(self) -> node.Node:
        """Return where its node lives."""
        return node.Node(self.site, cgroup=f"trainshed-{self.name}")

    @property
    def enclosure(self) -> Enclosure:
        """Return the namespaces that it lives in."""
        return Enclosure(self.name, self.folder)

    @property
    def client(self) -> Client:
        """Return kubectl and helm aimed at it. Raises ClusterError when it is not up."""
        return Client(self.site.kubeconfig("admin"), self.enclosure.beside())

    def prepare(self) -> None:
        """Get every tool that it is made of. Raises ClusterError for what this machine lacks."""
        preflight.check_root()
        HOME.mkdir(parents=True, exist_ok=True)
        preflight.check(HOME)

    def up(self) -> bool:
        """Bring it up; return whether there was anything to do.

        What is there but does not answer is taken down first: a half-made cluster cannot be told
        from a broken one.
        """
        with self._alone():
            if self._is_ready():
                return False
            self._remove()
            preflight.check(HOME)
            try:
                self._make()
            except BaseException as trouble:
                explained = self._explain(trouble)
                self._remove()
                raise explained from None
        return True

    def down(self) -> None:
        """Take it down, whatever state it is in, with all that it kept."""
        with self._alone():
            self._remove()
            shutil.rmtree(self._failed, ignore_errors=True)

    def load(self, archive: Path) -> None:
        """Give the node an image from an OCI or Docker archive; `-` is standard input."""
        self._inside(self.node.ctr("images", "import", archive), stdin=None)

    def load_image(self, image: str) -> None:
        """Give the node an image that buildah has."""
        if shutil.which("buildah") is None:
            raise ClusterError(f"no buildah to take {image} from: name an archive instead")
        held = self.folder / "image.tar"
        try:
            _run(["buildah", "push", "--disable-compression", image, f"oci-archive:{held}:{image}"])
            self.load(held)
        finally:
            held.unlink(missing_ok=True)

    def blobs(self) -> frozenset[str]:
        """Return the digests of the parts of images that the node has."""
        command = [*self.enclosure.inside(), *self.node.ctr("content", "ls", "--quiet")]
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            raise ClusterError(f"{' '.join(command)}: {listed.stderr.strip()}")
        return frozenset(listed.stdout.split())

    @contextmanager
    def receive_images(self) -> Iterator[IO[bytes]]:
        """Give a stream; the node has the images of the archive written to it when this ends."""
        command = [*self.enclosure.inside(), *self.node.ctr("images", "import", "-")]
        with tempfile.TemporaryFile() as said:
            importing = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
            )
            assert importing.stdin is not None
            # What it says of a stream that it gave up tells more than a broken pipe.
            with contextlib.suppress(BrokenPipeError), importing.stdin as stream:
                yield stream
            if importing.wait() != 0:
                said.seek(0)
                raise ClusterError(f"{' '.join(command)}: {said.read().decode().strip()}")

    @property
    def _failed(self) -> Path:
        """Return where the logs of an `up` that failed are kept until the next `down`."""
        return self.folder.with_name(f"{self.name}.failed")

    def _make(self) -> None:
        self.folder.mkdir(parents=True)
        authority = write_identities(self.site)
        node.write_node(self.node, authority)
        self._make_cgroups()
        self.enclosure.create(preflight.init_program())
        launcher = Launcher(
            self.folder / "logs", self.enclosure.inside(), self.enclosure.environment
        )
        for command in node.network_commands():
            self._inside(command)
        containerd = node.start_containerd(self.node, launcher)
        plane = start_control_plane(self.site, launcher)
        wait_until(self.node.socket.exists, "containerd listened", needs=[containerd], seconds=30)
        self._load_own_images()
        parts = [containerd, *plane]
        for start in (node.start_scheduler, node.start_kubelet, node.start_proxy):
            parts.append(start(self.node, launcher))
        wait_until(
            lambda: answers(self.client, "get", "node", node.NODE),
            "the node registered",
            needs=parts,
            seconds=_READY_SECONDS,
        )
        addons.install(self.client, self.folder / "volumes")
        for ready in (
            ("wait", "--for=condition=Ready", f"node/{node.NODE}", "--timeout=1s"),
            ("rollout", "status", "deployment/coredns", "-n", "kube-system", "--timeout=1s"),
        ):
            wait_until(
                lambda ready=ready: answers(self.client, *ready),  # type: ignore[misc]
                f"`kubectl {' '.join(ready)}` succeeded",
                needs=parts,
                seconds=_READY_SECONDS,
            )
        (self.folder / "ready").touch()

    def _load_own_images(self) -> None:
        images = (
            (node.PAUSE_IMAGE, Path(preflight.init_program()), ["/pause", "-P"]),
            (addons.DNS_IMAGE, find("coredns"), ["/coredns"]),
        )
        for name, program, command in images:
            archive = write_image(self.folder / "image.tar", name, program, command)
            self.load(archive)
            archive.unlink()

    def _inside(self, command: Sequence[str], *, stdin: int | None = subprocess.DEVNULL) -> None:
        _run([*self.enclosure.inside(), *command], stdin=stdin)

    def _is_ready(self) -> bool:
        return (
            (self.folder / "ready").exists()
            and self.enclosure.holder() is not None
            and answers(self.client, "get", "--raw=/readyz")
        )

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the cluster against a second command."""
        preflight.check_root()
        HOME.mkdir(parents=True, exist_ok=True)
        with (HOME / f".{self.name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ClusterError(
                    f"another command is at work on cluster {self.name}: wait for its end"
                ) from None
            yield

    def _remove(self) -> None:
        self.enclosure.destroy()
        self._remove_cgroups()
        if self.folder.exists():
            shutil.rmtree(self.folder)

    def _explain(self, trouble: BaseException) -> BaseException:
        """Return what went wrong with what else is known, and keep what the parts said."""
        if not isinstance(trouble, ClusterError):
            return trouble
        said = [str(trouble)]
        with contextlib.suppress(ClusterError):  # then it did not come so far
            said.append(diagnose(self.client, "kube-system"))
        logs = self.folder / "logs"
        if logs.exists():
            shutil.rmtree(self._failed, ignore_errors=True)
            logs.rename(self._failed)
            said.append(f"logs: {self._failed}")
        return ClusterError("\n".join(said))

    def _cgroups(self) -> list[Path]:
        """Return the cgroup of its pods in every hierarchy that there can be one in."""
        is_unified = (_CGROUPS / "cgroup.procs").exists()
        hierarchies = [_CGROUPS] if is_unified else sorted(_CGROUPS.iterdir())
        mounted = {path.resolve() for path in hierarchies if (path / "cgroup.procs").exists()}
        return [path / self.node.cgroup for path in sorted(mounted)]

    def _make_cgroups(self) -> None:
        for cgroup in self._cgroups():
            cgroup.mkdir(exist_ok=True)
            for name, weight in _CPU_WEIGHTS.items():
                if (cgroup / name).exists():
                    (cgroup / name).write_text(weight)

    def _remove_cgroups(self) -> None:
        deadline = time.monotonic() + 10
        for top in self._cgroups():
            while top.exists():
                with contextlib.suppress(OSError):
                    # The files are the kernel's and go with their folder.
                    for folder, _, _ in os.walk(top, topdown=False):
                        os.rmdir(folder)  # noqa: PTH106
                    break
                if time.monotonic() > deadline:
                    raise ClusterError(f"{top} does not go; see its cgroup.procs")
                time.sleep(0.1)


def _run(command: Sequence[str], *, stdin: int | None = subprocess.DEVNULL) -> None:
    """Run a command. Raises ClusterError with what it complained about."""
    outcome = subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False)
    if outcome.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {outcome.stderr.strip()}")
