"""Fingerprints, the folder of images, and what is said when an image cannot be built."""

import hashlib
import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from hack.images.commands import Commands, check_programs
from hack.images.debian import list_sources
from hack.images.failure import ImageError
from hack.images.image import Image
from hack.images.layout import Layout

DOCKERFILE = """\
ARG BASE=example.org/debian:12
FROM ${BASE}
COPY code code
COPY --from=elsewhere /not/ours /not/ours
"""


@pytest.fixture
def image(tmp_path: Path) -> Image:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE)
    (tmp_path / "code" / "inner").mkdir(parents=True)
    (tmp_path / "code" / "inner" / "module.py").write_text("x = 1\n")
    return Image("small", "example.org/small:1", tmp_path / "Dockerfile", tmp_path)


def test_fingerprint_follows_the_files_that_are_copied(image: Image) -> None:
    before = image.fingerprint()
    (image.context / "elsewhere.py").write_text("y = 1\n")
    assert image.fingerprint() == before
    (image.context / "code" / "inner" / "module.py").write_text("x = 2\n")
    assert image.fingerprint() != before


def test_fingerprint_follows_names_and_the_dockerfile(image: Image) -> None:
    before = image.fingerprint()
    module = image.context / "code" / "inner" / "module.py"
    renamed = module.rename(module.with_name("other.py"))
    assert image.fingerprint() != before
    renamed.rename(module)
    assert image.fingerprint() == before
    image.dockerfile.write_text(DOCKERFILE + "USER 1000:1000\n")
    assert image.fingerprint() != before


def test_fingerprint_follows_the_file_that_an_argument_names(image: Image) -> None:
    image.dockerfile.write_text(DOCKERFILE + "ARG LOCK=all.txt\nCOPY ${LOCK} /\n")
    for name in ("all.txt", "cpu.txt"):
        (image.context / name).write_text(name)
    smaller = replace(image, arguments=(("LOCK", "cpu.txt"),))

    assert image.context / "all.txt" in image.inputs()
    assert image.context / "cpu.txt" in smaller.inputs()


def test_fingerprint_passes_over_what_python_leaves_behind(image: Image) -> None:
    before = image.fingerprint()
    (image.context / "code" / "__pycache__").mkdir()
    (image.context / "code" / "__pycache__" / "module.pyc").write_bytes(b"\0")
    assert image.fingerprint() == before


def test_copy_of_nothing_is_named(image: Image) -> None:
    image.dockerfile.write_text(DOCKERFILE + "COPY gone gone\n")
    with pytest.raises(ImageError, match=r"COPY of .*gone, which does not exist"):
        image.fingerprint()


def test_dockerfile_without_a_base_to_choose_is_refused(image: Image) -> None:
    image.dockerfile.write_text("FROM scratch\n")
    with pytest.raises(ImageError, match="no line `ARG BASE="):
        image.base()


def put(folder: Path, content: bytes) -> dict[str, object]:
    """Write a blob and return its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    (blobs / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def put_image(folder: Path, reference: str, *layers: bytes) -> None:
    """Add an image to a layout as a builder does: an entry of the same name gives way."""
    config = put(folder, json.dumps({"of": reference, "layers": len(layers)}).encode())
    manifest = {"config": config, "layers": [put(folder, layer) for layer in layers]}
    index = folder / "index.json"
    entries = json.loads(index.read_text())["manifests"] if index.exists() else []
    name = {"org.opencontainers.image.ref.name": reference}
    entry = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        **put(folder, json.dumps(manifest).encode()),
        "annotations": name,
    }
    kept = [old for old in entries if old["annotations"].items() & name.items() == set()]
    index.write_text(json.dumps({"schemaVersion": 2, "manifests": [*kept, entry]}))


def read_tar(stream: io.BytesIO) -> dict[str, bytes]:
    """Return the files of a tar stream by name."""
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        return {
            member.name: content.read()
            for member in tar.getmembers()
            if (content := tar.extractfile(member))
        }


def test_layout_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert Layout(tmp_path / "none").images() == {}


def test_inputs_are_kept_until_the_image_is_stored_anew(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    put_image(tmp_path, "a:1", b"debian")
    put_image(tmp_path, "b:1", b"debian", b"code")
    layout.set_inputs("b:1", "abc")
    assert {name: stored.inputs for name, stored in layout.images().items()} == {
        "a:1": "",
        "b:1": "abc",
    }
    put_image(tmp_path, "b:1", b"debian", b"changed")
    assert layout.images()["b:1"].inputs == ""


def test_prune_removes_what_no_image_uses(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    put_image(tmp_path, "a:1", b"debian", b"old code")
    put_image(tmp_path, "a:1", b"debian", b"new code")
    assert layout.prune() > len(b"old code")
    contents = {path.read_bytes() for path in (tmp_path / "blobs" / "sha256").iterdir()}
    assert b"old code" not in contents
    assert {b"debian", b"new code"} <= contents
    assert layout.prune() == 0


def test_stream_names_the_image_as_containerd_will(tmp_path: Path) -> None:
    put_image(tmp_path, "ghcr.io/a/b:1", b"debian", b"code")
    stream = io.BytesIO()
    Layout(tmp_path).write_tar(["ghcr.io/a/b:1"], stream)
    files = read_tar(stream)
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": "ghcr.io/a/b:1"}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert {b"debian", b"code"} <= set(files.values())


def test_stream_leaves_out_layers_that_the_node_has(tmp_path: Path) -> None:
    put_image(tmp_path, "a:1", b"debian", b"code")
    layout = Layout(tmp_path)
    known = {blob.digest for blob in layout.blobs(layout.images()["a:1"])}
    code = f"sha256:{hashlib.sha256(b'code').hexdigest()}"
    stream = io.BytesIO()
    layout.write_tar(["a:1"], stream, without=known - {code})
    contents = set(read_tar(stream).values())
    assert b"code" in contents
    assert b"debian" not in contents


def test_stream_always_has_the_manifest(tmp_path: Path) -> None:
    put_image(tmp_path, "a:1", b"code")
    layout = Layout(tmp_path)
    stored = layout.images()["a:1"]
    stream = io.BytesIO()
    known = {blob.digest for blob in layout.blobs(stored)}
    assert layout.write_tar(["a:1"], stream, without=known) > 0
    assert f"blobs/{stored.digest.replace(':', '/')}" in read_tar(stream)


def test_debian_gets_its_fixes() -> None:
    assert list_sources("deb http://mirror.example/debian bookworm main\n") == (
        "deb http://mirror.example/debian bookworm main\n"
        "deb http://mirror.example/debian bookworm-updates main\n"
        "deb http://mirror.example/debian-security bookworm-security main\n"
    )


def test_failed_command_says_its_last_lines_and_its_log(tmp_path: Path) -> None:
    commands = Commands(tmp_path / "logs", tmp_path / "temporary")
    with pytest.raises(ImageError) as failure:
        commands.run("build-small", ["sh", "-c", "echo compiling; echo no such package; exit 3"])
    assert str(failure.value).splitlines() == [
        f"build-small failed ({tmp_path}/logs/build-small.log):",
        "compiling",
        "no such package",
    ]


def test_missing_programs_are_named_by_their_package() -> None:
    with pytest.raises(ImageError) as failure:
        check_programs({"sh": "dash", "no-such-program": "its-package"})
    assert str(failure.value) == (
        "without a running docker, images need: apt-get install its-package"
    )
