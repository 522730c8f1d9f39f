"""Recordings, one per file, decoded by libsndfile."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from typing_extensions import override

from trainshed.data.sampler.bad_records import BadRecord
from trainshed.data.sources.column_arrays import as_objects
from trainshed.data.sources.errors import DataError
from trainshed.data.sources.formats.format import Format, FragmentRead
from trainshed.data.sources.formats.shared_types import some_files
from trainshed.data.sources.formats.whole_files import (
    UNASKED,
    folders_of,
    group_files,
    labels_of,
    read_files,
    unread,
)
from trainshed.storage.byte_ranges import WHOLE
from trainshed_api.errors import Problem, SpecError
from trainshed_api.formats import AudioOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from trainshed.data.sampler.fragments import Fragment, Scan
    from trainshed.data.sources.column_arrays import Array, Columns
    from trainshed.data.sources.listing import Found
    from trainshed.data.sources.opener import Opener

# Bytes of files per task: decoded they are some ten times as large.
TASK_BYTES = 2 * 2**20
# Maximum frames per byte: FLAC stores 65,535 equal ones in 14 bytes.
MOST_SAMPLES = 8192
# Maximum decoded samples of a file, 4 GiB: one MB of such FLAC has four times as many.
MOST_DECODED = 2**30


class _Recording(NamedTuple):
    """Decoded audio: samples (frames,) or (frames, channels), and frames per second."""

    samples: NDArray[np.float32]
    rate: int


class Audio(Format):
    """Recordings, in the columns `audio`, `rate`, `label` and, on request, `path`."""

    suffixes = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".aif", ".aiff")

    @override
    def open(
        self, files: Sequence[Found], scan: Scan, field: str, opened: Opener
    ) -> tuple[Scan, Iterable[Fragment]]:
        kind, options = pa.list_(pa.float32()), scan.options_as(AudioOptions)
        if seconds := options.seconds:
            first = _first(files, scan, field, opened)
            rate = options.rate or first.rate
            options = options.model_copy(update={"rate": rate})
            shape = (max(1, round(seconds * rate)), *first.samples.shape[1:])
            kind = pa.fixed_shape_tensor(pa.float32(), shape)
        fields = [("audio", kind), ("rate", pa.int64()), ("path", pa.string())]
        classes: tuple[str, ...] = ()
        if options.labels == "folder":
            classes = folders_of(files, field)
            fields.append(("label", pa.int64()))
        schema = pa.schema(fields)
        scan = replace(scan, options=options, schema=schema, classes=classes, unasked=UNASKED)
        return scan, group_files(files, TASK_BYTES)

    @override
    def tables(self, read: FragmentRead) -> Iterator[Columns | BadRecord]:
        fragment, scan, columns, chunk_rows, opened = read
        names = columns or ("audio", "rate", *(["label"] if scan.classes else []))
        decodes, frames = bool({"audio", "rate"} & {*names}), _frames(scan)
        nothing = _Recording(np.empty(0, dtype=np.float32), 0)
        files = (
            read_files(fragment, chunk_rows, opened) if decodes else unread(fragment, chunk_rows)
        )
        for paths, contents in files:
            good: list[tuple[str, _Recording]] = []
            for path, content in zip(paths, contents, strict=True):
                try:
                    good.append((path, _decode(content, frames) if decodes else nothing))
                except ValueError as error:
                    if good:
                        yield _columns(good, names, scan)
                        good = []
                    yield BadRecord(path, "the file", str(error))
            if good:
                yield _columns(good, names, scan)

    @override
    def place(self, fragment: Fragment, row: int) -> tuple[str, str]:
        return fragment.paths[row], "the file"


def _frames(scan: Scan) -> int | None:
    """Return the frames per row; None for the length of each recording."""
    assert scan.schema
    kind = scan.schema.field("audio").type
    return int(kind.shape[0]) if isinstance(kind, pa.FixedShapeTensorType) else None


def _first(files: Sequence[Found], scan: Scan, field: str, opened: Opener) -> _Recording:
    """Return the start of the first file, or of the first good one if bad ones are allowed."""
    looked_at = some_files(files) if scan.skips_bad else files[:1]
    said = ""
    for file in looked_at:
        with opened(file.where, WHOLE) as raw:
            content = bytes(raw.read())
        try:
            return _decode(content, 1)
        except ValueError as error:
            said = said or f"{file.where}: {error}"
    raise SpecError([Problem(f"{field}.path", files[0].where, f"recordings. Reported: {said}")])


def _decode(content: bytes, most: int | None) -> _Recording:
    """Return the first frames of a file, decoding no more.

    Args:
        content: of the file.
        most: maximum; None for all.

    Raises:
        ValueError: if it is not a recording, or too large for memory.
    """
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            if file.frames * file.channels > MOST_SAMPLES * len(content):
                raise ValueError(
                    f"its header states {file.frames} frames, and it has {len(content)} bytes"
                )
            frames = file.frames if most is None else min(most, file.frames)
            if frames * file.channels > MOST_DECODED:
                raise ValueError(
                    f"{frames} frames of {file.channels} channels are more than {MOST_DECODED} "
                    "samples, the most that are decoded of a file: options.seconds cuts it"
                )
            samples, rate = file.read(frames, dtype="float32"), file.samplerate
    except soundfile.LibsndfileError as error:
        raise ValueError(f"no recording that is known: {error.error_string}") from error
    return _Recording(samples, int(rate))


def _columns(good: Sequence[tuple[str, _Recording]], names: Sequence[str], scan: Scan) -> Columns:
    paths, recordings = [path for path, _ in good], [each for _, each in good]
    found: dict[str, Array] = {}
    if {"audio", "rate"} & {*names}:
        found["audio"] = _samples(paths, recordings, scan)
        found["rate"] = np.asarray([each.rate for each in recordings], dtype=np.int64)
    if "path" in names:
        found["path"] = as_objects([scan.name_of(path) for path in paths])
    if "label" in names:
        found["label"] = labels_of(paths, scan)
    return {name: found[name] for name in names}


def _samples(paths: Sequence[str], recordings: Sequence[_Recording], scan: Scan) -> Array:
    """Return recordings of one length as one array, otherwise as separate arrays."""
    assert scan.schema
    kind, rate = scan.schema.field("audio").type, scan.options_as(AudioOptions).rate
    if not isinstance(kind, pa.FixedShapeTensorType):
        for path, each in zip(paths, recordings, strict=True):
            if rate and each.rate != rate:
                got = f"{each.rate} frames a second"
                raise DataError(f"{path}: {got} where options.rate says {rate}")
        return as_objects([each.samples for each in recordings])
    _, *channels = kind.shape
    found = np.zeros((len(recordings), *kind.shape), dtype=np.float32)
    for row, (path, each) in enumerate(zip(paths, recordings, strict=True)):
        if (each.rate, *each.samples.shape[1:]) != (rate, *channels):
            got = _say(each.rate, each.samples.shape[1:])
            raise DataError(
                f"{path}: {got} where others have {_say(rate or 0, channels)}: options.seconds "
                "wants one rate and as many channels in all files"
            )
        found[row, : len(each.samples)] = each.samples
    return found


def _say(rate: int, channels: Sequence[int]) -> str:
    return f"{rate} frames a second and {(*channels, 1)[0]} channels"
