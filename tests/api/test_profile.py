"""Steps to profile: two, in their order, of PyTorch; they make no other run."""

import pytest
from pydantic import JsonValue

from tests.builders import make_run
from trainshed_api.errors import SpecError
from trainshed_api.job import encode_run
from trainshed_api.spechash import spec_hash

EXPECTED = "expected the first step, then the last one, such as [10, 20]"
REFUSED: dict[str, tuple[dict[str, JsonValue], str]] = {
    "steps the wrong way round": ({"steps": [20, 10]}, f"got [20, 10]; {EXPECTED}"),
    "one step": ({"steps": [10]}, f"got [10]; {EXPECTED}"),
    "three steps": ({"steps": [1, 2, 3]}, f"got [1, 2, 3]; {EXPECTED}"),
    "a step before the first one": ({"steps": [0, 3]}, "spec.profile.steps[0]: got 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_refuses(case: str) -> None:
    profile, words = REFUSED[case]

    with pytest.raises(SpecError) as refused:
        make_run(profile=profile)

    assert words in str(refused.value)


@pytest.mark.parametrize("framework", ["xgboost", "tensorflow"])
def test_a_framework_without_steps_of_pytorch_refuses_it(framework: str) -> None:
    with pytest.raises(SpecError, match=r"spec.profile: .*torch.profiler records steps of PyTorch"):
        make_run(framework=framework, profile={"steps": [1, 2]})


def test_an_entrypoint_refuses_it() -> None:
    with pytest.raises(SpecError, match=r"spec.profile: .*no value without train"):
        make_run(entrypoint=["python", "x.py"], profile={"steps": [1, 2]})


def test_it_makes_no_other_run() -> None:
    assert spec_hash(make_run(profile={"steps": [1, 2]}).spec) == spec_hash(make_run().spec)


def test_a_run_without_it_is_told_to_older_images_without_the_field() -> None:
    assert "profile" not in encode_run(make_run())
