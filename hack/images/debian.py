"""A Debian to build on, made here, for machines that reach Debian's packages and no registry."""

import hashlib
import io
import json
import shutil
import tarfile
from pathlib import Path

from hack.images.commands import Commands
from hack.tools.pins import this_platform

REFERENCE = "localhost/trainshed/debian:bookworm"
SUITE = "bookworm"

# As in Debian's own slim images: what nobody reads in a container.
_LEFT_OUT = (
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "var/cache/apt",
    "var/cache/debconf",
    "var/lib/apt/lists",
    "var/log",
)


def write_base(commands: Commands, to: Path) -> None:
    """Write a docker-archive that holds a minimal Debian, named REFERENCE."""
    root = commands.temporary / "debian"
    shutil.rmtree(root, ignore_errors=True)
    commands.run("debootstrap", ["debootstrap", "--variant=minbase", SUITE, root])
    for name in _LEFT_OUT:
        folder = root / name
        shutil.rmtree(folder)
        folder.mkdir()
    sources = root / "etc/apt/sources.list"
    sources.write_text(list_sources(sources.read_text()))
    layer = commands.temporary / "debian.tar"
    commands.run("tar", ["tar", "--numeric-owner", "--sort=name", "-C", root, "-cf", layer, "."])
    shutil.rmtree(root)
    _wrap(layer, to)
    layer.unlink()


def list_sources(bootstrapped: str) -> str:
    """Return apt's sources with fixes added, from the one line that debootstrap leaves."""
    kind, mirror, suite, *components = bootstrapped.split()
    rest = " ".join(components)
    return "".join(
        f"{kind} {where} {what} {rest}\n"
        for where, what in (
            (mirror, suite),
            (mirror, f"{suite}-updates"),
            (f"{mirror}-security", f"{suite}-security"),
        )
    )


def _wrap(layer: Path, to: Path) -> None:
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    system, architecture = this_platform().split("-")
    config = {
        "architecture": architecture,
        "os": system,
        "config": {
            "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            "Cmd": ["bash"],
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        "history": [{"created_by": "debootstrap"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [REFERENCE], "Layers": ["layer.tar"]}]
    with tarfile.open(to, "w") as archive:
        for name, document in (("config.json", config), ("manifest.json", manifest)):
            content_bytes = json.dumps(document).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content_bytes)
            archive.addfile(entry, io.BytesIO(content_bytes))
        archive.add(layer, "layer.tar")
