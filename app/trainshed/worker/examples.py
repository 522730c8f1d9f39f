"""Pictures that a training function shows, as files for the report."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def keep_examples(
    folder: Path,
    name: str,
    images: NDArray[np.uint8],
    captions: Sequence[str],
    good: Sequence[bool] | None = None,
) -> None:
    """Write `NAME-<i>.png` and `NAME.json`; an earlier group of the same name is replaced.

    Args:
        folder: made when missing.
        name: of the group.
        images: (n, height, width) or (n, height, width, 3).
        captions: one a picture.
        good: whether each is as it should be.
    """
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    entries = []
    for number, (image, caption) in enumerate(zip(images, captions, strict=True)):
        entry: dict[str, object] = {"image": f"{name}-{number}.png", "caption": caption}
        Image.fromarray(image).save(folder / f"{name}-{number}.png")
        if good is not None:
            entry["good"] = bool(good[number])
        entries.append(entry)
    (folder / f"{name}.json").write_text(json.dumps(entries), encoding="utf-8")
    left_over = len(entries)
    while (file := folder / f"{name}-{left_over}.png").exists():
        file.unlink()
        left_over += 1
