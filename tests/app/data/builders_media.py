"""The only place where recordings and films are born in these tests."""

from pathlib import Path

import av
import numpy as np
import soundfile


def write_sound(
    path: Path, frames: int, *, rate: int = 8000, channels: int = 1, level: float = 0.5
) -> None:
    """Write a recording of one level."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (frames, channels) if channels > 1 else (frames,)
    soundfile.write(path, np.full(shape, level, dtype=np.float32), rate)


def write_film(
    path: Path, frames: int, *, height: int = 48, width: int = 64, codec: str = "mpeg4"
) -> None:
    """Write a film whose frame n is of the grey 5 n."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as film:
        pictures = film.add_stream(codec, rate=25)
        assert isinstance(pictures, av.VideoStream)
        pictures.height, pictures.width, pictures.pix_fmt = height, width, "yuv420p"
        for number in range(frames):
            grey = np.full((height, width, 3), 5 * number % 256, dtype=np.uint8)
            frame = av.VideoFrame.from_ndarray(grey, format="rgb24")
            film.mux(pictures.encode(frame))
        film.mux(pictures.encode())
