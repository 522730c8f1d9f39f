"""A driver knows whether a controller started it, and then writes where that one looks."""

from pathlib import Path

import pytest

from trainshed.storage.disk import Disk
from trainshed.storage.driver_identity import Identity, folder_of, read_identity
from trainshed_api.errors import SpecError

RUNS = Disk(Path("/runs"))
SET = {
    "TRAINSHED_NAMESPACE": "team-a",
    "TRAINSHED_UID": "0d9f1c2e-aaaa-bbbb-cccc-1234567890ab",
    "TRAINSHED_ATTEMPT": "3",
}


def test_without_a_controller_runs_lie_by_their_name() -> None:
    assert read_identity({"PATH": "/bin"}) is None
    assert folder_of("digits", None, RUNS) == RUNS / "local" / "digits"


def test_a_controller_s_runs_lie_by_namespace_name_and_uid() -> None:
    identity = read_identity(SET)

    assert identity == Identity("team-a", SET["TRAINSHED_UID"], 3)
    assert folder_of("digits", identity, RUNS) == RUNS / "team-a" / "digits-0d9f1c2e"


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "without a uid": ({"TRAINSHED_UID": ""}, "TRAINSHED_UID: missing; set all three or none"),
    "no number": (
        {"TRAINSHED_ATTEMPT": "third"},
        'TRAINSHED_ATTEMPT: got "third"; expected a number from 1',
    ),
    "an attempt before the first": (
        {"TRAINSHED_ATTEMPT": "0"},
        'TRAINSHED_ATTEMPT: got "0"; expected a number from 1',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_half_an_identity_is_none(case: str) -> None:
    changes, want = WRONG[case]

    with pytest.raises(SpecError) as caught:
        read_identity({**SET, **changes})

    assert str(caught.value) == want
