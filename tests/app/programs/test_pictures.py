import numpy as np
import pytest
import torch

from trainshed.programs.images import SampleImages, to_model_input
from trainshed.programs.options import ImageOptions

GREY = ImageOptions.read({"imageSize": 2, "channels": 1})
COLOUR = ImageOptions.read({"imageSize": 2})


def test_bytes_become_floats_from_minus_one_to_one() -> None:
    images = torch.tensor([[[0, 255], [255, 0]]], dtype=torch.uint8)
    assert to_model_input(images, GREY).tolist() == [[[[-1.0, 1.0], [1.0, -1.0]]]]


def test_channels_come_before_height_and_width() -> None:
    images = torch.arange(24, dtype=torch.float32).view(2, 2, 2, 3)
    result = to_model_input(images, COLOUR)
    assert result.shape == (2, 3, 2, 2)
    assert result[1, 2, 0, 1] == images[1, 0, 1, 2]


def test_no_rows_are_fine() -> None:
    assert to_model_input(torch.zeros(0, 2, 2, dtype=torch.uint8), GREY).shape == (0, 1, 2, 2)


def test_pictures_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"imageSize 2 and spec\.config\.channels 3 say") as caught:
        to_model_input(torch.zeros(4, 8, 8, dtype=torch.uint8), COLOUR)
    assert str(caught.value).startswith('column "image": pictures have the shape (8, 8, 1)')


def test_gallery_keeps_the_first_pictures_and_says_which_are_right() -> None:
    gallery = SampleImages(limit=3)
    for start in (0, 2):
        images = torch.full((2, 4, 4, 1), start, dtype=torch.uint8)
        gallery.add(images, torch.tensor([start, 1]), torch.tensor([start, 5]))

    assert gallery.images.shape == (3, 4, 4)
    assert gallery.captions == ["0 (predicted 0)", "1 (predicted 5)", "2 (predicted 2)"]
    assert gallery.good == [True, False, True]


def test_gallery_shows_floats_from_black_to_white() -> None:
    gallery = SampleImages()
    gallery.add(torch.tensor([[[-2.0, 2.0]]]), torch.tensor([0]), torch.tensor([0]))
    assert gallery.images.dtype == np.uint8
    assert gallery.images.tolist() == [[[0, 255]]]


def test_cleared_gallery_is_empty() -> None:
    gallery = SampleImages()
    gallery.add(torch.zeros(1, 4, 4), torch.tensor([0]), torch.tensor([0]))
    gallery.clear()
    assert (len(gallery.images), gallery.captions, gallery.good) == (0, [], [])
