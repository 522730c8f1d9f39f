"""What a Ray job of a run is told."""

import json
from typing import TYPE_CHECKING

import pytest

from tests.builders import make_data, make_dataset, make_run
from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run, render_runtime_env
from trainshed_api.loading import load_text
from trainshed_api.names import ENV_SPEC, MAX_SPEC_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue


def test_a_job_is_told_the_run_and_has_time_for_its_checkpoint() -> None:
    run = make_run(gracePeriodSeconds=30)

    assert render_runtime_env(run, {"TRAINSHED_ATTEMPT": "2"}) == {
        "env_vars": {
            ENV_SPEC: encode_run(run),
            "RAY_JOB_STOP_WAIT_TIME_S": "45",
            "TRAINSHED_ATTEMPT": "2",
        }
    }


def test_code_is_ray_s_runtime_environment() -> None:
    code: JsonValue = {"workingDir": "https://host/code.zip", "pip": ["einops==0.8"]}

    rendered = render_runtime_env(make_run(code=code), {})

    assert rendered["working_dir"] == "https://host/code.zip"
    assert rendered["pip"] == ["einops==0.8"]


def test_code_in_a_bucket_is_the_driver_s_to_fetch() -> None:
    code: JsonValue = {"workingDir": "s3://bucket/code.zip", "pip": ["einops==0.8"]}

    rendered = render_runtime_env(make_run(code=code), {})

    assert "working_dir" not in rendered
    assert rendered["pip"] == ["einops==0.8"]


def test_the_run_in_a_job_is_the_run_that_was_sent() -> None:
    run = make_run(config={"name": "naïve", "rate": 1e-3}, env={"A": "1"})

    assert load_text(encode_run(run), "sent") == run


def test_a_run_that_does_not_fit_is_refused_with_its_size() -> None:
    run = make_run(config={"words": "ü" * (MAX_SPEC_BYTES // 2)})
    told = run.to_dict()
    assert isinstance(told["spec"], dict)
    del told["spec"]["accumulate"], told["spec"]["syncBatchNorm"]
    del told["spec"]["firstStepDeadlineSeconds"], told["spec"]["envFrom"]
    assert isinstance(told["spec"]["data"], dict)
    del told["spec"]["data"]["loaderProcesses"]
    assert isinstance(told["spec"]["checkpoint"], dict)
    del told["spec"]["checkpoint"]["allowMissing"]
    size = len(json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()) / 1024

    with pytest.raises(SpecError) as caught:
        encode_run(run)

    want = "at most 96 KiB with all defaults; put large values in a file"
    assert str(caught.value) == f"spec: got {size:.1f} KiB; expected {want}"


# Paths that every released image knows.
KNOWN_FIELDS = """
    activeDeadlineSeconds batchSize config env framework gracePeriodSeconds precision priority
    provisioningDeadlineSeconds reproducible seed stallDeadlineSeconds storage suspend train
    checkpoint.everyEpochs checkpoint.everySteps checkpoint.keep checkpoint.resume
    checkpoint.trustObjects code.pip data.cpus data.datasets data.loader data.placement
    failurePolicy.maxApplicationFailures failurePolicy.maxInfrastructureFailures
    failurePolicy.rules workers.count workers.group workers.resources.cpu workers.resources.gpu
"""


def paths_of(value: "JsonValue", at: str = "") -> "Iterator[str]":
    """Yield the path of each value that is no map, and of each map that is empty."""
    if not (isinstance(value, dict) and value):
        yield at
        return
    for name, each in value.items():
        yield from paths_of(each, f"{at}.{name}" if at else name)


def test_a_plain_run_is_told_to_any_released_image_in_fields_that_it_knows() -> None:
    told = json.loads(encode_run(make_run()))

    assert set(paths_of(told["spec"])) == set(KNOWN_FIELDS.split())


def test_what_a_release_added_is_not_told_to_an_older_image_while_it_says_nothing() -> None:
    later = {"accumulate": 2, "syncBatchNorm": True, "firstStepDeadlineSeconds": 7200}
    assert not set(later) & set(json.loads(encode_run(make_run()))["spec"])
    assert later.items() <= json.loads(encode_run(make_run(**later)))["spec"].items()

    secret: list[JsonValue] = [{"secretRef": {"name": "wandb"}}]
    using = make_run(cluster={"dedicated": {}}, envFrom=secret)
    assert json.loads(encode_run(using))["spec"]["envFrom"] == secret

    checkpoint = make_run(checkpoint={"allowMissing": ["average"]})
    assert "allowMissing" not in json.loads(encode_run(make_run()))["spec"]["checkpoint"]
    assert json.loads(encode_run(checkpoint))["spec"]["checkpoint"]["allowMissing"] == ["average"]

    plain, by_two = (
        json.loads(encode_run(make_run(data=make_data(loader="torch", loaderProcesses=number))))
        for number in (0, 2)
    )
    assert "loaderProcesses" not in plain["spec"]["data"]
    assert by_two["spec"]["data"]["loaderProcesses"] == 2

    chosen, none = (
        json.loads(encode_run(make_run(data=make_data(make_dataset(shuffle={"mode": mode})))))
        for mode in ("auto", "none")
    )
    assert "mode" not in chosen["spec"]["data"]["datasets"]["train"]["shuffle"]
    assert none["spec"]["data"]["datasets"]["train"]["shuffle"]["mode"] == "none"
