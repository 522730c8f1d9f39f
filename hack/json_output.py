"""The reference of what is printed and stored as JSON: `python -m hack.json_output` writes it."""

from __future__ import annotations

import re
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from pydantic.alias_generators import to_camel

from trainshed_api.progress import AnyEvent, Record, ResumePoint, Seconds
from trainshed_api.records import (
    BadRecordsRecord,
    CheckpointRecord,
    DataRecord,
    GitState,
    MachineRecord,
    ResultRecord,
    RunRecord,
    StageRecord,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

JSON_OUTPUT = Path(__file__).parent.parent / "docs" / "json.md"
_HEAD = """# JSON output

Generated from the models by `python -m hack.json_output`; do not edit.

| Command | JSON |
|---|---|
| `trainshed run`, `submit` and `apply` into a pipe | an [event](#events) on each line |
| `trainshed ps --output json` | on each line `name`, `folder`, `status`, `attempt`, ... |
| with `-n NAMESPACE` | `name`, and the `status` of the TrainingRun, or the `error` that hides it |
| with `--ray` | `id`, `status`, `message`, `started`, `ended` and `exitCode` of a job |
| `trainshed why --output json` | an object: [troubleshooting.md](troubleshooting.md) |
| `trainshed compare --output json` | `runs`; `differences`: a list of `section`, `fact`, `values` |
| `trainshed data` into a pipe | [rows and figures](cli.md#inspect-data) |
| `trainshed predict` into a pipe or to a `.jsonl` file | a [prediction](predict.md) on each line |

```console
$ trainshed run run.yaml | jq --unbuffered 'select(.event == "evaluated") | .metrics'
$ jq .metrics $TRAINSHED_HOME/runs/local/digits/result.json
```

The folder of a run has the files [`run.json`](#runrecord) and [`result.json`](#resultrecord), and
for each attempt `metrics.jsonl` with its events. Readers ignore fields that they do not know. A
field that is null, or that an older release did not write, is not known.
"""
_RECORDS = (
    RunRecord,
    ResultRecord,
    Seconds,
    ResumePoint,
    CheckpointRecord,
    StageRecord,
    BadRecordsRecord,
    DataRecord,
    GitState,
    MachineRecord,
)


def render_json_output() -> str:
    """Return all events and records with their fields as Markdown."""
    events = get_args(get_args(AnyEvent)[0])
    return "".join(
        [
            _HEAD,
            "\n## Events\n\nThe field `event` says what an event is about.\n",
            *(_section(each.model_fields["event"].default, each) for each in events),
            "\n## Records\n",
            *(_section(each.__name__, each) for each in _RECORDS),
        ]
    )


def _section(title: str, record: type[Record]) -> str:
    schema = record.model_json_schema(by_alias=True, mode="serialization")
    rows = "".join(
        f"| `{name}` | {_type_of(field)} |\n"
        for name, field in schema["properties"].items()
        if name != "event"
    )
    return f"\n### {title}\n\n{_text_of(record)}\n\n| Field | Type |\n|---|---|\n{rows}"


def _text_of(record: type[Record]) -> str:
    """Return what a record is, with the names of fields as JSON has them."""
    text = cleandoc(record.__doc__ or "")
    return re.sub(r"`(\w+)`", lambda name: f"`{to_camel(name[1])}`", text)


def _type_of(field: Mapping[str, JsonValue]) -> str:
    """Return the type of a field of a JSON schema in words."""
    match field:
        case {"$ref": str(reference)}:
            said = _link_to(reference.rpartition("/")[2])
        case {"anyOf": list(kinds)}:
            said = " or ".join(_type_of(kind) for kind in kinds if isinstance(kind, dict))
        case {"enum": list(choices)}:
            said = ", ".join(f"`{choice}`" for choice in choices)
        case {"type": "array", "items": dict(items)}:
            said = f"list of {_type_of(items)}"
        case {"type": "object", "additionalProperties": dict(values)}:
            said = f"map of {_type_of(values)}"
        case {"format": "date-time"}:
            said = "time, ISO 8601"
        case _:
            name = str(field["type"])
            said = {"string": "text", "boolean": "true, false"}.get(name, name)
    return said


def _link_to(title: str) -> str:
    """Return a link to the section or the page about a type."""
    elsewhere = {"JsonValue": "any JSON", "ShuffleSpec": "[`shuffle`](trainingrun.md)"}
    return elsewhere.get(title, f"[{title}](#{title.lower()})")


if __name__ == "__main__":
    JSON_OUTPUT.write_text(render_json_output())
