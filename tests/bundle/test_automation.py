"""The Airflow task of docs/automation.md acts on each exit code of `trainshed apply`."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.bundle.repository import ROOT
from tests.bundle.test_pages import blocks_of
from trainshed_api.names import EXIT_APPLICATION, EXIT_INVALID, EXIT_TRY_AGAIN


class TryAgainError(Exception):
    """Airflow's AirflowException."""


class NoMoreTriesError(Exception):
    """Airflow's AirflowFailException."""


def decorate(**_: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Stand for `@dag(...)` and `@task(...)`, which here leave a function as it is."""
    return lambda function: function


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """Return a function that runs the page's DAG, where `trainshed` ends with a code.

    It returns the words of the command.
    """
    modules: dict[str, dict[str, object]] = {
        "airflow": {},
        "airflow.exceptions": {
            "AirflowException": TryAgainError,
            "AirflowFailException": NoMoreTriesError,
        },
        "airflow.sdk": {"dag": decorate, "task": decorate},
        "pendulum": {"datetime": lambda *_: None},
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    [program] = blocks_of(ROOT / "docs" / "automation.md", "python")

    def run(code: int) -> list[str]:
        command = tmp_path / "trainshed"
        command.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {tmp_path}/words\nexit {code}\n')
        command.chmod(0o755)
        exec(program, {})
        return (tmp_path / "words").read_text().splitlines()

    return run


def test_a_day_is_a_run_of_its_own(train: Callable[[int], list[str]]) -> None:
    assert train(0) == [
        *("apply", "run.yaml", "-n", "trainshed"),
        *("--set", "metadata.name=digits-{{ ds }}"),
        *("--set", "spec.data.datasets.train.read.path=days/{{ ds }}"),
    ]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (EXIT_TRY_AGAIN, TryAgainError),
        (EXIT_APPLICATION, NoMoreTriesError),
        (EXIT_INVALID, NoMoreTriesError),
    ],
)
def test_only_a_failure_of_the_infrastructure_is_tried_again(
    train: Callable[[int], list[str]], code: int, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        train(code)
