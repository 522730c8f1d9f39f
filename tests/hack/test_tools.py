"""Tools are found where they fit, fetched only when the checksum matches, else built."""

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster import addons
from hack.tools import finder
from hack.tools.finder import ToolMissingError, find
from hack.tools.pins import Release, load_releases, release_of, this_platform
from hack.tools.sources import UnavailableError, build, download

PROGRAM = b"#!/bin/sh\necho v9.9.9\n"


@pytest.fixture(autouse=True)
def _nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    find.cache_clear()
    yield
    find.cache_clear()  # what was found here is nowhere afterwards


@pytest.fixture
def on_path(tmp_path: Path) -> Callable[[str, str], Path]:
    def put(tool: str, says: str) -> Path:
        path = tmp_path / "bin" / tool
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {says}\n")
        path.chmod(0o755)
        return path

    return put


def make_release(**changes: object) -> Release:
    fields: dict[str, object] = {
        "name": "thing",
        "version": "9.9.9",
        "packages": {"thing": "example.com/thing"},
        "url": "file:///nowhere/{tool}-{version}-{os}-{arch}",
        "sha256": {},
    }
    return Release.model_validate(fields | changes)


@pytest.mark.parametrize("release", load_releases(), ids=lambda release: release.name)
def test_every_release_is_pinned_by_a_checksum_or_by_modules(release: Release) -> None:
    assert (release.module_folder / "go.sum").is_file()
    module = (release.module_folder / "go.mod").read_text()
    for tool, package in release.packages.items():
        is_ours = f"module {package}\n" in module and (release.module_folder / "main.go").is_file()
        assert is_ours or f"\t{package}\n" in module or f"tool {package}\n" in module
        for platform, digest in release.sha256.get(tool, release.sha256.get("archive", {})).items():
            assert platform.startswith("linux-")
            assert len(digest) == 64
    assert f"v{release.version}" in module, "the checksum and the build are of one version"


def test_our_coredns_has_the_plugins_that_the_cluster_names() -> None:
    main = (release_of("coredns").module_folder / "main.go").read_text()
    compiled = set(re.findall(r"coredns/plugin/(\w+)", main))
    named = set(re.findall(r"^    (\w+)", addons.COREFILE, re.MULTILINE))
    assert named == compiled


def test_a_tool_on_path_is_taken_when_its_version_fits(
    on_path: Callable[[str, str], Path],
) -> None:
    helm = on_path("helm", "v3.19.2+g1")
    assert find("helm") == helm


@pytest.mark.parametrize("says", ["v3.2.0", "v4.0.1", "no version at all"])
def test_a_tool_on_path_of_another_version_is_passed_over(
    says: str, on_path: Callable[[str, str], Path]
) -> None:
    on_path("helm", says)
    cached = finder.cache_folder() / f"helm-{release_of('helm').version}"
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert find("helm") == cached


def test_what_only_has_the_name_of_a_plugin_is_never_taken(
    on_path: Callable[[str, str], Path],
) -> None:
    on_path("bridge", "bridge utility, iproute2-6.1.0")
    cached = finder.cache_folder() / f"bridge-{release_of('bridge').version}"
    cached.parent.mkdir(parents=True)
    cached.touch()
    assert find("bridge") == cached


def test_an_official_file_is_taken_when_its_checksum_matches(tmp_path: Path) -> None:
    (tmp_path / "thing").write_bytes(PROGRAM)
    digest = hashlib.sha256(PROGRAM).hexdigest()
    release = make_release(
        url=f"file://{tmp_path}/{{tool}}", sha256={"thing": {this_platform(): digest}}
    )
    download("thing", release, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == PROGRAM


def test_a_tool_is_taken_out_of_the_official_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "all.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("thing-9.9.9/thing")
        member.size = len(PROGRAM)
        archive.addfile(member, io.BytesIO(PROGRAM))
    digest = hashlib.sha256((tmp_path / "all.tgz").read_bytes()).hexdigest()
    fields = {
        "url": f"file://{tmp_path}/all.tgz",
        "sha256": {"archive": {this_platform(): digest}},
    }
    download("thing", make_release(member="thing-{version}/{tool}", **fields), tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == PROGRAM

    with pytest.raises(UnavailableError, match="the official archive has no bin/thing"):
        download("thing", make_release(member="bin/{tool}", **fields), tmp_path / "none")


def test_a_file_with_another_checksum_is_refused_and_not_kept(tmp_path: Path) -> None:
    (tmp_path / "thing").write_bytes(b"something else")
    release = make_release(
        url=f"file://{tmp_path}/{{tool}}", sha256={"thing": {this_platform(): "0" * 64}}
    )
    with pytest.raises(UnavailableError, match=r"has sha256 \w{64}; expected 0{64}"):
        download("thing", release, tmp_path / "got")
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]


def test_without_a_known_checksum_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="no checksum of an official file is known"):
        download("thing", make_release(), tmp_path / "got")


def test_a_build_needs_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    with pytest.raises(UnavailableError, match="Go is not installed"):
        build("thing", make_release(modules="helm"), tmp_path / "got")


def test_a_tool_that_cannot_be_had_is_one_line_with_all_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    with pytest.raises(ToolMissingError) as caught:
        find("etcd")
    message = str(caught.value)
    assert message.startswith("etcd 3.6.14 is not here: github.com does not answer (")
    assert message.endswith("; Go is not installed (https://go.dev/doc/install)")
    assert "\n" not in message
    assert list(finder.cache_folder().glob("[!.]*")) == []
