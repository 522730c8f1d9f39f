"""Small datasets that the manifests read, made on this machine by a seed: the same each time."""

from __future__ import annotations

import io
import json
import tarfile
import wave
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from trainshed.storage.folder import Folder

    Write = Callable[[Path, np.random.Generator], None]

SEED = 0
ROWS = 1000
CARRIERS = ("AA", "DL", "UA")
LETTERS = 64


def write_sample(name: str, folder: Folder) -> list[str]:
    """Write a dataset below a folder, complete or not at all; return the names of its files.

    Raises:
        ValueError: if the folder has something of this name.
    """
    target = folder / name
    if target.exists():
        raise ValueError(f"{target} exists: remove it or choose another folder")
    with folder.aside(f"the sample {name}") as draft:
        WRITERS[name](draft, np.random.default_rng(SEED))
        files = sorted(str(file.relative_to(draft)) for file in draft.rglob("*") if file.is_file())
        folder.adopt(draft, name, last=files[-1])
    return files


def _write_flights(folder: Path, rng: np.random.Generator) -> None:
    table = _flights(rng)
    _write_parquet(table, folder)
    pacsv.write_csv(table, folder / "a.csv", pacsv.WriteOptions(delimiter=";"))
    (folder / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in _rows(table)))


def _write_flights_of_may(folder: Path, rng: np.random.Generator) -> None:
    rng.random()  # others than in flights
    table = _flights(rng)[: ROWS // 5]
    _write_parquet(table, folder)
    (folder / "a.json").write_text(json.dumps(_rows(table)))


def _flights(rng: np.random.Generator) -> pa.Table:
    """Return flights, of which those of the evening and short ones are often late."""
    hours = rng.uniform(0.5, 5, ROWS).round(1)
    hour = rng.integers(0, 24, ROWS)
    delay = rng.exponential(20, ROWS).round()
    late = hour + 10 * (hours < 2) + rng.normal(0, 2, ROWS) > 17  # noqa: PLR2004
    return pa.table(
        {
            "distance": (hours * rng.uniform(600, 900, ROWS)).round(),
            "hour": hour,
            "hours": hours,
            "carrier": rng.choice(CARRIERS, ROWS),
            "delay": pa.array(delay, mask=rng.random(ROWS) < 0.1),  # noqa: PLR2004
            "late": late.astype(np.int64),
        }
    )


def _rows(table: pa.Table) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = table.select(["distance", "hour", "late"]).to_pylist()
    return rows


def _write_visits(folder: Path, rng: np.random.Generator) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number % 365) for number in range(ROWS)]
    price, hour = rng.uniform(1, 100, ROWS).round(2), rng.integers(0, 24, ROWS)
    table = {
        "user": [f"user-{number}" for number in rng.integers(0, 40, ROWS)],
        "day": days,
        "price": price,
        "hour": hour,
        "bought": ((price < 50) & (hour > 8)).astype(np.int64),  # noqa: PLR2004
    }
    _write_parquet(pa.table(table), folder)


def _write_clicks(folder: Path, rng: np.random.Generator) -> None:
    price = rng.uniform(1, 100, ROWS).round(2)
    table = {
        "user": rng.integers(0, 10, ROWS),
        "time": rng.permutation(ROWS),
        "item": rng.integers(0, 500, ROWS),
        "price": price,
        "bought": (price < 30).astype(np.int64),  # noqa: PLR2004
    }
    _write_parquet(pa.table(table), folder)


def _write_orders(folder: Path, rng: np.random.Generator) -> None:
    """Write orders of which some lines are short, some ages are words, and some prices negative."""
    lines = ["age,price,paid"]
    for number in range(ROWS):
        age, price = rng.integers(18, 90), rng.uniform(1, 100)
        line = f"{age},{price:.2f},{int(price < 50)}"  # noqa: PLR2004
        bad = {10: f"{age}", 20: f"old,{price:.2f},1", 30: f"{age},-1.00,0"}
        lines.append(bad.get(number % 100, line))
    (folder / "a.csv").write_text("\n".join([*lines, ""]))


def _write_messages(folder: Path, rng: np.random.Generator) -> None:
    words = {"ham": ["see", "you", "at", "home", "later"], "spam": ["win", "a", "free", "prize"]}
    lines = [f"{kind}\t{' '.join(rng.choice(words[kind], 6))}\n" for kind in [*words] * (ROWS // 2)]
    (folder / "a.txt").write_text("".join(lines))


def _write_letters(folder: Path, rng: np.random.Generator) -> None:
    for number in range(ROWS // 5):
        label = number % 10
        pixels = np.clip(rng.normal(25 * label, 20, LETTERS), 0, 255).astype(np.uint8)
        (folder / f"{label}-{number:04}.bin").write_bytes(pixels.tobytes())


def _write_vectors(folder: Path, rng: np.random.Generator) -> None:
    labels = np.arange(ROWS) % 2
    vectors = rng.normal(labels[:, None], 0.5, (ROWS, 4))
    np.save(folder / "a.npy", np.column_stack([vectors, labels]).astype(np.float32))


def _vectors(rng: np.random.Generator, label: str) -> pa.Table:
    labels = np.arange(ROWS) % 2
    values = rng.normal(labels[:, None], 0.5, (ROWS, 4)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 4)
    return pa.table({"vector": vectors, label: labels})


def _write_words(folder: Path, rng: np.random.Generator) -> None:
    """Write recordings of about a second: a low tone for no, a high one for yes."""
    for kind, pitch in (("no", 220), ("yes", 880)):
        (folder / kind).mkdir()
        for number in range(50):
            times = np.arange(rng.integers(6000, 10_000)) / 8000
            tone = 8000 * np.sin(2 * np.pi * pitch * times) + rng.normal(0, 500, len(times))
            with wave.open(str(folder / kind / f"{number:02}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(tone.astype("<i2").tobytes())


def _write_animals(folder: Path, rng: np.random.Generator) -> None:
    for label, kind in enumerate(("cat", "dog")):
        (folder / kind).mkdir()
        for number in range(60):
            (folder / kind / f"{number:02}.png").write_bytes(_picture(rng, 5 * label, "PNG"))


def _write_shards(folder: Path, rng: np.random.Generator) -> None:
    with tarfile.open(folder / "a.tar", "w") as file:
        for number in range(ROWS // 5):
            label = number % 10
            members = {"jpg": _picture(rng, label, "JPEG"), "cls": str(label).encode()}
            for ending, content in members.items():
                member = tarfile.TarInfo(f"{number:04}.{ending}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))


def _write_cifar10(folder: Path, rng: np.random.Generator) -> None:
    """Write pictures of the size of CIFAR-10: of ten shades of color, in place of ten kinds."""
    for part, rows in (("train", ROWS), ("test", ROWS // 5)):
        (folder / part).mkdir()
        labels = rng.integers(0, 10, rows)
        pictures = [_picture(rng, label, "PNG") for label in labels.tolist()]
        _write_parquet(pa.table({"image": pictures, "label": labels}), folder / part)


def _picture(rng: np.random.Generator, label: int, form: str) -> bytes:
    """Return an encoded picture of 32x32 pixels, whose color depends on its label."""
    shade = np.array([25 * label, 128, 255 - 25 * label])
    pixels: NDArray[np.uint8] = np.clip(rng.normal(shade, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
    found = io.BytesIO()
    Image.fromarray(pixels).save(found, form)
    return found.getvalue()


def _write_parquet(table: pa.Table, folder: Path) -> None:
    """Write two files, so that two workers have some to read."""
    half = len(table) // 2
    for number, part in enumerate((table[:half], table[half:])):
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=200)


WRITERS: Mapping[str, Write] = {
    "animals": _write_animals,
    "books": lambda folder, rng: _write_parquet(_vectors(rng, "kind"), folder),
    "cifar10": _write_cifar10,
    "clicks": _write_clicks,
    "flights": _write_flights,
    "flights-of-may": _write_flights_of_may,
    "letters": _write_letters,
    "messages": _write_messages,
    "orders": _write_orders,
    "shards": _write_shards,
    "vectors": _write_vectors,
    "visits": _write_visits,
    "web": lambda folder, rng: _write_parquet(_vectors(rng, "label"), folder),
    "words": _write_words,
}
