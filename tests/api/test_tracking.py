"""The trackers of a run: no secret in the file, and no other hash for a run that has one."""

import pytest
from pydantic import JsonValue

from tests.builders import make_run
from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.spechash import spec_hash, training_hash

SERVER = "http://mlflow:5000"
REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "a key in the environment of the workers": (
        {"tracking": {"wandb": {}}, "env": {"WANDB_API_KEY": "hidden"}},
        "spec.env.WANDB_API_KEY: got a secret; expected no secret in a TrainingRun. Set the "
        "variable where the run starts, or in a cluster by a Secret that ray.envFrom of the chart "
        "names",
    ),
    "a password in the address": (
        {"tracking": {"mlflow": {"trackingUri": "http://me:hidden@mlflow:5000"}}},
        "spec.tracking.mlflow.trackingUri: got an address with a user or a password; expected an "
        "address such as http://mlflow:5000. Set MLFLOW_TRACKING_USERNAME and "
        "MLFLOW_TRACKING_PASSWORD in the environment",
    ),
    "a key as a field": ({"tracking": {"wandb": {"apiKey": "x"}}}, "spec.tracking.wandb.apiKey"),
    "a tracker that is not known": ({"tracking": {"comet": {}}}, "spec.tracking.comet"),
    "a field of TensorBoard": (
        {"tracking": {"tensorboard": {"logdir": "x"}}},
        "spec.tracking.tensorboard.logdir",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_secret_or_an_unknown_tracker_is_refused(case: str) -> None:
    spec, words = REFUSED[case]

    with pytest.raises(SpecError) as refused:
        make_run(**spec)

    assert words in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_key_is_accepted_without_a_tracker_as_earlier_releases_did() -> None:
    assert make_run(env={"WANDB_API_KEY": "x"}).spec.env


def test_trackers_make_no_other_run() -> None:
    plain = make_run()
    tracked = make_run(tracking={"tensorboard": {}, "mlflow": {"trackingUri": SERVER}})

    assert spec_hash(tracked.spec) == spec_hash(plain.spec)
    assert training_hash(tracked.spec) == training_hash(plain.spec)


def test_a_run_without_trackers_is_told_to_older_images_without_the_field() -> None:
    assert "tracking" not in encode_run(make_run())
