"""Pictures for the report, as files."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from trainshed.storage.disk import Disk
from trainshed.worker.examples import keep_examples


def test_pictures_are_written_with_their_captions(tmp_path: Path) -> None:
    pictures = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
    keep_examples(
        Disk(tmp_path / "new"), "valid", pictures, ["is 3", "is 4, said 9"], [True, False]
    )

    entries = json.loads((tmp_path / "new" / "valid.json").read_text())
    assert entries == [
        {"image": "valid-0.png", "caption": "is 3", "good": True},
        {"image": "valid-1.png", "caption": "is 4, said 9", "good": False},
    ]
    with Image.open(tmp_path / "new" / "valid-1.png") as picture:
        assert (np.asarray(picture) == pictures[1]).all()


def test_colour_and_no_judgement(tmp_path: Path) -> None:
    keep_examples(Disk(tmp_path), "train", np.zeros((1, 4, 4, 3), np.uint8), ["black"])

    assert json.loads((tmp_path / "train.json").read_text()) == [
        {"image": "train-0.png", "caption": "black"}
    ]


def test_a_group_of_the_same_name_replaces_the_earlier_one(tmp_path: Path) -> None:
    keep_examples(Disk(tmp_path), "valid", np.zeros((3, 2, 2), np.uint8), ["a", "b", "c"])
    keep_examples(Disk(tmp_path), "valid", np.full((1, 2, 2), 9, np.uint8), ["d"])
    keep_examples(Disk(tmp_path), "other", np.zeros((1, 2, 2), np.uint8), ["e"])

    assert [entry["caption"] for entry in json.loads((tmp_path / "valid.json").read_text())] == [
        "d"
    ]
    assert sorted(file.name for file in tmp_path.glob("*.png")) == ["other-0.png", "valid-0.png"]
