"""What users write is a place on a disk or in a bucket, or is refused."""

from pathlib import Path

import pytest

from trainshed.storage.addresses import is_address, open_folder
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder

KNOWN: dict[str, Folder] = {
    "/runs": Disk(Path("/runs")),
    "runs": Disk(Path("runs")),
    "file:///runs": Disk(Path("/runs")),
    "s3://bucket": Bucket("s3://bucket"),
    "s3://bucket/": Bucket("s3://bucket"),
    "s3://bucket/runs/one": Bucket("s3://bucket", "runs/one"),
    "s3://bucket//runs//one/": Bucket("s3://bucket", "runs/one"),
    "s3://bucket/a%20b": Bucket("s3://bucket", "a%20b"),
    "gs://bucket/runs": Bucket("gs://bucket", "runs"),
    "abfs://container@account.dfs.core.windows.net/runs": Bucket(
        "abfs://container@account.dfs.core.windows.net", "runs"
    ),
}


@pytest.mark.parametrize("text", KNOWN)
def test_a_place_is_known_by_what_users_write(text: str) -> None:
    assert open_folder(text) == KNOWN[text]
    assert is_address(text) is isinstance(KNOWN[text], Bucket)


@pytest.mark.parametrize("text", KNOWN)
def test_what_is_shown_of_a_place_leads_there(text: str) -> None:
    assert open_folder(str(KNOWN[text])) == KNOWN[text]


@pytest.mark.parametrize(
    "text",
    ["ftp://host/runs", "s3://", "s3:///runs", "s3://bucket/runs?a=b", "s3://bucket/../other"],
)
def test_another_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a path, file://, or a bucket's address with one of s3"):
        open_folder(text)


@pytest.mark.parametrize("text", ["file://runs", "file://host/runs", "file://"])
def test_a_file_elsewhere_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="file:///runs"):
        open_folder(text)
