"""The driver's memory: what it holds, and its growth from the second epoch to the end."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import rows, trainingrun
from benchmarks.measure import Figure, Options, Sample, Target, in_turn, options, publish

if TYPE_CHECKING:
    from pydantic import JsonValue

EPOCHS = 60
SECONDS_BETWEEN_LOOKS = 0.2
MEGABYTE = 2**20


class Watch(threading.Thread):
    """Notes (time, resident bytes) of a run's driver, whose claim tells the process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._claim = folder / "runs" / "local" / "benchmark" / "attempts" / "1" / "claim"
        self.ended = threading.Event()
        self.seen: list[tuple[float, int]] = []

    def run(self) -> None:
        """Look until told to end."""
        while not self.ended.wait(SECONDS_BETWEEN_LOOKS):
            with contextlib.suppress(OSError, ValueError, KeyError):
                pid = json.loads(self._claim.read_text(encoding="utf-8"))["pid"]
                status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
                # proc(5): VmRSS is in kB, which are KiB
                line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
                self.seen.append((time.time(), int(line.split()[1]) * 1024))


def main() -> None:
    """Measure."""
    given = options(__doc__)
    data = rows.make(rows.Shape("small", 6_400, 64), given.cache)
    samples = in_turn({"ours": partial(ours, data, given)}, given)
    publish(
        "memory",
        [
            Figure("driver, at the end", "MB", samples.of("ours", "end")),
            Figure(
                "driver, growth since epoch 2",
                "MB",
                samples.of("ours", "growth"),
                target=Target("value", "<=", 50),
            ),
        ],
        samples,
        given,
    )


def ours(data: Path, given: Options, folder: Path) -> Sample:
    """Train for many epochs and watch the driver."""
    spec: dict[str, JsonValue] = {
        "train": "trainshed.programs.tabular:train",
        "config": {
            "features": ["x"],
            "inputs": 64,
            "label": "y",
            "classes": rows.CLASSES,
            "widths": [64],
        },
        "epochs": 6 if given.quick else EPOCHS,
        "batchSize": 64,
        "data": trainingrun.dataset(data),
        "workers": {"count": 2, "resources": {"cpu": 1}},
    }
    watch = Watch(folder)
    watch.start()
    run = trainingrun.train(folder, spec)
    watch.ended.set()
    watch.join()
    epochs = [e for e in run.events if e["event"] == "progress" and int(str(e["epoch"])) > 1]
    second = float(str(epochs[0]["time"]))
    last = float(str(epochs[-1]["time"]))
    held = [size for at, size in watch.seen if second <= at <= last]
    return {"end": held[-1] / MEGABYTE, "growth": (max(held) - held[0]) / MEGABYTE}


if __name__ == "__main__":
    main()
