"""Reads TensorBoard's event files as TensorBoard does, without TensorBoard."""

import struct
from pathlib import Path

from tensorboardX.proto.event_pb2 import Event, SessionLog

# Length and its checksum before a record, its checksum after it.
HEAD, TAIL = 12, 4


def read_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return step and value by metric; a session that begins drops the steps from its own on."""
    scalars: dict[str, list[tuple[int, float]]] = {}
    for event in read_events(folder):
        if event.session_log.status == SessionLog.START:
            for name, known in scalars.items():
                scalars[name] = [pair for pair in known if pair[0] < event.step]
        for value in event.summary.value:
            if value.HasField("simple_value"):
                scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return scalars


def read_tables(folder: Path) -> dict[str, str]:
    """Return the last text of each title."""
    return {
        value.tag.removesuffix("/text_summary"): value.tensor.string_val[0].decode()
        for event in read_events(folder)
        for value in event.summary.value
        if value.HasField("tensor")
    }


def read_events(folder: Path) -> list[Event]:
    """Return the events of all files, in the order of their names."""
    events = []
    for file in sorted(folder.iterdir()):
        content = file.read_bytes()
        while content:
            (length,) = struct.unpack_from("<Q", content)
            events.append(Event.FromString(content[HEAD : HEAD + length]))
            content = content[HEAD + length + TAIL :]
    return events
