"""The sentence of a message that states the cause."""

import pytest

from trainshed_api.status import first_sentence

NO_ENVIRONMENT = "runtime_env setup failed: Failed to set up runtime environment."


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("KeyError: 'label'\nTraceback (most recent call last):", "KeyError: 'label'"),
        ("the last available logs of the driver:\n  a\n  KeyError: 'label'\n", "KeyError: 'label'"),
        (
            f"{NO_ENVIRONMENT}\nTraceback\n  ERROR: no timm",
            "runtime_env setup failed: ERROR: no timm",
        ),
        (f"{NO_ENVIRONMENT}\n", NO_ENVIRONMENT),
        ("\n", ""),
    ],
)
def test_the_line_that_states_the_cause_is_told(message: str, sentence: str) -> None:
    assert first_sentence(message) == sentence
