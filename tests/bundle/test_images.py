"""What holds for every image: how it is built, who it runs as, what it says of itself."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hack.images.image import Image, list_images, version
from tests.bundle.repository import ROOT, read_text
from trainshed_api.frameworks import RULES as FRAMEWORKS

IMAGES = {image.name: image for image in list_images()}
HADOLINT = Path(sys.executable).parent / "hadolint"
# The arguments of each install.
INSTALL = re.compile(r"(?:/pip|/uv pip) install((?: \\\n|[^&\n])+)")

each_image = pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)


def last_stage(image: Image) -> str:
    """Return the text of what becomes the image."""
    return image.dockerfile.read_text().rpartition("\nFROM ")[2]


def python_stage(image: Image) -> str:
    """Return the lines of the stage that brings Python."""
    return image.dockerfile.read_text().partition(" AS python\n")[2].partition("\n\n")[0]


def test_there_is_an_image_for_nodes_of_each_framework_and_one_for_the_controller() -> None:
    assert set(IMAGES) == {"app", "app-xgboost", "app-tensorflow", "controller"}


@each_image
def test_hadolint_finds_nothing(image: Image) -> None:
    checked = subprocess.run(
        [HADOLINT, image.dockerfile], capture_output=True, text=True, check=False
    )
    assert checked.stdout + checked.stderr == ""


@each_image
def test_runs_as_a_number_that_is_not_root(image: Image) -> None:
    # A node can only tell that a number is not 0; of a name it cannot.
    users = re.findall(r"^USER (.+)$", last_stage(image), re.MULTILINE)
    assert users == ["1000:1000"]
    assert "\nENV HOME=/home/ray\n" in last_stage(image)


@each_image
def test_base_is_one_image_and_not_what_a_tag_is_today(image: Image) -> None:
    assert re.fullmatch(r"docker\.io/[a-z/]+:[\w.-]+@sha256:[0-9a-f]{64}", image.base())


def test_what_the_images_share_is_built_once() -> None:
    # Layers are found again by the very text of their lines.
    assert len({(image.base(), python_stage(image)) for image in IMAGES.values()}) == 1


@each_image
def test_every_package_from_elsewhere_is_checked_by_hash(image: Image) -> None:
    installs = INSTALL.findall(image.dockerfile.read_text())
    assert len(installs) == (4 if image.name == "controller" else 6)
    for arguments in installs:
        is_ours = "--no-deps" in arguments
        assert is_ours or "--require-hashes" in arguments
    assert "uv build --wheel --build-constraints dev.txt --require-hashes" in (
        image.dockerfile.read_text()
    )


@each_image
def test_code_is_in_the_last_layer(image: Image) -> None:
    steps = re.findall(r"^(RUN|COPY) (\S+)", last_stage(image), re.MULTILINE)
    assert steps[-1] == ("COPY", "--from=package")


@each_image
def test_modules_are_compiled_when_the_image_is_built(image: Image) -> None:
    installs = [
        text for text in INSTALL.findall(image.dockerfile.read_text()) if "--system" in text
    ]
    assert installs
    assert all("--compile-bytecode" in arguments for arguments in installs)


@each_image
def test_image_says_what_it_is(image: Image) -> None:
    text = last_stage(image)
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]+)"', text))
    assert set(labels) == {"title", "description", "licenses", "version"}
    name, _, framework = image.name.partition("-")
    assert labels["title"] == f"trainshed-{name}"
    assert labels["version"] == "${VERSION}"
    assert f"\nARG VERSION={version()}\n" in text
    tag = f"{version()}-{framework}" if framework else version()
    assert image.reference == f"ghcr.io/trainshed/{name}:{tag}"


@each_image
def test_controller_has_no_code_of_the_run_and_the_run_none_of_it(image: Image) -> None:
    copied = {path.relative_to(ROOT).parts[0] for path in image.inputs()}
    name = image.name.partition("-")[0]
    other = {"app": "controller", "controller": "app"}[name]
    assert {"api", name} <= copied
    assert other not in copied


@each_image
def test_build_sees_all_that_it_copies_and_nothing_else(image: Image) -> None:
    allowed = [
        line.removeprefix("!")
        for line in (read_text(ROOT / ".dockerignore") or "").splitlines()
        if line.startswith("!")
    ]
    for path in image.inputs():
        name = path.relative_to(ROOT)
        is_dockerfile = path == image.dockerfile
        assert is_dockerfile or any(
            name.match(pattern) or name.is_relative_to(pattern) for pattern in allowed
        ), name


def test_the_images_of_frameworks_are_told_apart_by_what_they_are_built_with() -> None:
    prints = {image.fingerprint() for name, image in IMAGES.items() if name != "controller"}

    assert len(prints) == 3
    for framework in FRAMEWORKS:
        name = "app" if framework == "torch" else f"app-{framework}"
        assert dict(IMAGES[name].arguments).get("FRAMEWORK", "torch") == framework
