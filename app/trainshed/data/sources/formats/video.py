"""Videos, decoded by FFmpeg, with one row per frame."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sources.column_arrays import as_objects
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.shared_types import some_files
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import VideoOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from av.container import InputContainer
    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# FFmpeg's names. Other formats are playlists, whose addresses it would fetch.
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegts,mpegvideo,m4v,h264,hevc"
_MICROSECONDS = 1e6
_COLUMNS = ("frame", "number", "path")
_NOTHING = np.empty(0, dtype=np.uint8)


class Video(Format):
    """Frames, in the columns `frame`, `number` and `path`."""

    suffixes = (".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts")
    unmoving = ("size",)

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, None]:
        options = scan.options_as(VideoOptions)
        try:
            sizes = {file.where: _size(file.where, opened) for file in some_files(files)}
        except DataError as error:
            where, _, told = str(error).partition(": ")
            raise SpecError([Problem(f"{field}.path", where, f"films ({told})")]) from error
        first = options.size or sizes[files[0].where]
        for where, size in sizes.items():
            if size != first and options.size is None:
                expected = f"{_say(first)} as {files[0].where}, or options.size"
                raise SpecError([Problem(f"{field}.path", f"{_say(size)} in {where}", expected)])
        kinds = (pa.fixed_shape_tensor(pa.uint8(), (*first, 3)), pa.int64(), pa.string())
        schema = pa.schema(list(zip(_COLUMNS, kinds, strict=True)))
        # Frames are split by their position in a task's input: one video per task.
        return replace(scan, schema=schema), None

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns]:
        fragment, scan, columns, chunk_rows, opened = read
        names, path = columns or _COLUMNS, fragment.path
        frames = _frames(path, scan, opened)
        if "frame" not in names:  # avoids holding pixels for nothing
            frames = ((number, _NOTHING) for number, _ in frames)
        while rows := list(islice(frames, chunk_rows)):
            found: Columns = {
                "number": np.asarray([number for number, _ in rows], dtype=np.int64),
                "path": as_objects([scan.name_of(path)] * len(rows)),
            }
            if "frame" in names:
                found["frame"] = np.stack([pixels for _, pixels in rows])
            yield {name: found[name] for name in names}

    @override
    def density(self, fragment: Fragment, scan: Scan, opened: Opener) -> float:
        with opened(fragment.path) as raw, _film(fragment.path, raw) as film:
            pictures = film.streams.video[0]
            seconds, rate = (film.duration or 0) / _MICROSECONDS, pictures.average_rate or 0
            frames = pictures.frames or float(seconds * rate) or 1.0
            return float(frames / scan.options_as(VideoOptions).every / max(1, raw.size()))


@contextmanager
def _film(path: str, raw: pa.NativeFile) -> Iterator[InputContainer]:
    """Open a video.

    Raises:
        DataError: naming it if it is invalid, or its frames cannot be decoded.
        OSError: if the storage does not return it.
    """
    import av

    try:
        with av.open(raw, container_options={"format_whitelist": _CONTAINERS}) as film:
            if not film.streams.video:
                raise DataError(f"{path}: a film without pictures")
            # A task has one core, and needs the frames in order.
            film.streams.video[0].codec_context.thread_count = 1
            yield film
    except av.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        said = error.strerror
        if isinstance(error, av.ArgumentError):  # FFmpeg's error for excluded formats
            said = f"{said}, or no container of {_CONTAINERS}"
        raise DataError(f"{path}: {said}") from error


def _size(path: str, opened: Opener) -> tuple[int, int]:
    with opened(path) as raw, _film(path, raw) as film:
        context = film.streams.video[0].codec_context
        return context.height, context.width


def _frames(path: str, scan: Scan, opened: Opener) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield (number, pixels of shape (height, width, 3)) of the selected frames."""
    assert scan.schema
    options, number = scan.options_as(VideoOptions), -1
    height, width, _ = scan.schema.field("frame").type.shape
    with opened(path, WHOLE) as raw, _film(path, raw) as film:
        for number, frame in enumerate(film.decode(video=0)):
            if number % options.every:
                continue
            if options.size is None and (frame.height, frame.width) != (height, width):
                got, expected = _say((frame.height, frame.width)), _say((height, width))
                raise DataError(
                    f"{path}: frame {number}: {got} where others have {expected}; options.size "
                    "scales"
                )
            scaled = frame.reformat(width=width, height=height, format="rgb24")
            yield number, np.asarray(scaled.to_ndarray(), dtype=np.uint8)
    if number < 0:
        raise DataError(f"{path}: it has no frames")


def _say(size: tuple[int, int]) -> str:
    return f"frames of {size[0]} x {size[1]}"
