"""What a machine lacks for a cluster is said in one line, before anything is made."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from hack.cluster import preflight
from hack.cluster.failure import ClusterError


def test_another_system_is_told_to_start_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(ClusterError, match=r"needs Linux, not darwin: start Docker$"):
        preflight.check_root()


@pytest.mark.skipif(sys.platform != "linux", reason="a cluster of processes needs Linux")
def test_without_root_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ClusterError, match=r"needs root: use sudo, or start Docker$"):
        preflight.check_root()


def test_missing_programs_are_named_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("ip", "iptables", "mount", "nsenter", "unshare"):
        (tmp_path / program).symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"are missing: apt-get install catatonit runc$"):
        preflight.check(tmp_path)


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("catatonit", "ip", "iptables", "mount", "nsenter", "runc", "unshare"):
        (tmp_path / program).symlink_to(shutil.which("true") or "/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"has \d+ GiB free, a cluster wants 1048576 GiB$"):
        preflight.check(tmp_path, free_bytes=1 << 50)
