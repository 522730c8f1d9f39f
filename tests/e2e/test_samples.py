"""Samples as they are, on two workers of a Ray of their own: half a minute of two cores each.

`make test` has them on one worker (tests/app/test_samples.py).
"""

from pathlib import Path

import pytest

from tests.app.ray_run import ROOT, Output, trainshed
from tests.builders_data import write_pictures
from trainshed_api.names import EXIT_SUCCEEDED
from trainshed_api.progress import Evaluated

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def train_sample(home: Path, name: str, *words: str) -> Output:
    """Train a sample on data under `home`."""
    sample = str(ROOT / "manifests" / "samples" / f"{name}.yaml")
    output = trainshed("run", sample, *words, environment={"TRAINSHED_HOME": str(home)})
    assert output.code == EXIT_SUCCEEDED, output.stderr
    return output


def test_the_vit_trains_on_encoded_pictures_with_augmentation(tmp_path: Path) -> None:
    for part, rows in (("train", 600), ("test", 200)):
        write_pictures(tmp_path / "cifar10" / part, rows=rows, files=3, seed=rows)
    output = train_sample(tmp_path, "vit-cifar", "--cpu")

    losses = [e.metrics["valid.loss"] or 0 for e in output.events if isinstance(e, Evaluated)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
