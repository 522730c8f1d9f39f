"""A wrong option is named with its function, its value and what would be right."""

import inspect
from collections.abc import Callable

import numpy as np
import pytest

import trainshed.transforms
from tests.app.transforms.builders import call, make_column, make_rng
from tests.bundle.repository import ROOT
from trainshed.functions import find
from trainshed.transforms import (
    Batch,
    color_jitter,
    decode_image,
    random_erasing,
    random_flip,
    random_gray,
    random_resized_crop,
)
from trainshed_api.errors import SpecError

COLOUR: Batch = {"image": np.zeros((2, 8, 8, 3), np.uint8)}
GREY: Batch = {"image": np.zeros((2, 8, 8), np.uint8)}
FLOATS: Batch = {"image": np.zeros((2, 8, 8, 3), np.float32)}
ENCODED = make_column(b"")
IS_NO_PIXELS = (
    'column "image" holds float32 of the shape (2, 8, 8, 3), must hold bytes (uint8) of 3 channels '
    "or none; put it before normalize"
)
WANT_SIZE = "must be a number of pixels or [height, width]"
Fault = tuple[Callable[..., Batch], Batch, dict[str, object], str]
FAULTS: dict[str, Fault] = {
    "a size in words": (decode_image, ENCODED, {"size": "8"}, f'size is "8", {WANT_SIZE}'),
    "half a pixel": (decode_image, ENCODED, {"size": [8, 0.5]}, f"size is [8, 0.5], {WANT_SIZE}"),
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
    "no range": (
        random_resized_crop,
        COLOUR,
        {"size": 8, "scale": 0.5},
        "scale is 0.5, must be two numbers larger than 0 and at most 1, the smaller one first",
    ),
    "the larger one first": (
        random_resized_crop,
        COLOUR,
        {"size": 8, "ratio": [2, 1]},
        "ratio is [2, 1], must be two numbers larger than 0, the smaller one first",
    ),
    "more than the picture": (
        random_erasing,
        COLOUR,
        {"scale": (0.1, 1.1)},
        "scale is [0.1, 1.1], must be two numbers larger than 0 and at most 1, the smaller one "
        "first",
    ),
    "no byte": (
        random_erasing,
        COLOUR,
        {"value": 256},
        "value is 256, must be a number from 0 to 255",
    ),
    "a percentage": (
        random_flip,
        COLOUR,
        {"horizontal": 50},
        "horizontal is 50, must be a number from 0 to 1",
    ),
    "below nothing": (
        color_jitter,
        COLOUR,
        {"contrast": -0.1},
        "contrast is -0.1, must be a number, 0 or more",
    ),
    "not a number": (
        color_jitter,
        COLOUR,
        {"brightness": float("nan")},
        "brightness is nan, must be a number, 0 or more",
    ),
    "more than around": (
        color_jitter,
        COLOUR,
        {"hue": 0.6},
        "hue is 0.6, must be a number from 0 to 0.5",
    ),
    "colours of grey": (
        color_jitter,
        GREY,
        {"saturation": 0.4},
        'saturation is 0.4, must be 0: column "image" holds grey pictures',
    ),
    "hue of grey": (
        color_jitter,
        GREY,
        {"hue": 0.1},
        'hue is 0.1, must be 0: column "image" holds grey pictures',
    ),
    "grey already": (random_gray, GREY, {}, 'column "image" holds grey pictures; leave it out'),
    "crop of floats": (random_resized_crop, FLOATS, {"size": 8}, IS_NO_PIXELS),
    "jitter of floats": (color_jitter, FLOATS, {"hue": 0.1}, IS_NO_PIXELS),
    "grey of floats": (random_gray, FLOATS, {}, IS_NO_PIXELS),
}


@pytest.mark.parametrize(("function", "batch", "options", "want"), FAULTS.values(), ids=FAULTS)
def test_wrong_options_are_named(
    function: Callable[..., Batch], batch: Batch, options: dict[str, object], want: str
) -> None:
    if function is not decode_image:
        options = options | {"rng": make_rng(range(len(batch["image"])))}
    with pytest.raises(ValueError, match=f"^{function.__name__}: ") as caught:
        call(function, batch, options)
    assert str(caught.value) == f"{function.__name__}: {want}"


def test_a_name_that_is_not_there_is_answered_with_those_that_are() -> None:
    with pytest.raises(SpecError) as caught:
        find("trainshed.transforms:decode_images", "spec.x")
    want = "it has: color_jitter, decode_image, decode_random_resized_crop, normalize, "
    assert want in str(caught.value)


@pytest.mark.parametrize("name", [n for n in trainshed.transforms.__all__ if n != "Batch"])
def test_every_option_has_its_place_in_the_documentation(name: str) -> None:
    pages = [ROOT / "docs" / page for page in ("pictures.md", "data/transform.md")]
    texts = [page.read_text("utf-8") for page in pages]
    rows = [row for text in texts for row in text.splitlines()]
    (row,) = (row for row in rows if row.startswith(f"| `{name}` |"))
    options = list(inspect.signature(getattr(trainshed.transforms, name)).parameters)[1:]
    said = [option for option in options if option not in ("column", "rng")]
    assert [
        option for option in said if f"`{option}`" not in row and f"`{option}:" not in row
    ] == []
