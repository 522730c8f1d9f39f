"""JPEGs go another way than other pictures, and come out as Pillow decodes them."""

import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageOps

from tests.app.transforms.builders import apart, images, make_column
from tests.builders_data import encode_jpeg, encode_png, make_photo
from trainshed.transforms import decode_image
from trainshed.transforms.pixels import read_jpeg

PHOTO = make_photo(45, 60)
GREY = PHOTO[..., 1]


def by_pillow(encoded: bytes, size: tuple[int, int], mode: str = "RGB") -> NDArray[np.uint8]:
    """Return a picture decoded whole and scaled to (height, width) by Pillow alone."""
    picture = Image.open(io.BytesIO(encoded)).convert(mode)
    return np.asarray(picture.resize(size[::-1], Image.Resampling.BILINEAR))


JPEGS = {
    "4:4:4": encode_jpeg(PHOTO, subsampling="4:4:4"),
    "4:2:2": encode_jpeg(PHOTO, subsampling="4:2:2"),
    "4:2:0": encode_jpeg(PHOTO, subsampling="4:2:0"),
    "coarse": encode_jpeg(PHOTO, quality=20),
    "progressive": encode_jpeg(PHOTO, progressive=True),
    "restart markers": encode_jpeg(PHOTO, restart_marker_blocks=2),
    "red, green and blue": encode_jpeg(PHOTO, keep_rgb=True),
    "grey": encode_jpeg(GREY),
}


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("encoded", JPEGS.values(), ids=JPEGS)
def test_pixels_are_those_of_pillow(encoded: bytes, mode: str) -> None:
    for size in ((45, 60), (30, 40), (100, 90)):
        mine = images(decode_image, make_column(encoded), size=size, mode=mode)[0]
        assert apart(mine, by_pillow(encoded, size, mode)).max() <= 2


sides = st.integers(1, 70)


@settings(max_examples=60, deadline=None)
@given(sides, sides, sides, sides, st.sampled_from(["RGB", "L"]))
def test_any_size_is_scaled_as_pillow_does(
    height: int, width: int, to_height: int, to_width: int, mode: str
) -> None:
    picture, size = make_photo(height, width, shapes=4), (to_height, to_width)
    png = encode_png(picture)
    mine = images(decode_image, make_column(png), size=size, mode=mode)[0]
    assert apart(mine, by_pillow(png, size, mode)).max() <= 1
    jpeg = encode_jpeg(picture, subsampling="4:4:4")
    mine = images(decode_image, make_column(jpeg), size=size, mode=mode)[0]
    want = by_pillow(jpeg, size, mode)
    if height < 4 * to_height or width < 4 * to_width:  # no half is large enough
        assert apart(mine, want).max() <= 2
    elif min(height, width) >= 16:  # below that a block of 8 lies half beyond the edge
        assert apart(mine, want).mean() <= 4


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.floats(0.5, 300), st.floats(0.5, 300))
def test_scaled_decoding_leaves_twice_the_wanted_size(
    height: int, width: int, least_height: float, least_width: float
) -> None:
    encoded = encode_jpeg(np.zeros((height, width), np.uint8))
    pixels, scale = read_jpeg(encoded, "L", (least_height, least_width))
    assert pixels.shape == (math.ceil(height * scale), math.ceil(width * scale))
    assert scale == 1 or scale <= 0.5
    assert scale == 1 or height * scale >= 2 * least_height
    assert scale == 1 or width * scale >= 2 * least_width


def test_a_large_picture_is_decoded_at_less_than_its_size() -> None:
    encoded = encode_jpeg(make_photo(600, 800))
    assert read_jpeg(encoded, "RGB", (60, 80))[0].shape == (150, 200, 3)
    mine = images(decode_image, make_column(encoded), size=(60, 80))[0]
    difference = apart(mine, by_pillow(encoded, (60, 80)))
    assert difference.mean() < 1
    assert difference.max() < 30


def test_every_kind_of_bytes_is_read() -> None:
    encoded = JPEGS["4:2:0"]
    twice = np.frombuffer(encoded, np.uint8).repeat(2).tobytes()
    batch = make_column(
        encoded,
        bytearray(encoded),
        memoryview(encoded),
        memoryview(twice)[::2],
        {"bytes": encoded, "path": "a.jpg"},
    )
    pictures = images(decode_image, batch, size=(45, 60))
    assert (pictures == pictures[0]).all()


def test_four_inks_are_mixed_as_pillow_does() -> None:
    buffer = io.BytesIO()
    Image.fromarray(PHOTO).convert("CMYK").save(buffer, format="JPEG")
    mine = images(decode_image, make_column(buffer.getvalue()), size=(45, 60))[0]
    assert (mine == by_pillow(buffer.getvalue(), (45, 60))).all()


def test_what_only_warns_is_read() -> None:
    # Bytes of no meaning between two markers: libjpeg skips them, and says so.
    encoded = JPEGS["4:2:0"]
    at = encoded.index(b"\xff\xdb")
    odd = encoded[:at] + b"\x01\x02\x03" + encoded[at:]
    mine = images(decode_image, make_column(odd), size=(45, 60))[0]
    assert (mine == by_pillow(encoded, (45, 60))).all()


def with_bits(encoded: bytes, bits: int) -> bytes:
    """Return a JPEG whose frame header says how many bits a value has."""
    at = encoded.index(b"\xff\xc0") + 4
    return encoded[:at] + bytes([bits]) + encoded[at + 1 :]


WHOLE = JPEGS["4:2:0"]
BROKEN = {
    "the first half": (WHOLE[: len(WHOLE) // 2], "image file is truncated"),
    "nothing after the header": (WHOLE[:20], "cannot identify image file"),
    "the mark alone": (b"\xff\xd8\xff", "cannot identify image file"),
    "12 bits a value": (with_bits(WHOLE, 12), ""),
    "text after the mark": (b"\xff\xd8\xff hello", "cannot identify image file"),
}


@pytest.mark.parametrize(("encoded", "want"), BROKEN.values(), ids=BROKEN)
def test_broken_jpeg_is_named_by_its_row(encoded: bytes, want: str) -> None:
    start = r'^decode_image: row 1 of the batch, column "image": not a readable picture \(\d+ bytes'
    with pytest.raises(ValueError, match=start) as caught:
        decode_image(make_column(WHOLE, encoded), size=8)
    assert f"({len(encoded)} bytes)" in str(caught.value)
    assert want in str(caught.value)


def test_a_picture_that_would_fill_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 45 * 60 // 2 - 1)
    with pytest.raises(ValueError, match=r"row 0 .* could be decompression bomb DOS attack"):
        decode_image(make_column(WHOLE), size=8)


def with_orientation(kind: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    buffer = io.BytesIO()
    Image.fromarray(PHOTO).save(buffer, format=kind, exif=exif)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("orientation", [*range(1, 9), 0, 77])
def test_a_picture_is_turned_where_that_is_asked_for(orientation: int, kind: str) -> None:
    encoded = with_orientation(kind, orientation)
    batch = make_column(encoded)
    if kind != "TIFF":  # which Pillow turns in any case
        as_it_lies = images(decode_image, batch, size=(45, 60))[0]
        assert (as_it_lies == by_pillow(encoded, (45, 60))).all()
    seen = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))).convert("RGB")
    for size, most in ((seen.size[::-1], 0), ((20, 30), 1), ((6, 5), 12)):
        want = np.asarray(seen.resize(size[::-1], Image.Resampling.BILINEAR))
        assert apart(images(decode_image, batch, size=size, upright=True)[0], want).max() <= most


def test_the_part_is_chosen_after_the_turn() -> None:
    encoded = with_orientation("JPEG", 6)
    seen = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))
    want = np.asarray(seen.crop((0, 15, 45, 45)))
    options: dict[str, object] = {"size": (30, 45), "resize": "crop", "upright": True}
    assert (images(decode_image, make_column(encoded), **options)[0] == want).all()
