"""What runs of manifests/samples/data read, written below the folder their paths lie under."""

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from PIL import Image

from tests.app.data.builders_media import write_film, write_sound
from tests.app.data.builders_records import Value, write_records
from tests.app.data.builders_tables import open_catalog, write_delta, write_lance
from tests.app.data.builders_tar import write_tar

Write = Callable[[Path], None]

CARRIERS = ("AA", "DL", "UA")
DATABASE = "flights.db"


def flights(rows: int = 10, first: int = 0) -> pa.Table:
    """Return flights: each fourth has no delay, and each third the same carrier."""
    numbers = range(first, first + rows)
    return pa.table(
        {
            "distance": [100.0 * (number + 1) for number in numbers],
            "hour": [number % 24 for number in numbers],
            "hours": [0.5 * (1 + number % 3) for number in numbers],
            "carrier": [CARRIERS[number % 3] for number in numbers],
            "delay": [float(number) if number % 4 else None for number in numbers],
            "late": [number % 2 for number in numbers],
        }
    )


def flown(rows: int = 10, first: int = 0) -> dict[str, list[object]]:
    """Return what most samples read of them."""
    found: dict[str, list[object]] = (
        flights(rows, first).select(["distance", "hour", "late"]).to_pydict()
    )
    return found


def in_parquet(table: pa.Table, path: str = "flights", row_group_size: int = 100) -> Write:
    """Return what writes a table below a path, in two files."""

    def write(home: Path) -> None:
        (home / path).mkdir()
        half = len(table) // 2
        for number, part in enumerate((table[:half], table[half:])):
            pq.write_table(part, home / path / f"{number}.parquet", row_group_size=row_group_size)

    return write


def in_one_file(home: Path) -> None:
    """Write flights into one file."""
    pq.write_table(flights(), home / "flights.parquet")


def in_csv(home: Path) -> None:
    """Write flights with semicolons between their values."""
    (home / "flights").mkdir()
    options = pacsv.WriteOptions(delimiter=";")
    pacsv.write_csv(flights(), home / "flights" / "a.csv", options)


def in_json(home: Path) -> None:
    """Write flights, an object a line, and those of May as a list."""
    (home / "flights").mkdir()
    (home / "flights-of-may").mkdir()
    columns = ["distance", "hour", "late"]
    lines = [json.dumps(row) for row in flights().select(columns).to_pylist()]
    (home / "flights" / "a.jsonl").write_text("\n".join(lines))
    rows = flights(3, first=10).select(columns).to_pylist()
    (home / "flights-of-may" / "a.json").write_text(json.dumps(rows))


def in_text(home: Path) -> None:
    """Write two messages, an empty line between them."""
    (home / "messages").mkdir()
    (home / "messages" / "a.txt").write_text("ham\tA bad cab\n\nspam\tZz\n")


def picture(red: int, form: str = "PNG") -> bytes:
    """Return an encoded picture, red on its left half and black on its right."""
    found = io.BytesIO()
    made = Image.new("RGB", (64, 48))
    made.paste((red, 0, 0), (0, 0, 32, 48))
    made.save(found, form)
    return found.getvalue()


def animals(folder: str) -> Write:
    """Return what writes six pictures, the last two of dogs, of the means that ANIMALS says."""

    def write(home: Path) -> None:
        for number in range(6):
            kind = home / folder / ("cat" if number < 4 else "dog")
            kind.mkdir(parents=True, exist_ok=True)
            (kind / f"{number}.png").write_bytes(picture(42 * number))

    return write


def in_files(home: Path) -> None:
    """Write two letters, as their 64 grey values."""
    (home / "letters").mkdir()
    (home / "letters" / "3-0000.bin").write_bytes(bytes(range(64)))
    (home / "letters" / "7-0001.bin").write_bytes(bytes([255] * 64))


def in_arrays(home: Path) -> None:
    """Write three rows, the last number of which is the label."""
    (home / "vectors").mkdir()
    rows = [[1, 2, 3, 4, 0], [5, 6, 7, 8, 1], [9, 10, 11, 12, 0]]
    np.save(home / "vectors" / "a.npy", np.asarray(rows, dtype=np.float32))


def in_tfrecords(home: Path) -> None:
    """Write sentences of 2, 1 and 20 tokens."""
    (home / "sentences").mkdir()
    sentences: list[dict[str, Value]] = [
        {"tokens": [7] * length, "label": length % 2} for length in (2, 1, 20)
    ]
    write_records(home / "sentences" / "a.tfrecord", sentences)


def in_tar(home: Path) -> None:
    """Write pictures with their classes, and what is not asked for."""
    (home / "shards").mkdir()
    members = {}
    for number in range(3):
        members[f"{number}.jpg"] = picture(60 * number, "JPEG")
        members[f"{number}.cls"] = b"%d" % (number + 5)
        members[f"{number}.json"] = b"{}"
    write_tar(home / "shards" / "a.tar", members)


def in_delta(home: Path) -> None:
    """Write flights, and then others in their place."""
    write_delta(home / "tables" / "flights", flights())
    write_delta(home / "tables" / "flights", flights(5, first=50), overwrite=True)


def in_iceberg(home: Path) -> None:
    """Write flights into a table of a catalog that lies in the working directory."""
    place = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": f"file://{home}"}
    table = flights()
    with open_catalog(place) as catalog:
        catalog.create_table("shop.flights", schema=table.schema).append(table)


def in_lance(home: Path) -> None:
    """Write two vectors with labels and texts."""
    values = pa.array(np.arange(8, dtype=np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(values, 4)
    (home / "tables").mkdir()
    rows = pa.table({"vector": vectors, "label": [0, 1], "text": ["a", "b"]})
    write_lance(home / "tables" / "vectors.lance", rows)


def in_recordings(home: Path) -> None:
    """Write a recording that is too short, and one that is too long."""
    write_sound(home / "words" / "no" / "a.wav", 4000)
    write_sound(home / "words" / "yes" / "b.wav", 9000)


def in_films(home: Path) -> None:
    """Write a film, whose frames are each a bit lighter than the last."""
    write_film(home / "films" / "a.mp4", 25)


def in_a_database(home: Path) -> None:
    """Write flights into the table of a database."""
    with closing(sqlite3.connect(home / DATABASE)) as opened, opened:
        opened.execute("create table flights (distance real, hour integer, late integer)")
        rows = zip(*flown().values(), strict=True)
        opened.executemany("insert into flights values (?, ?, ?)", rows)


def vectors_to_mix(home: Path) -> None:
    """Write 40 vectors of -1 and 20 of 1, whose label has another name."""
    for name, value, rows, label in (("web", -1, 40, "label"), ("books", 1, 20, "kind")):
        values = pa.array(np.full(4 * rows, value, dtype=np.float32))
        vectors = pa.FixedSizeListArray.from_arrays(values, 4)
        in_parquet(pa.table({"vector": vectors, label: [max(0, value)] * rows}), name)(home)


def orders(home: Path) -> None:
    """Write six orders: of two lines nothing can be made, and a price is below 0."""
    (home / "orders").mkdir()
    lines = ("age,price,paid", "30,1.5,1", "31", "32,-2,0", "33,3.5,0", "old,1,1", "35,4.5,1")
    (home / "orders" / "a.csv").write_text("\n".join(lines))


def clicks(home: Path) -> None:
    """Write what two users clicked at, the last first: 40 of one and 33 of the other."""
    rows = [(user, time) for user, count in ((1, 40), (2, 33)) for time in range(count)]
    rows.sort(key=lambda row: -row[1])
    users, times = zip(*rows, strict=True)
    table = {
        "user": users,
        "time": times,
        "item": [100 * user + time for user, time in rows],
        "price": [float(time) for time in times],
        "bought": [time % 2 for time in times],
    }
    in_parquet(pa.table(table), "clicks")(home)


def visits(rows: int = 120) -> pa.Table:
    """Return visits of 40 users to a shop, one a day from the beginning of a year on."""
    numbers = range(rows)
    return pa.table(
        {
            "user": [f"user-{number % 40}" for number in numbers],
            "day": [date(2026, 1, 1) + timedelta(days=number) for number in numbers],
            "price": [float(number) for number in numbers],
            "hour": [number % 24 for number in numbers],
            "bought": [number % 2 for number in numbers],
        }
    )


def both(*writes: Write) -> Write:
    """Return what writes all of that."""

    def write(home: Path) -> None:
        for each in writes:
            each(home)

    return write
