"""A wrong option is named with its function, its value and what would be right."""

from collections.abc import Callable

import pytest

from tests.app.transforms.builders import call, make_column
from trainshed.functions import find
from trainshed.transforms import Batch, decode_image
from trainshed_api.errors import SpecError

ENCODED = make_column(b"")
WANT_SIZE = "must be a number of pixels or [height, width]"
Fault = tuple[Callable[..., Batch], Batch, dict[str, object], str]
FAULTS: dict[str, Fault] = {
    "a size in words": (decode_image, ENCODED, {"size": "8"}, f'size is "8", {WANT_SIZE}'),
    "three sides": (decode_image, ENCODED, {"size": [1, 2, 3]}, f"size is [1, 2, 3], {WANT_SIZE}"),
    "half a pixel": (decode_image, ENCODED, {"size": [8, 0.5]}, f"size is [8, 0.5], {WANT_SIZE}"),
    "a truth": (decode_image, ENCODED, {"size": True}, f"size is True, {WANT_SIZE}"),
    "no width": (
        decode_image,
        ENCODED,
        {"size": [8, 0]},
        "size is [8, 0], must be at least 1 pixel",
    ),
    "another way": (
        decode_image,
        ENCODED,
        {"size": 8, "resize": "stretch"},
        'resize is "stretch", known are squash, crop and pad',
    ),
    "a share that is too large": (
        decode_image,
        ENCODED,
        {"size": 8, "resize": "crop", "crop_share": 87.5},
        "crop_share is 87.5, must be a number from 0.01 to 1",
    ),
    "a share of nothing": (
        decode_image,
        ENCODED,
        {"size": 8, "crop_share": 0.5},
        'crop_share is 0.5, and resize "squash" cuts nothing off; leave it out, or say '
        "resize: crop",
    ),
    "neither true nor false": (
        decode_image,
        ENCODED,
        {"size": 8, "upright": "no"},
        'upright is "no", must be true or false',
    ),
}


@pytest.mark.parametrize(("function", "batch", "options", "want"), FAULTS.values(), ids=FAULTS)
def test_wrong_options_are_named(
    function: Callable[..., Batch], batch: Batch, options: dict[str, object], want: str
) -> None:
    with pytest.raises(ValueError, match=f"^{function.__name__}: ") as caught:
        call(function, batch, options)
    assert str(caught.value) == f"{function.__name__}: {want}"


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(SpecError) as caught:
        find("trainshed.transforms:decode_images", "spec.x")
    want = "it has: decode_image, normalize, "
    assert want in str(caught.value)
