"""What builds images: docker where it runs, else buildah, which needs no daemon."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hack.images.commands import Commands, check_programs, succeeds
from hack.images.debian import REFERENCE, write_base
from hack.images.failure import ImageError
from hack.images.image import Image, version
from hack.images.layout import Layout

# Each program, with the package of Debian and Ubuntu that holds it.
_PROGRAMS = {"buildah": "buildah", "debootstrap": "debootstrap", "skopeo": "skopeo"}
_CERTIFICATES = "/run/secrets/ca"


class Engine(Protocol):
    """Builds an image and leaves it where a cluster can load it from."""

    def build(self, image: Image) -> None:
        """Build an image. Raises ImageError."""

    def store(self, image: Image) -> None:
        """Put a built image to where clusters load from. Raises ImageError."""


@dataclass(frozen=True)
class Docker:
    """Docker with BuildKit; `kind` loads from its own store."""

    commands: Commands

    def build(self, image: Image) -> None:
        """Build by docker, which knows by itself what has not changed."""
        command = ["docker", "build", *_arguments(image), *_secrets(), "."]
        self.commands.run(f"build-{image.name}", command, image.context)

    def store(self, image: Image) -> None:
        """Do nothing: docker keeps what it builds."""


@dataclass(frozen=True)
class Buildah:
    """buildah as root, without containers: commands of a build run in a chroot."""

    commands: Commands
    layout: Layout

    def build(self, image: Image) -> None:
        """Build on the base that the Dockerfile names, or on a Debian made here."""
        self._share_packages()
        base = self._find_base(image.base())
        options = ["--isolation=chroot", "--layers", "--build-arg", f"BASE={base}"]
        command = ["buildah", "bud", *options, *_arguments(image), *_secrets(), "."]
        self.commands.run(f"build-{image.name}", command, image.context)

    def store(self, image: Image) -> None:
        """Copy the layers that are new into the layout, unpacked: packing them takes minutes.

        skopeo does it, because `buildah push --disable-compression` packs them all the same.
        """
        source = f"containers-storage:{image.reference}"
        to = f"oci:{self.layout.folder}:{image.reference}"
        command = ["skopeo", "copy", "--dest-oci-accept-uncompressed-layers", source, to]
        self.commands.run(f"store-{image.name}", command)

    def _find_base(self, wanted: str) -> str:
        for known in (wanted, REFERENCE):
            if succeeds("buildah", "inspect", "--type", "image", known):
                return known
        if succeeds("buildah", "pull", "--policy", "missing", wanted):
            return wanted
        print(f"no registry gives {wanted.partition('@')[0]}: making a Debian by debootstrap")
        archive = self.commands.temporary / "base.tar"
        write_base(self.commands, archive)
        self.commands.run("pull-base", ["buildah", "pull", f"docker-archive:{archive}"])
        archive.unlink()
        return REFERENCE

    def _share_packages(self) -> None:
        # buildah keeps the cache `uv` of the Dockerfiles under its folder for temporary files:
        # there it is the one of this user, which `make setup` has filled with the same packages.
        cache = Path(os.environ.get("UV_CACHE_DIR") or _user_cache() / "uv")
        cache.mkdir(parents=True, exist_ok=True)
        shared = self.commands.temporary / "buildah-cache" / "uv"
        shared.parent.mkdir(parents=True, exist_ok=True)
        if not shared.is_symlink():
            shutil.rmtree(shared, ignore_errors=True)
            shared.symlink_to(cache)


def find_engine(commands: Commands, layout: Layout) -> Engine:
    """Return what builds images on this machine. Raises ImageError where nothing does."""
    if shutil.which("docker") and succeeds("docker", "info"):
        return Docker(commands)
    check_programs(_PROGRAMS)
    if os.geteuid() != 0:
        raise ImageError("without a running docker, images need root: use sudo, or start docker")
    return Buildah(commands, layout)


def home() -> Path:
    """Return the folder of all that is kept here between builds."""
    return _user_cache() / "trainshed"


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _arguments(image: Image) -> Sequence[str]:
    given = (("VERSION", version()), *image.arguments)
    build_arguments = [word for name, value in given for word in ("--build-arg", f"{name}={value}")]
    return ["--file", str(image.dockerfile), "--tag", image.reference, *build_arguments]


def _secrets() -> Sequence[str]:
    certificates = os.environ.get("SSL_CERT_FILE")
    if not certificates:
        return []
    secret = f"id=ca,src={certificates}"
    return ["--secret", secret, "--build-arg", f"SSL_CERT_FILE={_CERTIFICATES}"]
