"""A release: what its workflow builds and may do, and what it says of origin and licenses."""

import io
import re
import shutil
import subprocess
import tarfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from hack.images.image import list_images, version
from hack.provenance import make_statement
from tests.bundle.repository import ROOT
from tests.bundle.test_requirements import CONTROLLER, IMAGE, pins

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
MATRIX = RELEASE["jobs"]["images"]["strategy"]["matrix"]
# The release workflow alone builds it: its lock is made there.
CPU_IMAGE = f"ghcr.io/trainshed/app:{version()}-cpu"
PUBLISH = (ROOT / "hack" / "publish.sh").read_text()
ANNOTATIONS = yaml.safe_load((ROOT / "charts" / "trainshed" / "Chart.yaml").read_text())[
    "annotations"
]
# Licenses that ask for no more than their own text.
PERMISSIVE = re.compile(r"Apache|\bMIT\b|BSD|ISC|Zlib|BSL-1.0|PSF-2.0|Python Software Foundation")


def test_every_action_is_one_commit_and_not_what_a_tag_is_today() -> None:
    used = [line for path in WORKFLOWS for line in re.findall(r"uses: (.*)", path.read_text())]

    assert used
    assert [line for line in used if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_the_workflow_builds_every_image_for_both_platforms() -> None:
    built = {
        (
            f"ghcr.io/trainshed/{image['name']}:{version()}{image['suffix']}",
            image["framework"],
            image["lock"],
        )
        for image in MATRIX["image"]
    }

    assert built == {
        (CPU_IMAGE, "torch", "cpu.txt"),
        *(
            (image.reference, dict(image.arguments).get("FRAMEWORK", "torch"), "requirements.txt")
            for image in list_images()
        ),
    }
    assert [platform["name"] for platform in MATRIX["platform"]] == ["amd64", "arm64"]


def test_every_image_is_joined_and_signed() -> None:
    joined = re.findall(r'"(\w+:\$version[\w-]*)"', PUBLISH)

    references = [CPU_IMAGE, *(image.reference for image in list_images())]
    want = [reference.rpartition("/")[2] for reference in references]
    assert sorted(name.replace("$version", version()) for name in joined) == sorted(want)


def test_a_release_is_published_by_the_digests_of_its_run_and_can_be_published_again(
    tmp_path: Path,
) -> None:
    # The script itself, with stand-ins for the programs that it calls.
    for folder in ("bin", "hack", "digests", "dist"):
        (tmp_path / folder).mkdir()
    for path in ("hack/publish.sh", "pyproject.toml"):
        shutil.copy(ROOT / path, tmp_path / path)
    for image in MATRIX["image"]:
        for platform in MATRIX["platform"]:
            name = f"{image['name']}{image['suffix']}-{platform['name']}"
            (tmp_path / "digests" / name).write_text(f"sha256:{name}\n")
    for name in ("docker", "cosign", "helm", "gh", "uv"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >>"$LOG"\n')
        program.chmod(0o755)
    (tmp_path / "hack" / "find-uv.sh").write_text("#!/bin/sh\necho uv\n")
    (tmp_path / "hack" / "find-uv.sh").chmod(0o755)
    log = tmp_path / "log"
    programs = f"{tmp_path / 'bin'}:/usr/bin:/bin"

    index = "http://127.0.0.1/simple/"
    environment = {"PATH": programs, "LOG": str(log), "PACKAGE_INDEX": index}

    subprocess.run([tmp_path / "hack" / "publish.sh"], env=environment, check=True)

    called = log.read_text().splitlines()
    at = "ghcr.io/trainshed/app@sha256:app-xgboost-"
    assert any(line.endswith(f":{version()}-xgboost {at}amd64 {at}arm64") for line in called)
    assert called[-1].startswith("uv publish ")
    assert f"--check-url {index} dist/" in called[-1]


def test_only_the_job_that_signs_has_an_identity() -> None:
    rights = {name: job["permissions"] for name, job in RELEASE["jobs"].items()}

    assert RELEASE["permissions"] == {}
    assert rights == {
        "build": {"contents": "read"},
        "images": {"contents": "read", "packages": "write"},
        "publish": {"contents": "write", "packages": "write", "id-token": "write"},
    }
    assert RELEASE[True] == {"push": {"tags": ["v*"]}}  # YAML 1.1 reads `on` as true


def test_the_charts_page_names_the_images_of_its_version() -> None:
    named = {
        image["name"]: image["image"]
        for image in yaml.safe_load(ANNOTATIONS["artifacthub.io/images"])
    }

    for name in ("app", "controller"):
        assert named[name] == f"ghcr.io/trainshed/{name}:{version()}"


def test_provenance_names_every_file_by_its_digest_and_the_commit() -> None:
    statement = make_statement("aa  a.whl\nbb  chart.tgz\n", commit="c0", builder="https://ci")

    assert statement["subject"] == [
        {"name": "a.whl", "digest": {"sha256": "aa"}},
        {"name": "chart.tgz", "digest": {"sha256": "bb"}},
    ]
    assert '"gitCommit": "c0"' in str(statement).replace("'", '"')
    assert "https://ci" in str(statement)


@pytest.mark.parametrize("lock", [IMAGE, CONTROLLER], ids=["app", "controller"])
def test_the_notice_names_every_package_that_is_not_permissive(lock: Path) -> None:
    named = [*re.findall(r"[a-z-]+", (ROOT / "NOTICE").read_text()), "nvidia-.*"]

    strange = [name for name in pins(lock) if not PERMISSIVE.search(_license(name))]

    assert [name for name in strange if not any(re.fullmatch(each, name) for each in named)] == []


def _license(name: str) -> str:
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:  # of another platform
        return "MIT"
    fields = ("License-Expression", "License", "Classifier")
    said = [str(each) for field in fields for each in found.get_all(field, [])]
    return " ".join(each for each in said if not re.match(r"(?!License)[\w ]+ ::", each))


def test_archives_of_the_same_files_have_the_same_bytes(tmp_path: Path) -> None:
    archives = []
    for number, names in enumerate((("a", "b"), ("b", "a"))):
        archive = tmp_path / f"{number}.tar.gz"
        with tarfile.open(archive, "w:gz") as written:
            for name in names:
                entry = tarfile.TarInfo(f"trainshed-1/{name}")
                entry.mtime, entry.uid, entry.size = number, number, 1
                written.addfile(entry, io.BytesIO(name.encode()))
        archives.append(archive)
    assert archives[0].read_bytes() != archives[1].read_bytes()

    subprocess.run(
        [ROOT / "hack" / "repack.sh", *archives],
        env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
    )

    assert archives[0].read_bytes() == archives[1].read_bytes()
    with tarfile.open(archives[0]) as packed:
        assert packed.extractfile("trainshed-1/a") is not None
