"""Submission ids: <name>-<first 8 digits of the spec hash>-<n>. Pure.

Ray remembers ids for as long as the cluster lives and runs none twice, so each try has its own n.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainshed.jobs.jobs_api import Job

HASH_DIGITS = 8


def choose_id(name: str, spec_hash: str, jobs: Iterable[Job]) -> tuple[str, bool]:
    """Return the id to follow or to submit, and whether its job is there already.

    Args:
        name: of the run.
        spec_hash: of the run.
        jobs: all that the cluster knows.
    """
    prefix = f"{name}-{spec_hash[:HASH_DIGITS]}-"
    tries = {
        int(number): job
        for job in jobs
        if job.id.startswith(prefix) and (number := job.id.removeprefix(prefix)).isdecimal()
    }
    last = max(tries, default=0)
    if last and not tries[last].is_over:
        return tries[last].id, True
    return f"{prefix}{last + 1}", False
