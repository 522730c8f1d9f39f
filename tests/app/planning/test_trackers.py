"""Trackers are checked and explained before a run starts."""

import sys

import pytest
from pydantic import JsonValue

from trainshed.planning.trackers import check_trackers, say_trackers
from trainshed_api.errors import SpecError
from trainshed_api.tracking import TrackingSpec

ALL: dict[str, JsonValue] = {
    "tensorboard": {},
    "mlflow": {"experiment": "digits"},
    "wandb": {"project": "digits"},
}


def refused(monkeypatch: pytest.MonkeyPatch, uri: str | None, spec: dict[str, JsonValue]) -> str:
    monkeypatch.setitem(sys.modules, "wandb", None)
    if uri is None:
        monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    else:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(SpecError) as error:
        check_trackers(TrackingSpec.model_validate(spec))
    return str(error.value)


def test_what_a_tracker_needs_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    field = "MLFLOW_TRACKING_URI, because spec.tracking.mlflow has no trackingUri"
    assert refused(monkeypatch, None, {"mlflow": {}}).startswith(
        f'{field}: got ""; expected an address such as http://mlflow:5000. Set '
    )
    assert refused(monkeypatch, "http://me:hidden@mlflow", {"mlflow": {}}).startswith(
        f"{field}: got an address with a user or a password; expected an address such as "
    )
    assert refused(monkeypatch, None, {"wandb": {}}).startswith(
        "spec.tracking.wandb: got a tracker without its package; expected it with the package "
        "wandb installed: pip install 'trainshed[wandb]'"
    )


def test_a_run_says_where_it_is_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow:5000")

    assert list(say_trackers(TrackingSpec.model_validate(ALL), "/runs/local/digits")) == [
        "TensorBoard, event files in /runs/local/digits/tensorboard",
        "MLflow, experiment digits at http://mlflow:5000",
        "Weights & Biases, project digits",
    ]
    assert list(say_trackers(TrackingSpec(), "/runs")) == []
