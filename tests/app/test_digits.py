import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.app.cli_here import trainshed_here
from tests.app.ray_run import ROOT
from trainshed.digits import write_digits
from trainshed.storage.disk import Disk
from trainshed.transforms import decode_image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    assert write_digits(Disk(folder)) == {"train": 1437, "test": 360}
    return folder / "digits"


def read_content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.parquet")}


def test_training_rows_lie_in_four_files_of_equal_size(folder: Path) -> None:
    rows = [pq.read_metadata(file).num_rows for file in sorted((folder / "train").iterdir())]
    assert rows == [360, 359, 359, 359]


def test_every_digit_is_held_out_in_the_same_share(folder: Path) -> None:
    labels = {part: pq.read_table(folder / part)["label"].to_numpy() for part in ("train", "test")}
    share = np.bincount(labels["test"]) / (
        np.bincount(labels["train"]) + np.bincount(labels["test"])
    )
    assert share == pytest.approx(np.full(10, 360 / 1797), abs=0.005)
    # Mixed, so that the first held-out pictures show more than one digit.
    assert len(set(labels["test"][:16].tolist())) > 5


def test_pictures_are_the_digits_in_full_contrast_and_none_is_in_both_parts(folder: Path) -> None:
    parts = {}
    for part in ("train", "test"):
        encoded = pq.read_table(folder / part)["image"].to_numpy()
        parts[part] = decode_image({"image": encoded}, size=8, mode="L")["image"]
    assert parts["train"].shape == (1437, 8, 8)
    assert (parts["train"].min(), parts["train"].max()) == (0, 255)
    seen = {picture.tobytes() for picture in parts["train"]}
    assert not [picture for picture in parts["test"] if picture.tobytes() in seen]


def test_writing_again_changes_nothing_and_elsewhere_gives_the_same(
    folder: Path, tmp_path: Path
) -> None:
    stamps = {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")}
    write_digits(Disk(folder.parent))
    write_digits(Disk(tmp_path / "new"))
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")} == stamps
    assert read_content(tmp_path / "new" / "digits") == read_content(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["digits"]


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "digits" / "train").mkdir(parents=True)
    (tmp_path / "digits" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"digits holds .*: remove it or choose another folder"):
        write_digits(Disk(tmp_path))
    assert (tmp_path / "digits" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("command", [["sample", "digits"], ["digits"]])
def test_a_sample_dataset_is_written_where_a_manifest_reads_it(
    command: list[str], tmp_path: Path
) -> None:
    said = trainshed_here("data", *command, "--to", str(tmp_path))

    assert said.code == 0, said.stderr
    assert f"{tmp_path}/digits/train: 1437 rows" in said.stdout
    assert len(list((tmp_path / "digits" / "train").iterdir())) == 4


def test_the_command_that_writes_a_missing_sample_is_named(tmp_path: Path) -> None:
    file = tmp_path / "trainingrun.yaml"
    shutil.copy(ROOT / "manifests" / "trainingrun.yaml", file)

    said = trainshed_here("validate", str(file))

    assert said.code == 2
    assert (
        "spec.data.datasets.train.read.path: got digits/train; expected a sample dataset that "
        f"exists. Write it: trainshed data sample digits --to {tmp_path}"
    ) in said.stderr
    assert trainshed_here("data", "sample", "digits", "--to", str(tmp_path)).code == 0
    assert trainshed_here("validate", str(file)).code == 0
