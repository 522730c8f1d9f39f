"""Paths lie under the home that a run has, addresses where they say."""

from pathlib import Path

import pytest

from tests.s3 import S3Server
from trainshed.failures import InfrastructureError
from trainshed.planning.paths import check_cache, check_environment, check_storage, home_of, locate
from trainshed.storage.addresses import open_folder
from trainshed.storage.bucket import Bucket
from trainshed.storage.disk import Disk
from trainshed_api.errors import SpecError
from trainshed_api.names import ENV_HOME, ENV_SCRATCH
from trainshed_api.rows import ReadSpec

HERE, BUCKET = "/mnt/ada", "s3://bucket/home"

# What a spec says under a home, and where that is.
PLACES: dict[str, tuple[str, str, str]] = {
    "a path is under the home": ("data/rows", HERE, "/mnt/ada/data/rows"),
    "a path to the side of the home": ("../rows", HERE, "/mnt/ada/../rows"),
    "the home itself": (".", HERE, "/mnt/ada"),
    "an absolute path": ("/data/rows", HERE, "/data/rows"),
    "an address of a file system": ("file:///data/rows", HERE, "/data/rows"),
    "the address of a bucket": ("s3://other/rows", HERE, "s3://other/rows"),
    "a path is under a home in a bucket": ("data/rows", BUCKET, "s3://bucket/home/data/rows"),
    "a home in a bucket itself": (".", BUCKET, "s3://bucket/home"),
    "an absolute path beside a home in a bucket": ("/data/rows", BUCKET, "/data/rows"),
    "another bucket than that of the home": ("gs://other/rows", BUCKET, "gs://other/rows"),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_is_found(case: str) -> None:
    text, home, want = PLACES[case]

    found = locate(text, open_folder(home), "spec.storage")

    assert (str(found), found.path is None) == (want, "://" in want)


REFUSED: dict[str, tuple[str, str]] = {
    "an address of a kind that is not known": ("hdfs://server/rows", "a path, file://, or a buck"),
    "an address without a bucket": ("s3:///rows", "a path, file://, or a bucket's address with"),
    "an address with a question": ("s3://bucket/rows?x=1", "a path, file://, or a bucket's addr"),
    "a path out of a home in a bucket": ("../rows", "a path below the address of TRAINSHED_HOME"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_leads_nowhere_is_refused_by_its_field(case: str) -> None:
    text, want = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        locate(text, open_folder(BUCKET), "spec.storage")

    assert str(caught.value).startswith(f"spec.storage: got {text}; expected {want}")


def test_paths_lie_beside_the_file_where_no_home_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "run.yaml"
    monkeypatch.chdir(tmp_path)

    monkeypatch.delenv(ENV_HOME, raising=False)
    assert home_of(file) == home_of(Path("run.yaml")) == Disk(tmp_path)
    monkeypatch.setenv(ENV_HOME, "work")
    assert home_of(file) == Disk(tmp_path / "work")
    monkeypatch.setenv(ENV_HOME, BUCKET)
    assert home_of(file) == open_folder(BUCKET)


def test_storage_is_looked_at_and_nothing_is_left_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    check_storage(Disk(tmp_path / "runs" / "local" / "digits"))
    with pytest.raises(
        SpecError, match=r"spec\.storage: got .*/file; expected a folder; this is a fi"
    ):
        check_storage(Disk(tmp_path / "file" / "runs"))

    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_cache_leaves_room_for_what_else_a_pod_has_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = ReadSpec.model_validate({"format": "csv", "path": "s3://b/a", "localCache": "30Gi"})
    check_cache(read, "spec.data.datasets.train.read")
    monkeypatch.setenv(ENV_SCRATCH, "60Gi")
    check_cache(read, "spec.data.datasets.train.read")
    monkeypatch.setenv(ENV_SCRATCH, "50Gi")

    with pytest.raises(
        SpecError, match=r"read\.localCache: got 30Gi; expected at most 25600Mi, half"
    ):
        check_cache(read, "spec.data.datasets.train.read")


def test_variables_that_only_the_workers_client_would_obey_are_refused() -> None:
    env = {"AWS_ENDPOINT_URL": "http://elsewhere", "HF_HOME": "/cache"}
    check_environment(Disk(Path("/runs")), env)

    with pytest.raises(SpecError, match=r"spec\.env\.AWS_ENDPOINT_URL: .* s3://team/runs"):
        check_environment(Bucket("s3://team", "runs"), env)


def test_a_bucket_that_is_not_there_is_said_before_anything_starts(in_bucket: Bucket) -> None:
    check_storage(in_bucket / "runs/local/digits")

    with pytest.raises(SpecError, match="no such bucket"):
        check_storage(Bucket("s3://nobodys", "runs"))


@pytest.mark.usefixtures("in_bucket")
def test_credentials_that_do_not_fit_are_said(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anothers")

    # They may be renewed: a run that has trained for days is not over for it.
    with pytest.raises(InfrastructureError, match="access was denied"):
        check_storage(Bucket(f"s3://{s3.make_bucket()}", "runs"))  # no client of it was made yet


@pytest.mark.parametrize("address", ["s3://KEY:SECRET@bucket/runs", "gs://KEY@bucket/runs"])
def test_keys_in_an_address_are_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(SpecError, match="an address without keys") as refused:
        locate(address, Disk(Path("/runs")), "spec.storage")
    assert "KEY" not in str(refused.value)
