"""Random parts of pictures, as torchvision draws them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.app.transforms.builders import apart, images, make_column, make_rng
from tests.builders_data import encode_jpeg, encode_png, make_photo
from trainshed.transforms import (
    Batch,
    decode_image,
    decode_random_resized_crop,
    random_erasing,
    random_resized_crop,
)
from trainshed.transforms.areas import draw_areas

ROWS = 2000


def test_parts_have_areas_and_ratios_of_the_ranges() -> None:
    areas = draw_areas("f", (0.2, 0.6), (0.5, 2.0), make_rng(range(ROWS)))
    boxes = [areas.box(row, 1000, 1000) for row in range(ROWS)]
    shares = np.array([box.width * box.height / 1e6 for box in boxes])
    ratios = np.log([box.width / box.height for box in boxes])
    assert 0.199 < shares.min() < 0.21
    assert 0.59 < shares.max() < 0.601
    assert abs(shares.mean() - 0.4) < 0.02  # evenly
    assert abs(ratios).max() < math.log(2) + 0.01
    assert abs(ratios.mean()) < 0.04  # evenly, of the logarithm
    assert min(box.left for box in boxes) < 10
    assert max(box.left + box.width for box in boxes) > 990


sides = st.integers(1, 60)
shares = st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)).map(sorted)
ratios = st.tuples(st.floats(0.01, 100), st.floats(0.01, 100)).map(sorted)


@settings(max_examples=200, deadline=None)
@given(sides, sides, shares, ratios, st.integers(0, 2**40))
def test_parts_lie_within_any_picture(
    height: int, width: int, scale: list[float], ratio: list[float], row: int
) -> None:
    areas = draw_areas("f", scale, ratio, make_rng([row]))
    box = areas.box(0, height, width)
    assert box.width >= 1
    assert box.height >= 1
    assert 0 <= box.left <= width - box.width
    assert 0 <= box.top <= height - box.height
    inside = areas.box_inside(0, height, width)
    assert inside is None or (inside.width < width and inside.height < height)


def test_where_no_part_fits_the_largest_in_the_middle_is_taken() -> None:
    areas = draw_areas("f", (1, 1), (0.75, 4 / 3), make_rng([0]))
    assert areas.box(0, 100, 100) == (0, 0, 100, 100)
    assert areas.box(0, 30, 100) == (30, 0, 40, 30)
    assert areas.box(0, 100, 30) == (0, 30, 30, 40)


def test_a_part_is_scaled_to_the_size() -> None:
    pictures = np.stack([make_photo(40, 50, seed=seed) for seed in range(6)])
    result = images(random_resized_crop, {"image": pictures}, size=[16, 24], rng=make_rng(range(6)))
    areas = draw_areas("f", (0.08, 1.0), (3 / 4, 4 / 3), make_rng(range(6)))
    assert result.shape == (6, 16, 24, 3)
    for row, picture in enumerate(pictures):
        left, top, width, height = areas.box(row, 40, 50)
        corners = (left, top, left + width, top + height)
        want = Image.fromarray(picture).resize((24, 16), Image.Resampling.BILINEAR, corners)
        assert apart(result[row], np.asarray(want)).max() <= 1


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_encoded_pictures_are_cut_as_decoded_ones(mode: str) -> None:
    photo = make_photo(48, 64)
    options: dict[str, object] = {"size": 40, "scale": (0.3, 0.9)}
    for encoded in (encode_png(photo), encode_jpeg(photo)):
        batch = make_column(*[encoded] * 8)
        decoded: Batch = {"image": images(decode_image, batch, size=(48, 64), mode=mode)}
        want = images(random_resized_crop, decoded, **options, rng=make_rng(range(8)))
        rng = make_rng(range(8))
        result = images(decode_random_resized_crop, batch, **options, mode=mode, rng=rng)
        assert (result == want).all()


def test_small_parts_of_a_large_jpeg_have_all_its_pixels() -> None:
    photo = make_photo(256, 256)
    batch = make_column(encode_jpeg(photo, subsampling="4:4:4"))
    options: dict[str, object] = {"size": 32, "scale": (0.0156, 0.0157), "ratio": (1, 1)}
    result = images(decode_random_resized_crop, batch, **options, rng=make_rng([3]))[0]
    left, top, width, height = map(
        int, draw_areas("f", (0.0156, 0.0157), (1, 1), make_rng([3])).box(0, 256, 256)
    )
    assert (width, height) == (32, 32)
    assert apart(result, photo[top : top + 32, left : left + 32]).mean() < 6


@pytest.mark.parametrize("shape", [(30, 40), (30, 40, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_erasing_wipes_one_rectangle_out(shape: tuple[int, ...], dtype: type[np.generic]) -> None:
    pictures = np.full((200, *shape), 100, dtype=dtype)
    rng = make_rng(range(200))
    result = random_erasing({"image": pictures}, value=7, rng=rng)["image"]
    assert result.dtype == dtype
    assert (pictures == 100).all()
    wiped = result.reshape(200, 30, 40, -1)[..., 0] == 7
    counts = wiped.sum(axis=(1, 2))
    assert (counts == wiped.any(axis=1).sum(axis=1) * wiped.any(axis=2).sum(axis=1)).all()
    assert 70 < (counts > 0).sum() < 130  # of each second picture
    assert counts[counts > 0].min() > 0.02 * 1200 - 20
    assert counts.max() < 0.33 * 1200 + 20


def test_a_rectangle_that_fits_nowhere_is_left_out() -> None:
    pictures = np.ones((1, 10, 10), np.uint8)
    options: dict[str, object] = {"probability": 1, "scale": (1, 1), "rng": make_rng([0])}
    assert random_erasing({"image": pictures}, **options)["image"].all()  # type: ignore[arg-type]


def test_an_erasure_is_high_where_torchvisions_is() -> None:
    pictures = np.ones((50, 60, 60), np.uint8)
    result = random_erasing(
        {"image": pictures}, probability=1, scale=(0.1, 0.1), ratio=(4, 4), rng=make_rng(range(50))
    )["image"]
    wiped = result == 0
    assert (wiped.any(axis=2).sum(axis=1) == 38).all()  # sqrt(360 * 4)
    assert (wiped.any(axis=1).sum(axis=1) == 9).all()  # sqrt(360 / 4)
