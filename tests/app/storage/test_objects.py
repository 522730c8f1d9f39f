"""Many objects are listed below many folders at once: all of them, each once."""

from pathlib import Path

import obstore
import pytest

from tests.app.conftest import set_environment
from tests.faulty_s3 import FaultyS3
from tests.s3 import S3Server
from trainshed.storage import object_listing
from trainshed.storage.bucket import Bucket
from trainshed.storage.store_client import client_of

TREES: dict[str, list[str]] = {
    "nothing": [],
    "a few": [f"rows/{number}" for number in range(5)],
    "no folders": [f"rows/{number:04}" for number in range(45)],
    "folders, and files beside them": [
        *(f"rows/{name}/{number:03}" for name in "abc" for number in range(25)),
        *(f"rows/a/deep/{number:03}" for number in range(25)),
        *(f"rows/{number}" for number in range(3)),
    ],
    "folders below one that is alone": [
        f"rows/train/{name}/{number:03}" for name in "abc" for number in range(25)
    ],
    "one folder in another": [f"rows/a/b/c/d/e/{number:03}" for number in range(45)],
    "a folder whose name begins as another's": [
        f"rows/{name}/{number:03}" for name in ("a", "a1", "a-b") for number in range(25)
    ],
    "more folders than files on a page": [f"rows/{number:03}/x" for number in range(45)],
}


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take 10 objects for many, and 20 folders for too many."""
    monkeypatch.setattr(object_listing, "PAGE", 10)
    monkeypatch.setattr(object_listing, "MOST_FOLDERS", 20)


def fill(s3: S3Server, bucket: str, names: list[str]) -> None:
    for name in names:
        file = Path(s3.folder_of(bucket), name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("tree", TREES)
def test_all_are_listed_and_each_once(
    s3: S3Server, bucket: str, tree: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, s3.environment)
    fill(s3, bucket, [*TREES[tree], "rows2/x", "else"])
    client = client_of(f"s3://{bucket}")

    found = sorted(each["path"] for each in object_listing.list_objects(client, "rows"))

    assert found == sorted(TREES[tree])
    assert len(object_listing.list_objects(client, "")) == len(TREES[tree]) + 2
    flat = [each for page in obstore.list(client) for each in page]
    assert len(flat) == len(TREES[tree]) + 2


def test_a_folder_of_few_objects_is_one_request(
    s3: S3Server, faulty_s3: FaultyS3, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, faulty_s3.environment)
    fill(s3, bucket, TREES["folders, and files beside them"])

    assert len(Bucket(f"s3://{bucket}", "rows").tree()) == 103
    assert faulty_s3.count() == 1


def test_many_objects_take_a_request_for_each_folder_and_page(
    s3: S3Server, faulty_s3: FaultyS3, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_environment(monkeypatch, faulty_s3.environment)
    fill(s3, bucket, [f"rows/{name}/{number:04}" for name in "abc" for number in range(1100)])

    assert len(Bucket(f"s3://{bucket}", "rows").tree()) == 3300
    assert faulty_s3.count() <= 1 + 1 + 3 * 2
