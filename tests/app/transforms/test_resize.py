"""Parts of pictures at another size: the same whether cykooz-resizer is there or not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.transforms.builders import apart
from tests.builders_data import make_photo
from trainshed.transforms.resize import HAS_RESIZER, Box, resize, resize_by_pillow, resize_fast

sides = st.integers(1, 50)
share = st.floats(0, 1)


@pytest.mark.skipif(not HAS_RESIZER, reason="no cykooz-resizer on this machine")
@settings(max_examples=100, deadline=None)
@given(st.tuples(sides, sides), st.tuples(sides, sides), st.tuples(share, share, share, share))
def test_both_ways_of_scaling_agree(
    shape: tuple[int, int], size: tuple[int, int], part: tuple[float, float, float, float]
) -> None:
    height, width = shape
    box = Box(
        part[0] * width * 0.9,
        part[1] * height * 0.9,
        width * (0.02 + 0.08 * part[2]) if part[2] < 0.5 else width * (1 - part[0] * 0.9),
        height * (0.02 + 0.08 * part[3]) if part[3] < 0.5 else height * (1 - part[1] * 0.9),
    )
    photo = make_photo(height, width, shapes=3)
    for pixels in (photo, photo[..., 0], photo.swapaxes(0, 1).copy().swapaxes(0, 1)):
        assert apart(resize_fast(pixels, box, size), resize_by_pillow(pixels, box, size)).max() <= 1


def test_whole_pixels_of_the_same_size_are_only_cut_out() -> None:
    photo = make_photo(20, 30)
    assert (resize(photo, Box(3, 2, 10, 5), (5, 10)) == photo[2:7, 3:13]).all()
    assert resize(photo, Box(0, 0, 30, 20), (20, 30)).base is not None
    assert np.abs(resize(photo, Box(3.5, 2, 10, 5), (5, 10)) - photo[2:7, 3:13]).any()


def test_what_rounding_puts_beyond_the_edge_is_left_out() -> None:
    photo = make_photo(20, 30)
    beyond = Box(-1e-12, 0, 30.0000001, 20.0000001)
    for way in (resize, resize_by_pillow):
        assert (
            apart(way(photo, beyond, (10, 15)), way(photo, Box(0, 0, 30, 20), (10, 15))).max() <= 1
        )
