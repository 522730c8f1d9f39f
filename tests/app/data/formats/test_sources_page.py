"""What docs/data.md shows of each format reads real files of it, as they were written."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.app.data.builders_formats import FIELD, read_all, write_npy, write_pictures
from tests.app.data.builders_media import write_film, write_sound
from tests.app.data.builders_records import write_records
from tests.app.data.builders_tables import open_catalog, write_delta, write_lance
from tests.app.data.builders_tar import write_tar
from tests.bundle.repository import ROOT
from trainshed.data.read.columns import Columns
from trainshed.data.read.files import FILES, open_source
from trainshed.records.disk import Disk
from trainshed_api.formats import FORMATS
from trainshed_api.rows import ReadSpec

PAGE = (ROOT / "docs" / "data.md").read_text()
SECTION = PAGE.partition("## Sources\n")[2].partition("\n## ")[0]
SNIPPETS = [
    ReadSpec.model_validate(yaml.safe_load(text)["read"])
    for text in re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
]
DELAYS = pa.table({"delay": [0.5, 1.5], "distance": [100, 200], "plane": ["a", "b"]})


@dataclass(frozen=True)
class Shown:
    """How files of a format are written to a path, what is read of them, and whether told."""

    write: Callable[[Path], None]
    want: Mapping[str, object]
    told: bool


def write_parquet(path: Path) -> None:
    path.mkdir()
    pq.write_table(DELAYS, path / "a.parquet")


def write_csv(path: Path) -> None:
    path.mkdir()
    (path / "a.csv").write_text("delay;plane\n1;a\n2;b\n")


def write_json(path: Path) -> None:
    path.mkdir()
    (path / "a.jsonl").write_text('{"delay": 1, "plane": "a"}\n{"delay": 2, "plane": "b"}\n')


def write_text(path: Path) -> None:
    path.mkdir()
    (path / "a.txt").write_text("roses\n\nviolets\n")


def write_letters(path: Path) -> None:
    path.mkdir()
    (path / "a.bin").write_bytes(b"dear")


def write_sentences(path: Path) -> None:
    path.mkdir()
    write_records(path / "a.tfrecord", [{"tokens": [1, 2], "label": 3}])


def write_shards(path: Path) -> None:
    path.mkdir()
    write_tar(path / "a.tar", {"a.jpg": b"picture", "a.cls": b"7", "a.json": b"{}"})


def write_flights(path: Path) -> None:
    path.parent.mkdir()
    write_delta(path, DELAYS)
    write_delta(path, DELAYS)  # the page names version 0


def write_orders(path: Path) -> None:
    warehouse = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": f"file://{path.parent}"}
    with open_catalog(warehouse) as catalog:
        catalog.create_table("shop.orders", schema=DELAYS.schema).append(DELAYS)


def write_vectors(path: Path) -> None:
    path.parent.mkdir()
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([1.0, 2.0, 3.0, 4.0], pa.float32()), 2)
    write_lance(path, pa.table({"id": [1, 2], "vector": vectors, "text": ["a", "b"]}))


def write_words(path: Path) -> None:
    write_sound(path / "no" / "a.wav", 4)
    write_sound(path / "yes" / "b.wav", 9000)


SHOWN: dict[str, Shown] = {
    "parquet": Shown(write_parquet, {"delay": [0.5, 1.5], "distance": [100, 200]}, told=True),
    "csv": Shown(write_csv, {"delay": [1.0, 2.0], "plane": ["a", "b"]}, told=False),
    "json": Shown(write_json, {"delay": [1.0, 2.0], "plane": ["a", "b"]}, told=False),
    "text": Shown(write_text, {"text": ["roses", "violets"]}, told=False),
    "images": Shown(lambda path: write_pictures(path, {"cat": 1, "ant": 1}), {}, told=True),
    "binary": Shown(write_letters, {"bytes": [b"dear"]}, told=True),
    "numpy": Shown(
        lambda path: write_npy(path / "a.npy", 0, 2),
        {"data": [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]},
        told=True,
    ),
    "tfrecords": Shown(write_sentences, {"label": [3]}, told=False),
    "webdataset": Shown(write_shards, {"jpg": [b"picture"], "cls": [7]}, told=False),
    "delta": Shown(write_flights, DELAYS.to_pydict(), told=True),
    "iceberg": Shown(write_orders, DELAYS.to_pydict(), told=True),
    "lance": Shown(write_vectors, {"id": [1, 2], "vector": [[1.0, 2.0], [3.0, 4.0]]}, told=True),
    "audio": Shown(write_words, {"rate": [8000, 8000], "label": [0, 1]}, told=True),
    "video": Shown(lambda path: write_film(path / "a.mp4", 25), {}, told=False),
}


def check_more(form: str, found: Columns) -> None:
    """Look at what is too large to be written down."""
    if form == "images":
        assert found["label"].tolist() == [0, 1]
        assert [picture[1:4] for picture in found["image"]] == [b"PNG"] * 2
    elif form == "tfrecords":
        assert [tokens.tolist() for tokens in found["tokens"]] == [[1, 2]]
    elif form == "audio":
        assert found["audio"].shape == (2, 8000)
        assert np.count_nonzero(found["audio"][0]) == 4
    elif form == "video":
        assert found["frame"].shape == (3, 72, 96, 3)


def test_the_page_shows_every_format_once() -> None:
    assert sorted(str(read.format) for read in SNIPPETS) == sorted(FORMATS)
    rows = re.findall(r"^\| `(\w+)` \|", SECTION, re.MULTILINE)
    assert sorted(rows) == sorted(FORMATS)


@pytest.mark.parametrize("read", SNIPPETS, ids=[str(read.format) for read in SNIPPETS])
def test_what_is_shown_reads_what_was_written(
    tmp_path: Path, read: ReadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read.format
    assert read.path
    shown = SHOWN[read.format]
    shown.write(tmp_path / read.path)

    source = open_source(Disk(tmp_path / read.path), read, FIELD)
    found = read_all(source, read.columns)

    assert {name: found[name].tolist() for name in shown.want} == shown.want
    assert (source.rows is not None) is shown.told
    assert set(read.columns or found) == set(found)
    check_more(read.format, found)


def test_the_page_names_all_endings() -> None:
    for form, reader in FILES.items():
        [row] = re.findall(rf"^\| `{form}` \| (.*?) \|", SECTION, re.MULTILINE)
        plain = {ending for ending in reader.suffixes if ending.count(".") == 1}
        assert set(re.findall(r"`(\.\w+)`", row)) == plain
        assert ("packed" in row) is (len(plain) < len(reader.suffixes))
