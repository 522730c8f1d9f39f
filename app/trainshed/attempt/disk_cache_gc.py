"""Rows that runs keep on their storage (`cache: disk`): those that nobody goes on with may go."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.attempt import resume
from trainshed.storage.run_folder import RESULT, ROWS, ROWS_LIST
from trainshed_api.names import SUCCEEDED
from trainshed_api.records import ResultRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from trainshed.planning.preflight import Prepared
    from trainshed.storage.folder import Folder
    from trainshed.storage.run_folder import RunFolder


def kept_rows(run: RunFolder, before: float = math.inf) -> list[Folder]:
    """Return the rows of each dataset that each attempt of a run, or each before one, kept."""
    parents = (run.attempt(number) / ROWS for number in run.attempts() if number < before)
    return [parent / name for parent in parents for name in parent.names()]


def rows_before(prepared: Prepared, number: int) -> list[Folder]:
    """Return the cached rows of the attempts that attempt `number` resumes, the last one first."""
    earlier = reversed(resume.ancestors_of(prepared, number))
    return [prepared.folder.attempt(each) / ROWS for each in earlier]


def unneeded_rows(run: RunFolder) -> list[Folder]:
    """Return cached rows that no attempt can use: the run is over, or has no checkpoint."""
    going_on = resume.ancestors(run, "latest", None)
    if _succeeded(run) or not any(run.checkpoints(number).names() for number in going_on):
        return kept_rows(run)
    return kept_rows(run, going_on[0])


def delete_rows(run: RunFolder) -> str | None:
    """Delete all rows that a run kept; return why some are still there."""
    return _deleted(run, lambda: kept_rows(run))


def delete_left_rows(
    run: RunFolder, number: int, before: Sequence[Folder], made_whole: Collection[str] = ()
) -> str | None:
    """Delete what earlier attempts kept and an attempt does not go on with.

    Args:
        run: its folder.
        number: of the attempt.
        before: the rows with which it goes on.
        made_whole: datasets whose rows are of use only if an attempt kept all of them.

    Returns:
        Why some are still there.
    """

    def left() -> list[Folder]:
        # A superseded driver that has not noticed yet could delete rows that the next one uses.
        if number != max(run.attempts()):
            return []
        kept = {str(folder) for folder in before}
        return [
            parent / name
            for parent in (run.attempt(each) / ROWS for each in run.attempts() if each < number)
            for name in parent.names()
            if str(parent) not in kept
            or (name in made_whole and (parent / name).stat(ROWS_LIST) is None)
        ]

    return _deleted(run, left)


def _deleted(run: RunFolder, found: Callable[[], Sequence[Folder]]) -> str | None:
    try:
        for folder in found():
            folder.remove(first=ROWS_LIST)
    except OSError as error:
        return f"old rows of cache: disk could not be deleted from {run.at}: {error}"
    return None


def _succeeded(run: RunFolder) -> bool:
    try:
        result = ResultRecord.model_validate_json(run.at.read(RESULT))
    except (OSError, ValidationError):
        return False
    return result.outcome == SUCCEEDED and result.attempt == run.attempts()[-1]
