"""MLflow: a run of a tracking server, by its REST API, which needs no package.

https://mlflow.org/docs/latest/rest-api.html
"""

from __future__ import annotations

import base64
import json
import os
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import quote

from pydantic import BaseModel

from trainshed_api.names import FAILED, SUCCEEDED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from trainshed.tracking.tracker import Point, TrackedRun
    from trainshed_api.names import Outcome
    from trainshed_api.tracking import MLflowSpec

ENV_URI = "MLFLOW_TRACKING_URI"
SECONDS_FOR_AN_ANSWER = 10.0
# By which an attempt finds the run of the attempts before it.
TAG = "trainshed.id"
# Limits of the server for one request, and of its oldest releases for the value of a parameter.
MOST_ITEMS, MOST_CHARACTERS = 100, 500


class _Named(BaseModel):
    key: str
    step: int = 0


class _Data(BaseModel):
    metrics: list[_Named] = []
    params: list[_Named] = []


class _Info(BaseModel):
    run_id: str


class _Run(BaseModel):
    info: _Info
    data: _Data = _Data()


class _Experiment(BaseModel):
    experiment_id: str


class _Answer(BaseModel):
    """What is read of any answer."""

    experiment: _Experiment | None = None
    experiment_id: str = ""
    run: _Run | None = None
    runs: list[_Run] = []


class MLflow:
    """Logs to one run of a tracking server."""

    name = "MLflow"

    def __init__(self, spec: MLflowSpec) -> None:
        self._server = (spec.tracking_uri or os.environ[ENV_URI]).rstrip("/")
        self._experiment = spec.experiment
        self._run_id = ""

    def begin(self, run: TrackedRun) -> Mapping[str, int]:
        """Create the run, or continue the one that has the tag; return its last steps."""
        experiment = self._experiment_id()
        wanted = {"experiment_ids": [experiment], "filter": f"tags.`{TAG}` = '{run.id}'"}
        found = self._post("runs/search", {**wanted, "max_results": 1}).runs
        if not found:
            new = {
                "experiment_id": experiment,
                "run_name": run.name,
                "start_time": _milliseconds(time.time()),
                "tags": _pairs({TAG: run.id}),
            }
            created = self._post("runs/create", new).run
            assert created, "an answer without the run"
            found = [created]
        self._run_id = found[0].info.run_id
        self._post("runs/update", {"run_id": self._run_id, "status": "RUNNING"})
        # The server refuses another value: a parameter is that of the first attempt.
        known = {parameter.key for parameter in found[0].data.params}
        self._log("params", _pairs({k: v for k, v in run.parameters.items() if k not in known}))
        self._log("tags", _pairs({**run.facts, "attempt": run.attempt}))
        return {metric.key: metric.step for metric in found[0].data.metrics}

    def log(self, points: Sequence[Point]) -> None:
        """Send metrics."""
        metrics: list[JsonValue] = []
        for point in points:
            at = {"timestamp": _milliseconds(point.time), "step": point.step}
            metrics += [{"key": name, "value": v, **at} for name, v in point.values.items()]
        self._log("metrics", metrics)

    def end(self, outcome: Outcome, facts: Mapping[str, str]) -> None:
        """Send the result."""
        self._log("tags", _pairs({"outcome": outcome, **facts}))
        status = {SUCCEEDED: "FINISHED", FAILED: "FAILED"}.get(outcome, "KILLED")
        ended = {"status": status, "end_time": _milliseconds(time.time())}
        self._post("runs/update", {"run_id": self._run_id, **ended})

    def _experiment_id(self) -> str:
        try:
            name = quote(self._experiment, safe="")
            found = self._ask(f"experiments/get-by-name?experiment_name={name}").experiment
            assert found, "an answer without the experiment"
            return found.experiment_id
        except FileNotFoundError:
            return self._post("experiments/create", {"name": self._experiment}).experiment_id

    def _log(self, kind: str, items: Sequence[JsonValue]) -> None:
        for first in range(0, len(items), MOST_ITEMS):
            some = {"run_id": self._run_id, kind: items[first : first + MOST_ITEMS]}
            self._post("runs/log-batch", some)

    def _post(self, path: str, content: Mapping[str, object]) -> _Answer:
        return self._ask(path, json.dumps(content).encode())

    def _ask(self, path: str, content: bytes | None = None) -> _Answer:
        """Return the answer. Raises OSError with the words of the server."""
        request = urllib.request.Request(
            f"{self._server}/api/2.0/mlflow/{path}",
            data=content,
            headers={"Content-Type": "application/json", **_authorization()},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS_FOR_AN_ANSWER) as response:
                return _Answer.model_validate_json(response.read())
        except urllib.error.HTTPError as error:
            words = error.read(1000).decode(errors="replace")
            kind = FileNotFoundError if error.code == 404 else OSError  # noqa: PLR2004
            raise kind(f"{self._server}: {error}: {words}") from error


def _authorization() -> dict[str, str]:
    if token := os.environ.get("MLFLOW_TRACKING_TOKEN"):
        return {"Authorization": f"Bearer {token}"}
    if user := os.environ.get("MLFLOW_TRACKING_USERNAME"):
        password = os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
        encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
    return {}


def _pairs(values: Mapping[str, str | float]) -> list[JsonValue]:
    return [{"key": key, "value": str(value)[:MOST_CHARACTERS]} for key, value in values.items()]


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
