"""A file at http:// is read as one of a disk is."""

import io
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import JsonValue

from tests.app.data.builders_buckets import assert_same, write_parquet
from tests.app.data.builders_formats import read_all, write_csv, write_npy
from tests.web import WebServer
from trainshed.data.sampler.file_tables import Source
from trainshed.data.sources import opener
from trainshed.data.sources.dataset_files import open_source, read_fragment
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats import npy
from trainshed.data.sources.local_cache import LocalFileCache
from trainshed.data.sources.opener import FileAccess, store_options_of
from trainshed.failures import InfrastructureError, is_passing
from trainshed.planning.paths import locate, locate_source
from trainshed.retry import RetryPolicy
from trainshed.storage.addresses import open_web
from trainshed.storage.byte_ranges import PART_BYTES, WHOLE
from trainshed.storage.disk import Disk
from trainshed.storage.ranged_reads import Ranges
from trainshed_api.errors import SpecError
from trainshed_api.names import ENV_SCRATCH
from trainshed_api.rows import ReadSpec

FIELD = "spec.data.datasets.train.read"
HOME = Disk(Path("/"))


pytestmark = pytest.mark.usefixtures("own_node")


def open_at(path: str, form: str, **read: JsonValue) -> Source:
    spec = ReadSpec.model_validate({"format": form, "path": path, **read})
    return open_source(
        locate_source(path, HOME, f"{FIELD}.path", store_options_of(spec)), spec, FIELD
    )


FORMS: dict[str, Callable[[Path], None]] = {
    "csv": lambda path: write_csv(path, 0, 2000),
    "numpy": lambda path: write_npy(path, 0, 2000),
    "parquet": lambda path: write_parquet(path, 3),
}


@pytest.mark.parametrize("gives_ranges", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_a_disk(
    web: WebServer, tmp_path: Path, form: str, gives_ranges: bool
) -> None:
    FORMS[form](tmp_path / "rows.npy")
    web.gives_ranges = gives_ranges
    web.files["/a/rows one"] = (tmp_path / "rows.npy").read_bytes()

    found = read_all(open_at(f"{web.url}/a/rows%20one", form))

    assert_same(found, read_all(open_at(str(tmp_path / "rows.npy"), form)))


def test_of_a_server_with_ranges_parts_are_asked_for(web: WebServer, tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows", 30)
    web.files["/rows.parquet"] = (tmp_path / "rows").read_bytes()

    read_all(open_at(f"{web.url}/rows.parquet", "parquet"))

    assert web.count("GET") == 0
    assert web.count("GET", of_ranges=True) <= 5


def test_a_small_file_comes_without_a_thread_of_its_own(web: WebServer) -> None:
    """Which cost as much of a core as the request."""
    web.files["/small"], web.files["/large"] = b"a" * 1000, bytes(2 * PART_BYTES)
    threads = {}
    for name, size in (("small", 1000), ("large", 2 * PART_BYTES)):
        at = open_web(f"{web.url}/{name}")
        with Ranges(at, size, WHOLE) as file:
            assert len(file.read()) == size
            threads[name] = [each for each in threading.enumerate() if "ahead" in each.name]

    assert not threads["small"]
    assert threads["large"]


def test_of_a_server_without_ranges_the_file_comes_once(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npy, "FRAGMENT_BYTES", 1000)
    write_npy(tmp_path / "rows.npy", 0, 2000)
    web.gives_ranges = False
    web.files["/rows.npy"] = (tmp_path / "rows.npy").read_bytes()

    source = open_at(f"{web.url}/rows.npy", "numpy")
    rows = read_all(source)["data"]

    assert len(source.fragments) > 10
    np.testing.assert_array_equal(rows, np.load(tmp_path / "rows.npy"))
    assert web.count("GET") == 1


@pytest.mark.parametrize("location", ["/there/rows.csv", "{url}/there/rows.csv", "there/rows.csv"])
def test_a_file_that_has_moved_is_followed(web: WebServer, tmp_path: Path, location: str) -> None:
    write_csv(tmp_path / "rows", 0, 100)
    web.files["/there/rows.csv"] = (tmp_path / "rows").read_bytes()
    web.moved["/rows.csv"] = location.format(url=web.url)

    assert len(read_all(open_at(f"{web.url}/rows.csv", "csv"))["id"]) == 100


def test_what_follows_a_question_mark_is_asked_for_too(web: WebServer, tmp_path: Path) -> None:
    write_csv(tmp_path / "rows", 0, 100)
    web.files["/rows.csv"] = (tmp_path / "rows").read_bytes()

    source = open_at(f"{web.url}/rows.csv?download=1", "csv")

    assert len(read_all(source)["id"]) == 100
    assert {each.path for each in web.asked} == {"/rows.csv?download=1"}
    assert [file.path for file in source.files] == ["rows.csv"]


REFUSED: dict[str, tuple[str, str]] = {
    "a file that is not there": ("{url}/none.csv", "expected the address of an existing file"),
    "a folder": ("{url}/rows/", "expected the address of one file: folders are not listed"),
    "a host alone": ("{url}", "expected the address of one file: folders are not listed"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_file_is_refused(web: WebServer, case: str) -> None:
    path, want = REFUSED[case]

    with pytest.raises(SpecError, match=want):
        open_at(path.format(url=web.url), "csv")


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(SpecError, match="without a password") as refusal:
        open_at("https://me:secret@files.example/rows.csv", "csv")

    assert "secret" not in str(refusal.value)


def test_a_server_that_tells_no_size_is_refused_at_once(web: WebServer) -> None:
    web.tells_size = False
    web.files["/rows.csv"] = b"a\n1\n"

    with pytest.raises(SpecError, match=r"read\.path: .*Content-Length"):
        open_at(f"{web.url}/rows.csv", "csv")


# ----------------------------------------------------------- written anew


@pytest.mark.parametrize("gives_ranges", [True, False])
@pytest.mark.parametrize("local_cache", [None, "1Gi"])
def test_what_tells_no_version_is_read_anew_by_the_next_run(
    web: WebServer, gives_ranges: bool, local_cache: str | None
) -> None:
    web.gives_ranges = gives_ranges
    for content in (b"old 1\nold 2\n", b"new 1\nnew 2\n"):
        web.files["/rows.txt"] = content
        found = read_all(open_at(f"{web.url}/rows.txt", "text", localCache=local_cache))

        assert list(found["text"]) == content.decode().splitlines()


TELLS: dict[str, tuple[dict[str, str], dict[str, str], bytes]] = {
    "another tag": ({"ETag": '"1"'}, {"ETag": '"2"'}, b"new 1\n"),
    "another weak tag": ({"ETag": 'W/"1"'}, {"ETag": 'W/"2"'}, b"new 1\n"),
    "another date": (
        {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"},
        {"Last-Modified": "Thu, 01 Jan 2026 00:00:01 GMT"},
        b"new 1\n",
    ),
    "another size": ({}, {}, b"new 10\n"),
}


@pytest.mark.parametrize("gives_ranges", [True, False])
@pytest.mark.parametrize("case", TELLS)
def test_what_was_written_anew_since_the_plan_is_refused(
    web: WebServer, case: str, gives_ranges: bool
) -> None:
    before, after, content = TELLS[case]
    web.gives_ranges = gives_ranges
    web.files["/rows.txt"], web.tells = b"old 1\n", before
    source = open_at(f"{web.url}/rows.txt", "text")
    web.files["/rows.txt"], web.tells = content, after

    with pytest.raises(DataError, match=r"/rows\.txt: it was overwritten since the run was plan"):
        read_all(source)


@pytest.mark.parametrize("case", TELLS)
def test_answers_of_two_contents_are_not_joined(web: WebServer, case: str) -> None:
    before, after, content = TELLS[case]
    web.files["/rows.txt"], web.tells = b"old 1\n", before
    file = Ranges(open_web(f"{web.url}/rows.txt"))
    assert file.fetch(0, 3) == b"old"
    web.files["/rows.txt"], web.tells = content, after

    with pytest.raises(OSError, match=r"overwritten while|recondition") as failed:
        file.fetch(3, 6)

    assert is_passing(failed.value)


# ----------------------------------------------------------- whole files


def test_a_file_that_comes_whole_is_no_more_than_half_of_what_a_pod_may_have(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENV_SCRATCH, "2Ki")
    web.gives_ranges = False
    web.files["/rows.txt"] = b"a\n" * 512
    assert len(read_all(open_at(f"{web.url}/rows.txt", "text"))["text"]) == 512
    web.files["/rows.txt"] += b"a\n"

    for form in ("text", "parquet"):
        with pytest.raises(SpecError, match=r"1026 bytes of a server that gives no ranges.*1024 "):
            open_at(f"{web.url}/rows.txt", form)


def test_a_large_file_that_a_node_cannot_keep_is_not_held_in_memory(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no-folder").touch()
    monkeypatch.setattr(
        opener, "kept_here", lambda most: LocalFileCache(tmp_path / "no-folder", most)
    )
    monkeypatch.setattr(opener, "HELD_BYTES", 1024)
    web.gives_ranges = False
    web.files["/rows.txt"] = b"a\n" * 512
    assert len(read_all(open_at(f"{web.url}/rows.txt", "text"))["text"]) == 512
    web.files["/rows.txt"] += b"a\n"
    asked = web.count("GET")

    with pytest.raises(
        InfrastructureError, match=r"too little space for http.*/rows\.txt, 1026 bytes"
    ) as failed:
        open_at(f"{web.url}/rows.txt", "text")

    assert failed.value.kind == "scratch"
    assert web.count("GET") == asked


# ----------------------------------------------------------- who may read


def test_who_may_not_ask_for_the_size_is_told_it_with_the_first_byte(
    web: WebServer, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "rows", 3)
    web.files["/rows.parquet"] = (tmp_path / "rows").read_bytes()
    web.gives_heads = False

    source = open_at(f"{web.url}/rows.parquet?signed=for-get", "parquet")

    assert source.files[0].bytes == len(web.files["/rows.parquet"])
    assert_same(read_all(source), read_all(open_at(str(tmp_path / "rows"), "parquet")))


def gone(web: WebServer) -> None:
    del web.files["/rows.csv"]


def none_to_ask(web: WebServer) -> None:
    web.gives_heads = web.gives_ranges = False


def no_size(web: WebServer) -> None:
    web.tells_size = False


def no_table(web: WebServer) -> None:
    web.files["/rows.csv"] = b'"'


def bad_line(web: WebServer) -> None:
    web.files["/rows.csv"] = b"a\n" + b"1\n" * 2**20 + b"1,2\n"


def other(web: WebServer) -> None:
    web.files["/rows.csv"] += b"1\n"


SIGNED = "a=1,2&b=(x)&X-Amz-Signature=5a1f"
BEFORE: dict[str, Callable[[WebServer], None]] = {
    "nothing there": gone,
    "not to be read": none_to_ask,
    "no size": no_size,
    "no table": no_table,
    "a bad line": bad_line,
}
AFTER: dict[str, Callable[[WebServer], None]] = {"gone": gone, "another content": other}


@pytest.mark.parametrize("case", [*BEFORE, *AFTER])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_no_message_has_what_follows_a_question_mark(web: WebServer, case: str, form: str) -> None:
    web.files["/rows.csv"] = b"a\n1\n"
    if form == "parquet":
        sink = io.BytesIO()
        pq.write_table(pa.table({"a": [1]}), sink)
        web.files["/rows.csv"] = sink.getvalue()
    if case in BEFORE:
        BEFORE[case](web)

    def read() -> None:
        source = open_at(f"{web.url}/rows.csv?{SIGNED}", form)
        assert "5a1f" not in repr(source)
        if case in AFTER:
            AFTER[case](web)
        for fragment in source.fragments:
            list(read_fragment(source.scan, fragment, [], 100, FileAccess(RetryPolicy(()))))

    with pytest.raises((SpecError, DataError, InfrastructureError)) as failed:
        read()

    assert "/rows.csv" in str(failed.value)
    assert "5a1f" not in "".join(traceback.format_exception(failed.value))


def test_nothing_is_stored_on_the_web() -> None:
    with pytest.raises(SpecError, match=r"spec\.storage: got \"?https://x\.example/runs"):
        locate("https://x.example/runs", HOME, "spec.storage")
