"""What of a picture is kept where its proportions are not those of the result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from tests.app.transforms.builders import apart, images, make_column
from tests.builders_data import encode_png, make_photo
from trainshed.transforms import decode_image

WIDE = make_photo(40, 100)
TALL = WIDE.swapaxes(0, 1)


def decoded(picture: NDArray[np.uint8], **options: object) -> NDArray[np.uint8]:
    result: NDArray[np.uint8] = images(decode_image, make_column(encode_png(picture)), **options)[0]
    return result


def test_height_and_width_may_differ() -> None:
    assert decoded(WIDE, size=[20, 30]).shape == (20, 30, 3)
    assert decoded(WIDE, size=(20, 30), mode="L").shape == (20, 30)
    assert (decoded(WIDE, size=[40, 100]) == WIDE).all()


def test_without_a_word_the_whole_picture_is_squashed() -> None:
    want = np.asarray(Image.fromarray(WIDE).resize((20, 20), Image.Resampling.BILINEAR))
    assert apart(decoded(WIDE, size=20), want).max() <= 1
    assert (decoded(WIDE, size=20, resize="squash") == decoded(WIDE, size=20)).all()


def test_crop_keeps_the_middle() -> None:
    assert (decoded(WIDE, size=40, resize="crop") == WIDE[:, 30:70]).all()
    assert (decoded(TALL, size=40, resize="crop") == TALL[30:70]).all()
    assert (decoded(WIDE, size=[20, 50], resize="crop") == decoded(WIDE, size=[20, 50])).all()


def test_crop_scales_the_shorter_side() -> None:
    want = np.asarray(
        Image.fromarray(WIDE).resize((50, 20), Image.Resampling.BILINEAR).crop((15, 0, 35, 20))
    )
    assert apart(decoded(WIDE, size=20, resize="crop"), want).max() <= 1


def test_a_share_of_the_crop_is_what_a_larger_size_has_in_its_middle() -> None:
    larger = decoded(WIDE, size=20, resize="crop")
    part = decoded(WIDE, size=16, resize="crop", crop_share=0.8)
    assert apart(part, larger[2:18, 2:18]).max() <= 1


def test_pad_keeps_all_and_adds_black() -> None:
    padded = decoded(WIDE, size=50, resize="pad")
    assert (padded[15:35] == decoded(WIDE, size=[20, 50])).all()
    assert not padded[:15].any()
    assert not padded[35:].any()
    upright = decoded(TALL, size=50, resize="pad")
    assert apart(upright, padded.swapaxes(0, 1)).max() <= 1
    assert not decoded(TALL, size=50, mode="L", resize="pad")[:, :15].any()


sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))


@settings(max_examples=100, deadline=None)
@given(sizes, sizes, st.sampled_from(["crop", "pad"]), st.floats(0.01, 1))
def test_any_shape_becomes_the_wanted_one(
    shape: tuple[int, int], size: tuple[int, int], how: str, share: float
) -> None:
    white = np.full((*shape, 3), 255, np.uint8)
    options: dict[str, object] = {"size": size, "resize": how}
    if how == "crop":
        picture = decoded(white, **options, crop_share=share)
        assert (picture == 255).all()
    else:
        picture = decoded(white, **options)
        is_white = (picture == 255).all(axis=2)
        # All rows with white are alike, and one side at least is full.
        assert is_white.sum() == is_white.any(axis=1).sum() * is_white.any(axis=0).sum()
        assert is_white.any(axis=1).all() or is_white.any(axis=0).all()
    assert picture.shape == (*size, 3)


@pytest.mark.parametrize("how", ["crop", "pad"])
def test_a_square_is_the_same_in_each_way(how: str) -> None:
    square = WIDE[:, :40]
    assert (decoded(square, size=24, resize=how) == decoded(square, size=24)).all()
