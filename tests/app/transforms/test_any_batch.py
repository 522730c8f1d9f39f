"""What is drawn for a row belongs to the row: not to its batch, nor to its place in it."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.transforms.builders import call, make_column, make_rng
from tests.builders_data import encode_jpeg, encode_png, make_photo
from trainshed.transforms import (
    Batch,
    color_jitter,
    decode_random_resized_crop,
    random_crop_flip,
    random_erasing,
    random_flip,
    random_gray,
    random_resized_crop,
)

ROWS = 10
PHOTOS = np.stack([make_photo(16, 20, shapes=5, seed=seed) for seed in range(ROWS)])
PIXELS: Batch = {"image": PHOTOS, "label": np.arange(ROWS)}
FILES: Batch = {
    "label": np.arange(ROWS),
    **make_column(*[(encode_jpeg if n % 2 else encode_png)(p) for n, p in enumerate(PHOTOS)]),
}
FUNCTIONS: dict[str, tuple[Callable[..., Batch], Batch, dict[str, object]]] = {
    "random_crop_flip": (random_crop_flip, PIXELS, {}),
    "random_resized_crop": (random_resized_crop, PIXELS, {"size": [9, 12]}),
    "decode_random_resized_crop": (decode_random_resized_crop, FILES, {"size": 9}),
    "random_flip": (random_flip, PIXELS, {"vertical": 0.5}),
    "color_jitter": (
        color_jitter,
        PIXELS,
        {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1},
    ),
    "random_gray": (random_gray, PIXELS, {"probability": 0.5}),
    "random_erasing": (random_erasing, PIXELS, {"value": 3}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=15, deadline=None)
@given(order=st.permutations(range(ROWS)), cuts=st.sets(st.integers(1, ROWS - 1)))
def test_a_row_is_augmented_alike_in_any_batch(name: str, order: list[int], cuts: set[int]) -> None:
    function, batch, options = FUNCTIONS[name]
    whole = call(function, batch, options | {"rng": make_rng(range(ROWS))})
    for rows in np.split(np.array(order), sorted(cuts)):
        part = {column: values[rows] for column, values in batch.items()}
        result = call(function, part, options | {"rng": make_rng(rows)})
        assert (result["image"] == whole["image"][rows]).all()
        assert (result["label"] == rows).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_augmented_differently_and_the_batch_stays(name: str) -> None:
    function, batch, options = FUNCTIONS[name]
    same = {column: np.repeat(values[:1], 40, axis=0) for column, values in batch.items()}
    before = {column: values.copy() for column, values in same.items()}
    result = call(function, same, options | {"rng": make_rng(range(40))})["image"]
    assert len(np.unique(result, axis=0)) > 1
    assert all((same[column] == before[column]).all() for column in same)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_rows_stay_no_rows(name: str) -> None:
    function, batch, options = FUNCTIONS[name]
    nothing = {column: values[:0] for column, values in batch.items()}
    assert len(call(function, nothing, options | {"rng": make_rng([])})["image"]) == 0


def test_flips_are_as_frequent_as_asked_for() -> None:
    pictures = np.broadcast_to(np.arange(6, dtype=np.float32).reshape(2, 3), (400, 2, 3))
    options: dict[str, object] = {"horizontal": 0.25, "vertical": 0.75}
    rng = make_rng(range(400))
    result = call(random_flip, {"image": pictures}, options | {"rng": rng})["image"]
    assert result.dtype == np.float32
    flipped = result.astype(np.float64)
    across = flipped[:, :, 0] > flipped[:, :, 2]
    down = flipped[:, 0] > flipped[:, 1]
    assert (across.all(axis=1) == across.any(axis=1)).all()
    assert abs(across[:, 0].mean() - 0.25) < 0.06
    assert abs(down[:, 0].mean() - 0.75) < 0.06
