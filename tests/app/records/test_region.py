"""The region of a bucket is asked for where neither a dataset nor the environment says it."""

from collections.abc import Mapping

import pytest

from tests.app.conftest import set_environment
from tests.web import WebServer
from trainshed.records import region
from trainshed.records.client import options_of
from trainshed.records.reach import AS_USUAL, Reach
from trainshed.records.region import region_of

PUBLIC = Reach(is_anonymous=True)
ELSEWHERE = Reach(is_anonymous=True, endpoint="http://127.0.0.1:9")
SAID = Reach(is_anonymous=True, region="eu-north-1")


@pytest.fixture
def amazon(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """A server that knows where the bucket `open` lies; the environment says nothing."""
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(region, "AMAZON", web.url)
    region_of.cache_clear()
    web.files["/open"] = b""
    web.tells = {"x-amz-bucket-region": "us-west-2"}
    return web


CASES: dict[str, tuple[Mapping[str, str], Reach, str | None]] = {
    "nobody says it": ({}, AS_USUAL, "us-west-2"),
    "the environment says the storage's": ({"AWS_REGION": "here"}, PUBLIC, "us-west-2"),
    "the environment says it": ({"AWS_REGION": "here"}, AS_USUAL, None),
    "the environment says it as of old": ({"AWS_DEFAULT_REGION": "here"}, AS_USUAL, None),
    "the dataset says it": ({}, SAID, "eu-north-1"),
    "the dataset is not Amazon's": ({}, ELSEWHERE, None),
    "the storage is not Amazon's": ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, PUBLIC, None),
}


@pytest.mark.parametrize(("environment", "reach", "want"), CASES.values(), ids=CASES)
def test_a_region_is_asked_for_where_nobody_says_it(
    amazon: WebServer,
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str],
    reach: Reach,
    want: str | None,
) -> None:
    set_environment(monkeypatch, environment)

    assert options_of("s3://open/rows", reach).get("aws_region") == want
    assert amazon.count("HEAD") == (want == "us-west-2")


def test_who_may_not_see_a_bucket_is_told_its_region(amazon: WebServer) -> None:
    amazon.gives_heads = False

    assert region_of("open") == "us-west-2"


def test_where_nobody_answers_the_client_goes_on_with_its_own(
    amazon: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(region, "AMAZON", "http://127.0.0.1:9")

    assert region_of("open") is None
    assert "aws_region" not in options_of("s3://open/rows", PUBLIC)
