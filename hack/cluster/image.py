"""An OCI image from one static program: what every node needs, where no registry gives it."""

import hashlib
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path

from hack.tools.pins import this_platform

_TYPES = "application/vnd.oci.image"


def write_image(to: Path, name: str, program: Path, command: Sequence[str]) -> Path:
    """Write an OCI archive whose image holds `program` where `command` starts it."""
    layer = _tar({command[0].strip("/"): program.read_bytes()}, mode=0o755)
    system, architecture = this_platform().split("-")
    config = {
        "architecture": architecture,
        "os": system,
        "config": {"Entrypoint": list(command)},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    config_bytes = json.dumps(config).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_TYPES}.manifest.v1+json",
        "config": _describe(config_bytes, "config.v1+json"),
        "layers": [_describe(layer, "layer.v1.tar")],
    }
    manifest_bytes = json.dumps(manifest).encode()
    entry = _describe(manifest_bytes, "manifest.v1+json")
    # The name under which containerd keeps what it imports.
    entry["annotations"] = {"io.containerd.image.name": name}
    files = {_blob_path(blob): blob for blob in (layer, config_bytes, manifest_bytes)}
    files["oci-layout"] = json.dumps({"imageLayoutVersion": "1.0.0"}).encode()
    files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    to.write_bytes(_tar(files, mode=0o644))
    return to


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _describe(content: bytes, kind: str) -> dict[str, object]:
    return {"mediaType": f"{_TYPES}.{kind}", "digest": _digest(content), "size": len(content)}


def _blob_path(content: bytes) -> str:
    return f"blobs/{_digest(content).replace(':', '/')}"


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
