"""Tables of Delta and Lance are read from buckets as from folders."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pytest

from hack.cluster.ports import LOOPBACK, pick_ports
from tests.app.data.builders_formats import FIELD, read_all
from tests.app.data.builders_tables import (
    read_from_its_own_store,
    table_rows,
    write_delta,
    write_lance,
)
from tests.s3 import S3Server
from trainshed.data.sources.dataset_files import open_source
from trainshed.data.sources.opener import FileAccess
from trainshed.failures import InfrastructureError
from trainshed.retry import RetryPolicy
from trainshed.storage.bucket import Bucket
from trainshed_api.rows import ReadSpec

pytestmark = pytest.mark.s3


@dataclass(frozen=True)
class Kind:
    """A kind of table.

    Args:
        write: writes rows to a path or an address.
        unanswered: what is said where the bucket does not answer.
    """

    write: Callable[[str, pa.Table], object]
    unanswered: str


KINDS = {
    "delta": Kind(partial(write_delta, partitions=["part"]), "Connection refused"),
    "lance": Kind(write_lance, "Generic S3 error"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_in_a_bucket_is_read(in_bucket: Bucket, kind: str) -> None:
    at = in_bucket / "rows"
    KINDS[kind].write(str(at), table_rows(0, 120))
    read = ReadSpec.model_validate({"format": kind, "path": str(at)})

    source = open_source(at, read, FIELD)

    assert source.rows == 120
    assert sorted(read_all(source)["id"].tolist()) == list(range(120))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_on_another_store_is_read(
    s3: S3Server, in_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    KINDS[kind].write(str(in_bucket / "rows"), table_rows(0, 12))

    found = read_from_its_own_store(kind, in_bucket / "rows", s3, monkeypatch)

    assert sorted(found["id"].tolist()) == list(range(12))


@pytest.mark.parametrize("kind", KINDS)
def test_a_bucket_that_does_not_answer_is_no_mistake(
    in_bucket: Bucket, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    [port] = pick_ports(1)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{LOOPBACK}:{port}")
    read = ReadSpec.model_validate({"format": kind, "path": str(in_bucket)})

    with pytest.raises(InfrastructureError, match=rf"read\.path: .*{KINDS[kind].unanswered}"):
        open_source(in_bucket, read, FIELD, FileAccess(RetryPolicy(pauses=())))
