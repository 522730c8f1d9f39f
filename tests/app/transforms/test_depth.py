"""Pictures with more than 8 bits a value keep their greys, or are refused."""

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tests.app.transforms.builders import images, make_column
from trainshed.transforms import decode_image

GREYS = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
DEEP = GREYS.astype(np.uint16) * 256 + 99


def saved(picture: Image.Image, kind: str = "TIFF") -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format=kind)
    return buffer.getvalue()


def decoded(encoded: bytes, mode: str) -> NDArray[np.uint8]:
    """Return the one picture of a batch at its own size."""
    (found,) = images(decode_image, make_column(encoded), size=GREYS.shape, mode=mode)
    picture: NDArray[np.uint8] = found
    return picture


DEEP_FILES = {
    "PNG": saved(Image.fromarray(DEEP), "PNG"),
    "TIFF": saved(Image.fromarray(DEEP)),
    "TIFF of the other byte order": saved(
        Image.frombytes("I;16B", GREYS.shape[::-1], DEEP.astype(">u2").tobytes())
    ),
}


@pytest.mark.parametrize("encoded", DEEP_FILES.values(), ids=DEEP_FILES)
def test_of_16_bits_the_upper_8_are_kept(encoded: bytes) -> None:
    assert decoded(encoded, "L").tolist() == GREYS.tolist()
    coloured = decoded(encoded, "RGB")
    assert coloured.shape == (2, 3, 3)
    assert (coloured == GREYS[..., np.newaxis]).all()


def with_12_bits() -> bytes:
    """Return a TIFF of two greys, 0x123 and 0xFED, in three bytes."""
    entries = [
        *((256, 3, 2), (257, 3, 1), (258, 3, 12), (259, 3, 1), (262, 3, 1)),
        *((273, 4, 8), (277, 3, 1), (278, 3, 1), (279, 4, 3)),
    ]
    directory = b"".join(
        tag.to_bytes(2, "little")
        + kind.to_bytes(2, "little")
        + (1).to_bytes(4, "little")
        + value.to_bytes(4, "little")
        for tag, kind, value in entries
    )
    pixels = b"\x12\x3f\xed\x00"
    head = b"II*\x00" + (12).to_bytes(4, "little") + pixels
    return head + len(entries).to_bytes(2, "little") + directory + bytes(4)


def test_of_12_bits_the_upper_8_are_kept() -> None:
    found = images(decode_image, make_column(with_12_bits()), size=(1, 2), mode="L")
    assert found[0].tolist() == [[0x12, 0xFE]]


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_values_of_32_bits_are_refused(dtype: type[np.generic]) -> None:
    encoded = saved(Image.fromarray(GREYS.astype(dtype)))
    with pytest.raises(
        ValueError, match=r"row 0 .* nothing says which one is white: scale it by a"
    ):
        decoded(encoded, "RGB")
