"""Runs of one worker in this process, with models to predict with."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from pydantic import JsonValue

from tests.app.alone import Left, train_alone
from tests.app.builders_rows import write_rows
from tests.builders import make_data, make_dataset
from trainshed.checkpoint import store
from trainshed.storage.disk import Disk

FUNCTIONS = "tests.app.predict.functions"


def train_to_end(home: Path, spec: Mapping[str, JsonValue]) -> Left:
    left = train_alone(home, spec)
    assert left.finished.outcome == "Succeeded", left.finished.message
    return left


def newest(left: Left) -> Disk:
    folder = store.candidates([left.folder.checkpoints(1)])[0]
    assert isinstance(folder, Disk)
    return folder


def write_table(file: Path, rows: int = 90) -> Path:
    random = np.random.default_rng(0)
    lines = ["id,a,b,color,kind"]
    for number in range(rows):
        a, b = random.normal(size=2)
        color = "red" if b > 0 else "blue"
        kind = "plain" if a > 0.4 else ("odd" if b > 0 else "rare")
        lines.append(f"r{number},{a:.6f},{b:.6f},{color},{kind}")
    file.write_text("\n".join(lines) + "\n")
    return file


def train_own(home: Path, functions: str = FUNCTIONS) -> Left:
    write_rows(home / "rows", 40, files=4)
    return train_to_end(
        home,
        {
            "train": f"{functions}:train",
            "config": {"width": 4, "stop": str(home / "stop")},
            "epochs": 1,
            "batchSize": 8,
            "data": make_data(make_dataset()),
        },
    )
