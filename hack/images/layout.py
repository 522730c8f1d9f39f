"""Images in one folder, as the OCI image layout has it: every layer once, whoever uses it.

A node takes images as one tar stream. `write_tar` leaves out what the node says it has, so that a
change of our code moves kilobytes and not the gigabytes of torch.
"""

import io
import json
import tarfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

# By which containerd names an image that it reads from a stream.
_NAME = "io.containerd.image.name"
_REFERENCE = "org.opencontainers.image.ref.name"
_INPUTS = "dev.trainshed.inputs"

Json = Mapping[str, object]


@dataclass(frozen=True)
class Blob:
    """A file of an image, known by its digest."""

    digest: str
    num_bytes: int


@dataclass(frozen=True)
class Stored:
    """An image in the folder."""

    reference: str
    # Of the inputs that it was built from; empty where nobody said.
    inputs: str
    descriptor: Json

    @property
    def digest(self) -> str:
        """Return the digest of its manifest."""
        return str(self.descriptor["digest"])


class Layout:
    """The folder. One process at a time may change it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def images(self) -> dict[str, Stored]:
        """Return what the folder holds, by reference."""
        return {
            stored.reference: stored
            for stored in map(_stored, self._manifests())
            if self._blob(stored.digest).is_file()
        }

    def blobs(self, stored: Stored) -> list[Blob]:
        """Return the files of an image: manifest, configuration, and each layer from the lowest."""
        manifest = json.loads(self._blob(stored.digest).read_text())
        parts = [stored.descriptor, manifest["config"], *manifest["layers"]]
        return [Blob(part["digest"], int(part["size"])) for part in parts]

    def num_bytes(self, stored: Stored) -> int:
        """Return the size of an image, layers as they are unpacked."""
        return sum(blob.num_bytes for blob in self.blobs(stored))

    def set_inputs(self, reference: str, inputs: str) -> None:
        """Write down what an image was built from."""
        manifests = [dict(manifest) for manifest in self._manifests()]
        for manifest in manifests:
            if _stored(manifest).reference == reference:
                manifest["annotations"] = {**_annotations(manifest), _INPUTS: inputs}
        self._write_index(manifests)

    def prune(self) -> int:
        """Remove every file that no image uses any more, and return how many bytes that gave."""
        used = {blob.digest for stored in self.images().values() for blob in self.blobs(stored)}
        unused = [path for path in self._files() if f"sha256:{path.name}" not in used]
        num_bytes = sum(path.stat().st_size for path in unused)
        for path in unused:
            path.unlink()
        return num_bytes

    def write_tar(
        self, references: Collection[str], out: IO[bytes], without: Collection[str] = ()
    ) -> int:
        """Write images as one tar stream, without the blobs named, and return its bytes of content.

        Raises KeyError for an image that is not there.
        """
        images = self.images()
        chosen = [images[reference] for reference in references]
        wanted = {blob for stored in chosen for blob in self.blobs(stored)}
        # containerd reads each manifest from the stream itself, known to it or not.
        manifests = {stored.digest for stored in chosen}
        sent = [b for b in wanted if b.digest in manifests or b.digest not in without]
        index = {
            "schemaVersion": 2,
            "manifests": [
                {**stored.descriptor, "annotations": {_NAME: stored.reference}} for stored in chosen
            ],
        }
        with tarfile.open(fileobj=out, mode="w|") as tar:
            _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
            _add(tar, "index.json", json.dumps(index).encode())
            for blob in sorted(sent, key=lambda blob: blob.digest):
                tar.add(self._blob(blob.digest), f"blobs/{blob.digest.replace(':', '/')}")
        return sum(blob.num_bytes for blob in sent)

    def _blob(self, digest: str) -> Path:
        return self.folder / "blobs" / digest.replace(":", "/")

    def _files(self) -> Iterator[Path]:
        return (self.folder / "blobs" / "sha256").glob("*")

    def _manifests(self) -> list[Json]:
        try:
            index = json.loads((self.folder / "index.json").read_text())
        except FileNotFoundError:
            return []
        return cast("list[Json]", index["manifests"])

    def _write_index(self, manifests: list[dict[str, object]]) -> None:
        index = {"schemaVersion": 2, "manifests": manifests}
        (self.folder / "index.json").write_text(json.dumps(index))


def _stored(manifest: Json) -> Stored:
    annotations = _annotations(manifest)
    descriptor = {key: manifest[key] for key in ("mediaType", "digest", "size")}
    return Stored(annotations.get(_REFERENCE, ""), annotations.get(_INPUTS, ""), descriptor)


def _annotations(manifest: Json) -> dict[str, str]:
    return cast("dict[str, str]", manifest.get("annotations", {}))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
