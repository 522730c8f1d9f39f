"""What an attempt logs to the trackers of its run, beside its events."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from trainshed.attempt import resume
from trainshed_api.redaction import is_secret, without_password
from trainshed_api.spechash import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from trainshed.attempt.monitor import AttemptMonitor
    from trainshed.planning.preflight import Prepared
    from trainshed.tracking.session import Tracking
    from trainshed_api.records import ResultRecord, RunRecord
    from trainshed_api.tracking import TrackingSpec

# Fields of the spec that are parameters of an experiment.
PARAMETERS = (
    *("train", "entrypoint", "framework", "epochs", "batchSize", "accumulate", "precision"),
    *("seed", "workers", "config"),
)


def begin_tracking(
    prepared: Prepared, spec: TrackingSpec, number: int, record: RunRecord
) -> Tracking:
    """Return the trackers of an attempt.

    Args:
        prepared: the run.
        spec: its trackers.
        number: of the attempt.
        record: of the run, as the attempt writes it.
    """
    from trainshed.tracking.session import Tracking, trackers_of
    from trainshed.tracking.tracker import TrackedRun, parameter_name

    first = min([*resume.ancestors_of(prepared, number), number])
    # A run that was deleted, or that started over, is another one under the same name.
    claim = prepared.folder.claimed(first)
    source = claim.nonce if claim and claim.nonce else str(prepared.folder.at)
    name = prepared.run.metadata.name
    parameters = {key: value for key, value in record.spec.items() if key in PARAMETERS}
    run = TrackedRun(
        id=f"{name}-{first}-{hashlib.sha256(source.encode()).hexdigest()[:12]}",
        name=name,
        folder=prepared.folder.at,
        first=first,
        attempt=number,
        parameters={parameter_name(path): each for path, each in _leaves(parameters)},
        facts=dict(_facts(prepared, record)),
    )
    return Tracking(list(trackers_of(spec)), run)


def track_end(driver: AttemptMonitor, result: ResultRecord) -> None:
    """Log how an attempt ended to the trackers of its run, and show their last warnings."""
    if driver.tracking is None:
        return
    kept = {"checkpoint": result.checkpoint, "best": result.best}
    facts = {
        "message": result.message,
        "report": result.report or "",
        "goodput": f"{result.goodput or 0.0:.3f}",
        **{name: record.path for name, record in kept.items() if record},
    }
    driver.tracking.end(result.outcome, facts, driver.ends_at)
    for message in driver.tracking.warnings():
        driver.warn(message)


def _facts(prepared: Prepared, record: RunRecord) -> Iterator[tuple[str, str]]:
    yield "folder", str(prepared.folder.at)
    yield "specHash", record.spec_hash
    if record.git:
        yield "git.commit", record.git.commit + (" (changed)" if record.git.dirty else "")
    code = canonical_json({**record.code})
    yield "code.sha256", hashlib.sha256(code.encode()).hexdigest()
    for name, data in record.data.items():
        yield f"data.{name}.fingerprint", data.fingerprint
    for name, version in record.versions.items():
        yield f"version.{name}", version


def _leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str | float]]:
    """Yield names and values below a path, without secrets; lists and empty maps as JSON."""
    if is_secret(path):
        return
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key)
    else:
        leaf = value if isinstance(value, str | int | float) else json.dumps(value)
        yield path, without_password(leaf) if isinstance(leaf, str) else leaf
