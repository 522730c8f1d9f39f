"""The environment of a run's Ray job, for `trainshed submit` and the controller."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError
from trainshed_api.json_object import as_object
from trainshed_api.names import ENV_SPEC, MAX_SPEC_BYTES, SECONDS_AFTER_GRACE
from trainshed_api.schema import SpecModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from trainshed_api.v1alpha1 import TrainingRunResource


# The image that reads it may be of an earlier release, which refuses a field that it does not know:
# what came after the first one is left out while it says nothing else than was done before.
_LATER_FIELDS = (
    "accumulate",
    "sync_batch_norm",
    "data.loader_processes",
    "checkpoint.allow_missing",
    "first_step_deadline_seconds",
    "env_from",
    "data.datasets.*.shuffle.mode",
)


def render_runtime_env(run: TrainingRunResource, also: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return Ray's runtime environment of the job; what it executes is names.JOB_ENTRYPOINT.

    also: further variables of the driver, such as who it is to a controller.

    Raises SpecError for a run that does not fit into an environment variable.
    """
    environment: dict[str, JsonValue] = {
        ENV_SPEC: encode_run(run),
        # Ray kills a stopped job after 3 s by default.
        "RAY_JOB_STOP_WAIT_TIME_S": str(run.spec.grace_period_seconds + SECONDS_AFTER_GRACE),
        **also,
    }
    rendered: dict[str, JsonValue] = {"env_vars": environment}
    code = run.spec.code
    if code.working_dir and not code.is_in_bucket:
        rendered["working_dir"] = code.working_dir
    if code.pip:
        rendered["pip"] = list(code.pip)
    return rendered


def encode_run(run: TrainingRunResource) -> str:
    """Return the run, defaults filled, as the JSON text that loading.load_text reads.

    Raises SpecError when it is too long for an environment variable.
    """
    document = run.to_dict()
    for path in _LATER_FIELDS:
        _leave_out_default(run.spec, document["spec"], path)
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    size = len(text.encode())
    if size > MAX_SPEC_BYTES:
        expected = (
            f"at most {MAX_SPEC_BYTES // 1024} KiB with all defaults; put large values in a file"
        )
        raise SpecError([Problem("spec", f"{size / 1024:.1f} KiB", expected)])
    return text


def _leave_out_default(model: SpecModel, written: JsonValue, path: str) -> None:
    """Take a field out of what is written of a model where it has its default."""
    name, _, below = path.partition(".")
    if below.startswith("*."):
        models, parts = getattr(model, name), as_object(as_object(written)[name])
        for key, part in models.items():
            _leave_out_default(part, parts[key], below.removeprefix("*."))
        return
    field = type(model).model_fields[name]
    assert isinstance(written, dict)
    key, value = field.alias or name, getattr(model, name)
    if isinstance(value, SpecModel) and key in written:
        _leave_out_default(value, written[key], below)
    elif value == field.default:
        written.pop(key, None)
