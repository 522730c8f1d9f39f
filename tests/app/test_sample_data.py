"""Samples are the same each time, and the manifests read them."""

from pathlib import Path

import pytest

from tests.app.cli_here import trainshed_here
from tests.bundle.repository import ROOT
from trainshed.planning.paths import SAMPLES
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.sample_data import WRITERS, write_sample
from trainshed.storage.disk import Disk
from trainshed_api.loading import load_file
from trainshed_api.v1alpha1 import TrainingRunResource


def samples_of(run: TrainingRunResource) -> set[str]:
    """Return the first folders of the paths that a run reads."""
    reads = [dataset.read for dataset in run.spec.data.datasets.values()]
    return {read.path.partition("/")[0] for read in reads if read.path}


RUNS = {
    path.stem: load_file(path) for path in sorted((ROOT / "manifests").glob("samples/**/*.yaml"))
}
READING = [name for name, run in RUNS.items() if (found := samples_of(run)) and found <= {*WRITERS}]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all samples."""
    home = tmp_path_factory.mktemp("samples")
    for name in WRITERS:
        write_sample(name, Disk(home))
    return home


@pytest.mark.parametrize("name", READING)
def test_a_manifest_is_valid_with_the_samples_that_it_reads(home: Path, name: str) -> None:
    run = RUNS[name]

    prepared = prepare(run, RunLocation(Disk(home)))

    assert prepared.plans.keys() == run.spec.data.datasets.keys()


def test_nearly_all_manifests_read_samples() -> None:
    assert len(READING) >= 20
    assert set(SAMPLES) == {"digits", *WRITERS}


def test_a_sample_is_the_same_each_time(home: Path, tmp_path: Path) -> None:
    for name in WRITERS:
        for file in write_sample(name, Disk(tmp_path)):
            assert (tmp_path / name / file).read_bytes() == (home / name / file).read_bytes()


def test_what_is_there_already_is_left_alone(tmp_path: Path) -> None:
    assert trainshed_here("data", "sample", "vectors", "--to", str(tmp_path)).code == 0

    again = trainshed_here("data", "sample", "vectors", "--to", str(tmp_path))

    assert again.code == 2
    assert f"{tmp_path}/vectors exists: remove it or choose another folder" in again.stderr
