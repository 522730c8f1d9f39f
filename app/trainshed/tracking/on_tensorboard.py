"""TensorBoard: event files in the folder `tensorboard` of the run, one for each attempt."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.tracking.tracker import Point, TrackedRun
    from trainshed_api.names import Outcome

FOLDER = "tensorboard"
# A bucket gets the whole file again.
SECONDS_BETWEEN_UPLOADS = 30.0


class TensorBoard:
    """Writes event files; TensorBoard shows those of all attempts as one run."""

    name = "TensorBoard"

    def begin(self, run: TrackedRun) -> Mapping[str, int]:
        """Begin a file; TensorBoard drops later steps of the files before, to see them again."""
        self._folder = run.folder / FOLDER / str(run.first)
        self._scratch = self._folder.path or Path(tempfile.mkdtemp(prefix="trainshed-tensorboard-"))
        self._scratch.mkdir(parents=True, exist_ok=True)
        # Names sort by second; the suffix tells attempts of one second apart.
        self._writer = EventsWriter(str(self._scratch / "events"), f".{run.attempt}")
        self._uploaded, self._step = time.monotonic(), run.step
        start = SessionLog(status=SessionLog.START)
        self._write(time.time(), run.step + 1 if run.step else 0, session_log=start)
        for title, told in (("parameters", run.parameters), ("run", run.facts)):
            self._write_table(title, told)
        self._writer.flush()
        return {}

    def log(self, points: Sequence[Point]) -> None:
        """Write metrics."""
        for point in points:
            for name, value in point.values.items():
                self._write(point.time, point.step, summary=scalar(name, value))
            self._step = point.step
        self._writer.flush()
        if time.monotonic() - self._uploaded >= SECONDS_BETWEEN_UPLOADS:
            self._upload()

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        """Write the result."""
        self._write_table("result", {"outcome": outcome, **facts})
        self._writer.close()
        self._upload()
        if not self._folder.path:
            shutil.rmtree(self._scratch)

    def _write(self, at: float, step: int, **content: object) -> None:
        self._writer.write_event(Event(wall_time=at, step=step, **content))

    def _write_table(self, title: str, told: Mapping[str, str | float]) -> None:
        rows = "".join(f"| {name} | {value} |\n" for name, value in told.items())
        table = text(title, f"| name | value |\n|---|---|\n{rows}")
        self._write(time.time(), self._step, summary=table)

    def _upload(self) -> None:
        self._uploaded = time.monotonic()
        if not self._folder.path:
            for file in self._scratch.iterdir():
                self._folder.write(file.name, file.read_bytes())
