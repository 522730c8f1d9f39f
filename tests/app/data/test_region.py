"""The region of a bucket is asked for where neither a dataset nor the environment says it."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from hack.cluster.ports import LOOPBACK, pick_ports
from tests.app.conftest import set_environment
from tests.web import WebServer
from trainshed.data.sources.opener import store_options_of
from trainshed.storage import region
from trainshed.storage.region import region_of
from trainshed_api.rows import ReadSpec

SAYS = (
    *("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    *("AWS_REGION", "AWS_DEFAULT_REGION"),
)


@pytest.fixture
def amazon(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> WebServer:
    """A server that knows where the bucket `open` lies; the environment says nothing."""
    for name in SAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(region, "AMAZON", web.url)
    region_of.cache_clear()
    web.files["/open"] = b""
    web.tells = {"x-amz-bucket-region": "us-west-2"}
    return web


PUBLIC: Mapping[str, JsonValue] = {"anonymous": True}
CASES: dict[str, tuple[Mapping[str, str], Mapping[str, JsonValue], str]] = {
    "nobody says it": ({}, {}, "us-west-2"),
    "it is written as Ray does": ({}, {"path": "s3://anonymous@open/rows.csv"}, "us-west-2"),
    "the environment says the storage's": ({"AWS_REGION": "here"}, PUBLIC, "us-west-2"),
    "the environment says it": ({"AWS_REGION": "here"}, {}, ""),
    "the environment says it as of old": ({"AWS_DEFAULT_REGION": "here"}, {}, ""),
    "the dataset says it": ({}, {"region": "eu-north-1"}, "eu-north-1"),
    "the dataset is not Amazon's": ({}, {"endpoint": "http://127.0.0.1:9"}, ""),
    "the storage is not Amazon's": ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, PUBLIC, ""),
    "it is on a disk": ({}, {"path": "open/rows.csv"}, ""),
}


@pytest.mark.parametrize(("environment", "read", "want"), CASES.values(), ids=CASES)
def test_a_region_is_asked_for_where_nobody_says_it(
    amazon: WebServer,
    monkeypatch: pytest.MonkeyPatch,
    environment: Mapping[str, str],
    read: Mapping[str, JsonValue],
    want: str,
) -> None:
    set_environment(monkeypatch, environment)
    spec = {"format": "csv", "path": "s3://open/rows.csv", **read}

    assert store_options_of(ReadSpec.model_validate(spec)).region == want
    assert amazon.count("HEAD") == (want == "us-west-2")


def test_who_may_not_see_a_bucket_is_told_its_region(amazon: WebServer) -> None:
    amazon.gives_heads = False

    assert region_of("open") == "us-west-2"


@pytest.mark.parametrize("bucket", ["open", "no bucket\n/ at all"])
def test_where_nobody_answers_none_is_known(
    amazon: WebServer, monkeypatch: pytest.MonkeyPatch, bucket: str
) -> None:
    [port] = pick_ports(1)
    monkeypatch.setattr(region, "AMAZON", f"http://{LOOPBACK}:{port}")
    monkeypatch.setattr(region, "PATIENCE_SECONDS", 0.6)

    assert region_of(bucket) is None
