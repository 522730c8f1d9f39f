"""Random rectangles in pictures, one per row, drawn as torchvision does for crops and erasures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trainshed.transforms.batch_checks import as_range
from trainshed.transforms.resize import Box

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.randomness import RowRandom

# Maximum number of draws for a rectangle that does not fit its picture.
_TRIES = 10


class Areas(NamedTuple):
    """Random draws for the rectangles of all rows.

    Args:
        shares: (B, tries) of the picture's area.
        ratios: (B, tries) width for a height of 1.
        places: (B, tries, 2) from 0 to 1: offset down and to the right.
        bounds: smallest and largest ratio.
    """

    shares: NDArray[np.float64]
    ratios: NDArray[np.float64]
    places: NDArray[np.float64]
    bounds: tuple[float, float]

    def box(self, row: int, height: int, width: int) -> Box:
        """Return a row's rectangle; the largest centered one if no draw fits."""
        found = self._first(row, height, width, height, width)
        if found is not None:
            return found
        least, most = self.bounds
        across = round(min(width, height * most))
        down = round(min(height, width / least))
        across, down = max(across, 1), max(down, 1)
        return Box((width - across) // 2, (height - down) // 2, across, down)

    def box_inside(self, row: int, height: int, width: int) -> Box | None:
        """Return a row's rectangle that leaves some of the picture on both axes, if a draw does."""
        return self._first(row, height, width, height - 1, width - 1)

    def _first(self, row: int, height: int, width: int, highest: int, widest: int) -> Box | None:
        for share, ratio, (down, right) in zip(
            self.shares[row], self.ratios[row], self.places[row], strict=True
        ):
            area = share * height * width
            tall, wide = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < tall <= highest and 0 < wide <= widest:
                top, left = int(down * (height - tall + 1)), int(right * (width - wide + 1))
                return Box(left, top, wide, tall)
        return None


def draw_areas(
    function: str, scale: Sequence[float], ratio: Sequence[float], rng: RowRandom
) -> Areas:
    """Draw rectangles for all rows: uniform in area (`scale`) and in the logarithm of the ratio.

    Args:
        function: name for error messages.
        scale: smallest and largest share of the picture's area.
        ratio: smallest and largest width for a height of 1.
        rng: draws one array per row.

    Raises:
        ValueError: naming the wrong option.
    """
    least, most = as_range(function, "scale", scale, most=1)
    narrow, wide = as_range(function, "ratio", ratio)
    drawn = rng.random((_TRIES, 4))
    ratios = np.exp(math.log(narrow) + drawn[..., 1] * (math.log(wide) - math.log(narrow)))
    shares = least + drawn[..., 0] * (most - least)
    return Areas(shares, ratios, drawn[..., 2:], (narrow, wide))
