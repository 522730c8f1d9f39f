"""What `trainshed predict --workers` prints while it waits and works."""

import threading

import pytest

from trainshed.cli.predict_on_ray import ProgressLines
from trainshed.predict.ray_prediction import PredictionProgress


class Waiting(ProgressLines):
    """Says when it has printed what a worker needs."""

    def __init__(self, has_gpu: bool) -> None:
        super().__init__(has_gpu, first_seconds=0)
        self.is_printed = threading.Event()

    def _print_needs(self) -> None:
        super()._print_needs()
        self.is_printed.set()


@pytest.mark.parametrize(
    ("has_gpu", "want"), [(False, "needs 1 CPU that"), (True, "needs 1 CPU and 1 GPU that")]
)
def test_a_prediction_without_a_worker_says_what_each_needs(
    has_gpu: bool, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Waiting(has_gpu) as lines:
        assert lines.is_printed.wait(30)

    assert want in capsys.readouterr().err


def test_the_last_file_is_always_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines(has_gpu=False) as lines:
        lines(PredictionProgress(1, 2, 10))
        lines(PredictionProgress(2, 2, 20))

    assert capsys.readouterr().err == "2 of 2 files written, 20 rows predicted\n"
