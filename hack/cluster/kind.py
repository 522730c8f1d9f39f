"""A cluster in a container, where Docker is there to hold it."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import addons
from hack.cluster.client import Client, run_tool
from hack.cluster.failure import ClusterError
from hack.cluster.preflight import get_tools
from hack.tools.finder import cache_folder

# The image that the release notes of the pinned kind name for the pinned Kubernetes; its digest
# counts, the tag may be built again for another kind.
NODE_IMAGE = (
    "kindest/node:v1.35.8@sha256:07b2536e30b803ed61d1677a79df6115f798ce64c80f9e22f6ed45afd09323c0"
)


def is_docker_there() -> bool:
    """Return whether a Docker engine answers; its command alone is not enough."""
    if shutil.which("docker") is None:
        return False
    question = ["docker", "info", "--format", "{{.ServerVersion}}"]
    outcome = subprocess.run(question, capture_output=True, timeout=30, check=False)
    return outcome.returncode == 0


@dataclass(frozen=True)
class KindCluster:
    """One cluster by its name, whether it is up or not."""

    name: str

    @property
    def client(self) -> Client:
        """Return kubectl and helm aimed at it."""
        return Client(self._folder / "kubeconfig")

    def prepare(self) -> None:
        """Get every tool that it is made of. Raises ClusterError for one that cannot be had."""
        get_tools(("kind", "kubectl", "helm"))

    def up(self) -> bool:
        """Bring it up; return whether there was anything to do."""
        if self.name in self._kind("get", "clusters").split():
            self._kind("export", "kubeconfig", *self._named())
            return False
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            self._kind("create", "cluster", *self._named(), f"--image={NODE_IMAGE}", "--wait=3m")
            addons.add_gpus(self.client, f"{self.name}-control-plane")
        except BaseException:
            self.down()
            raise
        return True

    def down(self) -> None:
        """Take it down with all that it kept."""
        self._kind("delete", "cluster", *self._named())
        shutil.rmtree(self._folder, ignore_errors=True)

    def load(self, archive: Path) -> None:
        """Give the node an image from an OCI or Docker archive; `-` is standard input."""
        if str(archive) != "-":
            self._kind("load", "image-archive", str(archive), f"--name={self.name}")
            return
        # kind wants a file.
        held = self._folder / "image.tar"
        try:
            with held.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            self.load(held)
        finally:
            held.unlink(missing_ok=True)

    def load_image(self, image: str) -> None:
        """Give the node an image that Docker has."""
        self._kind("load", "docker-image", image, f"--name={self.name}")

    @property
    def _folder(self) -> Path:
        return cache_folder().parent / "clusters" / self.name

    def _named(self) -> tuple[str, str]:
        return f"--name={self.name}", f"--kubeconfig={self.client.kubeconfig}"

    def _kind(self, *arguments: str) -> str:
        if not is_docker_there():
            raise ClusterError("Docker does not answer any more: start it, or see `docker info`")
        return run_tool("kind", *arguments)
