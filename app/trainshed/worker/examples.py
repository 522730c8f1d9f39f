"""Writes pictures from a training function as files for the report."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from trainshed.storage.folder import Folder


def keep_examples(
    folder: Folder,
    name: str,
    images: NDArray[np.uint8],
    captions: Sequence[str],
    good: Sequence[bool] | None = None,
) -> None:
    """Write `NAME-<i>.png` and `NAME.json`, replacing an earlier group of the same name.

    Args:
        folder: need not exist yet.
        name: of the group.
        images: (n, height, width) or (n, height, width, 3).
        captions: one per picture.
        good: whether each is correct.
    """
    from PIL import Image

    entries = []
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        entry: dict[str, object] = {"image": f"{name}-{number}.png", "caption": caption}
        png = io.BytesIO()
        Image.fromarray(image).save(png, "PNG")
        folder.write(f"{name}-{number}.png", png.getvalue())
        if good is not None:
            entry["good"] = bool(good[number])
        entries.append(entry)
    folder.write(f"{name}.json", json.dumps(entries).encode())
    there, left_over = set(folder.names()), len(entries)
    while (file := f"{name}-{left_over}.png") in there:
        folder.delete(file)
        left_over += 1
