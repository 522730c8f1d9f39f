"""A kubectl that answers as a test says, and writes down what it was asked."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainshed_api.json_object import JsonObject

if TYPE_CHECKING:
    from pydantic import JsonValue

# Answers by the first words of its command line, and writes down each of these. The files
# apply_error, get_error and first_run answer once.
KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >> {here}/asked
refuse() {{ if [ -f {here}/"$1" ]; then cat {here}/"$1" >&2; rm {here}/"$1"; exit 1; fi; }}
case "$*" in
  *apply*) refuse apply_error; cat > {here}/applied ;;
  *"get pod"*) cat {here}/pods ;;
  *"get trainingrun digits"*)
    refuse get_error
    if [ -f {here}/first_run ]; then cat {here}/first_run; rm {here}/first_run
    else cat {here}/run; fi ;;
  *"get trainingrun"*) cat {here}/runs ;;
  *exec*) cat {here}/log ;;
esac
"""


def make_object(phase: str, name: str = "digits") -> JsonObject:
    """Return a TrainingRun of two attempts in a phase."""
    attempt: dict[str, JsonValue] = {
        "number": 2,
        "generation": 1,
        "rayJob": f"{name}-2",
        "jobId": f"{name}-12345678-2",
        "rayCluster": "shared",
    }
    progress: dict[str, JsonValue] = {"step": 5, "steps": 10, "loss": "0.5"}
    status: dict[str, JsonValue] = {
        "phase": phase,
        "attempt": 2,
        "attempts": [attempt],
        "progress": progress,
    }
    spec: JsonObject = {"suspend": phase == "Suspended"}
    metadata: JsonObject = {"name": name, "namespace": "team", "uid": "12345678-9abc"}
    return {"metadata": metadata, "spec": spec, "status": status}


def write_kubectl(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a kubectl on the PATH that answers from files of a folder: one run, and its Ray head."""
    program = folder / "kubectl"
    program.write_text(KUBECTL.format(here=folder))
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    items: list[JsonValue] = [make_object("Running"), make_object("Queued", "moth")]
    (folder / "runs").write_text(json.dumps({"items": items}))
    (folder / "run").write_text(json.dumps(make_object("Suspended")))
    (folder / "pods").write_text("pod/shared-head\n")
    (folder / "log").write_text("first\nlast\n")
    return folder
