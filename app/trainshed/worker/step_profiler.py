"""Records steps of a run with torch.profiler, as `spec.profile` says.

Imported by runs that have that field only: the profiler takes a second to import.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from torch.profiler import ProfilerAction, profile

from trainshed.storage.run_folder import TRACES

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainshed.storage.folder import Folder
    from trainshed_api.profile import ProfileSpec


class StepProfiler:
    """Writes a trace of some steps of this process to an attempt's folder.

    Args:
        spec: which steps; the first step of the run is 1.
        attempt: its folder.
        warn: says something to the user.
    """

    def __init__(self, spec: ProfileSpec, attempt: Folder, warn: Callable[[str], None]) -> None:
        self._first, self._last = spec.steps
        self._attempt = attempt
        self._warn = warn
        self._began: int | None = None
        self._profile: profile | None = None

    def begin_step(self, step: int) -> None:
        """Begin to record if this step, which comes next, is the first of those that are left."""
        if self._began is not None or not self._first <= step <= self._last:
            return
        self._began = step
        # With a schedule the trace has a mark for each step, with its number.
        self._profile = profile(schedule=lambda _: ProfilerAction.RECORD)
        self._profile.step_num = step
        self._profile.start()

    def end_step(self, step: int) -> None:
        """Mark the end of a step, and write the trace after the last one."""
        if self._profile is None:
            self.begin_step(step + 1)
        elif step < self._last:
            self._profile.step()
        else:
            self._write(step)

    def finish(self, step: int, *, stopped: bool) -> None:
        """Write what is recorded so far, or warn that the run ended before the first of the steps.

        A run without steps of batches() is warned that it ignores the whole field.

        Args:
            step: the attempt's last one.
            stopped: whether another attempt may follow.
        """
        if self._profile is not None and self._began is not None and self._began <= step:
            self._write(step)
            return
        if self._profile is not None:
            self._profile.stop()
        if 0 < step < self._first and not stopped:
            self._warn(
                f"spec.profile.steps: got [{self._first}, {self._last}]; expected steps up to "
                f"{step}, where the run ended. Nothing was recorded"
            )

    def _write(self, step: int) -> None:
        assert self._profile is not None
        self._profile.stop()
        try:
            with tempfile.TemporaryDirectory() as folder:
                # The name makes it compressed.
                file = Path(folder, f"steps-{self._began}-{step}.json.gz")
                self._profile.export_chrome_trace(str(file))
                (self._attempt / TRACES).write(file.name, file.read_bytes())
        except OSError as error:
            self._warn(f"the trace of steps {self._began} to {step} is not written: {error}")
        self._profile = None
