import io
import re
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.app.transforms.builders import make_column, make_rng
from tests.builders_data import encode_png, make_pictures
from trainshed.transforms import Batch, decode_image, normalize, random_crop_flip, rename


def make_encoded(pictures: NDArray[np.uint8]) -> Batch:
    """Return a batch of PNG bytes, as a reader of parquet hands them on."""
    column = np.empty(len(pictures), dtype=object)
    column[:] = [encode_png(picture) for picture in pictures]
    return {"image": column, "label": np.arange(len(pictures))}


# ------------------------------------------------------------------ decode_image


def test_png_comes_back_as_it_was() -> None:
    pictures, _ = make_pictures(5, size=8)
    batch = make_encoded(pictures)
    decoded = decode_image(batch, size=8)
    assert decoded["image"].dtype == np.uint8
    assert (decoded["image"] == pictures).all()
    assert decoded["label"] is batch["label"]
    assert batch["image"].dtype == object


SHAPES = {
    "colour": ("RGB", 8, (2, 8, 8, 3)),
    "grey": ("L", 8, (2, 8, 8)),
    "scaled up": ("RGB", 12, (2, 12, 12, 3)),
    "scaled down": ("L", 4, (2, 4, 4)),
}


@pytest.mark.parametrize(("mode", "size", "want"), SHAPES.values(), ids=SHAPES)
def test_decoded_shape(mode: str, size: int, want: tuple[int, ...]) -> None:
    pictures, _ = make_pictures(2, size=8)
    options: dict[str, object] = {"size": size, "mode": mode}
    assert _call(decode_image, make_encoded(pictures), options)["image"].shape == want


def test_grey_jpeg_in_a_struct_is_decoded() -> None:
    buffer = io.BytesIO()
    Image.fromarray(np.full((8, 8), 200, np.uint8)).save(buffer, format="JPEG")
    decoded = decode_image(
        make_column({"bytes": buffer.getvalue(), "path": None}), size=8, mode="L"
    )
    assert abs(int(decoded["image"][0, 4, 4]) - 200) <= 2


def test_no_rows_decode_to_no_pictures() -> None:
    assert decode_image(make_column(), size=8)["image"].shape == (0, 8, 8, 3)


GOOD = encode_png(np.zeros((4, 4), np.uint8))
UNREADABLE = {
    "text": (b"hello", "not a readable picture (5 bytes)"),
    "only the beginning": (GOOD[:40], "not a readable picture (40 bytes)"),
    "damaged in the middle": (
        GOOD[:45] + b"\xff" * 8 + GOOD[53:],
        f"not a readable picture ({len(GOOD)} bytes)",
    ),
    "nothing": (None, "not a readable picture (nothing): no encoded bytes"),
    "struct without bytes": ({"bytes": None, "path": "a.png"}, "(nothing): no encoded bytes"),
    "a path": ("a.png", "not a readable picture (str): no encoded bytes"),
}


@pytest.mark.parametrize(("value", "want"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_picture_is_named_by_its_row(value: object, want: str) -> None:
    start = r'^decode_image: row 2 of the batch, column "image": '
    with pytest.raises(ValueError, match=start) as caught:
        decode_image(make_column(GOOD, GOOD, value), size=4)
    assert want in str(caught.value)


# ------------------------------------------------------------------ random_crop_flip


@pytest.mark.parametrize("shape", [(6, 8, 8), (6, 8, 8, 3)])
def test_crop_keeps_shape_and_type_and_leaves_its_input(shape: tuple[int, ...]) -> None:
    pictures = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    before = pictures.copy()
    result = random_crop_flip({"image": pictures}, rng=make_rng(np.arange(6)))["image"]
    assert result.shape == shape
    assert result.dtype == np.uint8
    assert (pictures == before).all()


def test_each_result_is_a_cut_of_its_own_picture() -> None:
    pictures, _ = make_pictures(32, size=8)
    result = random_crop_flip({"image": pictures}, padding=2, rng=make_rng(np.arange(32)))["image"]
    for picture, cut in zip(pictures, result, strict=True):
        wide = np.pad(picture, ((2, 2), (2, 2), (0, 0)))
        cuts = [wide[top : top + 8, left : left + 8] for top in range(5) for left in range(5)]
        assert any((cut == c).all() or (cut == c[:, ::-1]).all() for c in cuts)


def test_pictures_move_and_turn_differently() -> None:
    same = np.broadcast_to(np.arange(64, dtype=np.uint8).reshape(8, 8), (40, 8, 8))
    result = random_crop_flip({"image": same}, padding=1, rng=make_rng(np.arange(40)))["image"]
    assert 10 < len(np.unique(result, axis=0)) <= 18


def test_without_margin_and_flip_nothing_changes() -> None:
    pictures, _ = make_pictures(3, size=8)
    rng = make_rng(np.arange(3))
    result = random_crop_flip({"image": pictures}, padding=0, flip=False, rng=rng)["image"]
    assert (result == pictures).all()


# ------------------------------------------------------------------ normalize, rename


@pytest.mark.parametrize("std", [1.0, 1e-30])
def test_normalize_refuses_what_would_be_infinite(std: float) -> None:
    value = 1e300 if std == 1 else 1e20
    with pytest.raises(ValueError, match=re.escape(f'normalize: got {value} in column "x"')):
        normalize({"x": np.array([0.0, value])}, column="x", mean=0, std=std)
    kept = normalize({"x": np.array([np.nan, np.inf])}, column="x", mean=0, std=std)["x"]
    assert np.isnan(kept[0])
    assert np.isposinf(kept[1])


def test_normalize_takes_one_number_or_one_a_channel() -> None:
    pictures = np.full((2, 4, 4, 3), 100, np.uint8)
    one = normalize({"image": pictures}, column="image", mean=50, std=25)["image"]
    each = normalize({"image": pictures}, column="image", mean=[100, 50, 0], std=[1, 2, 4])["image"]
    assert one.dtype == np.float32
    assert (one == 2).all()
    assert each[0, 0, 0].tolist() == [0, 25, 25]


def test_rename_swaps_and_keeps_order() -> None:
    batch: Batch = {"img": np.zeros(2), "label": np.ones(2)}
    assert list(rename(batch, columns={"img": "image"})) == ["image", "label"]
    assert list(rename(batch, columns={"img": "label", "label": "img"})) == ["label", "img"]


PLAIN: Batch = {"x": np.zeros((2, 3)), "y": np.zeros(2), "name": np.array(["a", "b"])}
FAULTS: dict[str, tuple[Callable[..., Batch], dict[str, object], str]] = {
    "column that is not there": (
        decode_image,
        {"size": 8},
        'decode_image: there is no column "image"; expected one of x, y, name',
    ),
    "no size": (decode_image, {"size": 0}, "decode_image: size is 0, must be at least 1 pixel"),
    "unknown mode": (
        decode_image,
        {"size": 8, "mode": "HSV"},
        'decode_image: mode is "HSV", known are RGB and L',
    ),
    "negative margin": (
        random_crop_flip,
        {"padding": -1, "rng": make_rng(np.arange(2))},
        "random_crop_flip: padding is -1, must be 0 or more pixels",
    ),
    "no pictures": (
        random_crop_flip,
        {"column": "x", "rng": make_rng(np.arange(2))},
        'random_crop_flip: column "x" has the shape (2, 3), pictures have (rows, height, width) or '
        "(rows, height, width, channels); decode them first",
    ),
    "no spread": (
        normalize,
        {"column": "x", "mean": 0, "std": 0},
        "normalize: std is 0, must be larger than 0",
    ),
    "too few means": (
        normalize,
        {"column": "x", "mean": [0, 1], "std": 1},
        'normalize: mean has 2 numbers, column "x" of shape (2, 3) takes one or 3',
    ),
    "text": (
        normalize,
        {"column": "name", "mean": 0, "std": 1},
        'normalize: column "name" holds <U1, must hold numbers',
    ),
    "name that is taken": (
        rename,
        {"columns": {"x": "y"}},
        'rename: "x" cannot become "y", that column is there already',
    ),
}


@pytest.mark.parametrize(("function", "options", "want"), FAULTS.values(), ids=FAULTS)
def test_wrong_options_are_named(
    function: Callable[..., Batch], options: dict[str, object], want: str
) -> None:
    with pytest.raises(ValueError, match=f"^{function.__name__}: ") as caught:
        _call(function, PLAIN, options)
    assert str(caught.value) == want


def _call(function: Callable[..., Batch], batch: Batch, options: dict[str, object]) -> Batch:
    return function(batch, **options)
