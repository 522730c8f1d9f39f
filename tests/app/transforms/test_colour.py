"""Colours changed at random."""

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageEnhance

from tests.app.transforms.builders import apart, images, make_rng
from tests.builders_data import make_photo
from trainshed.transforms import color_jitter, random_gray

ROWS = 12
PHOTOS = np.stack([make_photo(20, 30, seed=seed) for seed in range(ROWS)])

# How torchvision changes a picture of Pillow's by each option.
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}
COLUMN = {"brightness": 0, "contrast": 1, "saturation": 2}


def factors(option: str, spread: float) -> NDArray[np.float64]:
    """Return what `color_jitter` draws for an option, from the same numbers."""
    drawn = make_rng(range(ROWS)).random((4,))[:, COLUMN[option]]
    low = max(1 - spread, 0)
    return low + drawn * (1 + spread - low)


@pytest.mark.parametrize("spread", [0.4, 1.5])
@pytest.mark.parametrize("option", ENHANCERS)
def test_each_change_is_that_of_pillow(option: str, spread: float) -> None:
    result = images(color_jitter, {"image": PHOTOS}, **{option: spread}, rng=make_rng(range(ROWS)))
    for picture, changed, factor in zip(PHOTOS, result, factors(option, spread), strict=True):
        want = np.asarray(ENHANCERS[option](Image.fromarray(picture)).enhance(factor))
        assert apart(changed, want).max() <= 2


def test_changes_follow_one_another() -> None:
    spreads = {"brightness": 0.4, "contrast": 0.3, "saturation": 0.5}
    result = images(color_jitter, {"image": PHOTOS}, **spreads, rng=make_rng(range(ROWS)))
    for row, picture in enumerate(PHOTOS):
        want = Image.fromarray(picture)
        for option, spread in spreads.items():
            want = ENHANCERS[option](want).enhance(factors(option, spread)[row])
        assert apart(result[row], np.asarray(want)).max() <= 4


def test_hue_moves_and_the_rest_stays() -> None:
    result = images(color_jitter, {"image": PHOTOS}, hue=0.5, rng=make_rng(range(ROWS)))
    assert apart(result.max(axis=-1), PHOTOS.max(axis=-1)).max() <= 1  # the value of HSV
    red = np.zeros((200, 1, 1, 3), np.uint8)
    red[..., 0] = 255
    turned = images(color_jitter, {"image": red}, hue=0.1, rng=make_rng(range(200)))[:, 0, 0]
    assert (turned[:, 0] == 255).all()  # a tenth of the circle from red is red with some yellow,
    assert (turned[:, 1] > 0).any()
    assert (turned[:, 2] > 0).any()  # or some violet
    assert turned[:, 1:].max() < 160


def test_nothing_asked_for_changes_nothing() -> None:
    before = PHOTOS.copy()
    result = images(color_jitter, {"image": PHOTOS}, rng=make_rng(range(ROWS)))
    assert (result == PHOTOS).all()
    color_jitter({"image": PHOTOS}, brightness=1, contrast=1, rng=make_rng(range(ROWS)))
    assert (before == PHOTOS).all()


def test_grey_pictures_get_brighter_and_flatter() -> None:
    grey = PHOTOS[..., 1]
    rng = make_rng(range(ROWS))
    result = images(color_jitter, {"image": grey}, brightness=0.2, contrast=0.2, rng=rng)
    three = np.repeat(grey[..., None], 3, axis=-1)
    rng = make_rng(range(ROWS))
    same = images(color_jitter, {"image": three}, brightness=0.2, contrast=0.2, rng=rng)
    assert apart(result, same[..., 0]).max() <= 1


def test_some_pictures_turn_grey_as_pillow_has_it() -> None:
    many = np.concatenate([PHOTOS] * 20)
    result = images(random_gray, {"image": many}, probability=0.3, rng=make_rng(range(len(many))))
    changed = (result != many).any(axis=(1, 2, 3))
    assert 0.2 < changed.mean() < 0.4
    for picture, grey in zip(many[changed][:5], result[changed][:5], strict=True):
        want = np.asarray(Image.fromarray(picture).convert("L"))
        assert (grey == want[..., None]).all()
