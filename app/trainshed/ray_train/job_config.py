"""What all processes of a Ray job inherit: the config that Ray hands its driver as a variable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainshed_api.names import ENV_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
# Read by the process that stops the driver.
_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"


def for_workers(environment: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """Return the variable with which Ray gives a job's processes `env` and its own code.

    What is meant for the driver alone is left out: the token to tell the controller, for one. And
    workers without their own variables start in processes that Ray keeps ready.

    Args:
        environment: of the driver.
        env: of the spec.
    """
    config = json.loads(environment.get(JOB_CONFIG, "{}"))
    runtime_env = dict(config.get("runtime_env") or {})
    theirs = runtime_env.pop("env_vars", None) or {}
    variables = {
        name: value
        for name, value in theirs.items()
        if not name.startswith(ENV_PREFIX) and name != _STOP_WAIT
    }
    if variables | dict(env):
        runtime_env["env_vars"] = variables | dict(env)
    return {JOB_CONFIG: json.dumps({**config, "runtime_env": runtime_env})}


def with_working_dir(environment: Mapping[str, str], sent: str) -> dict[str, str]:
    """Return the variable for a script that starts Ray by itself, with code that was sent.

    Args:
        environment: of the driver.
        sent: where Ray has put it.
    """
    config = json.loads(environment[JOB_CONFIG])
    runtime_env = {**(config.get("runtime_env") or {}), "working_dir": sent}
    return {JOB_CONFIG: json.dumps({**config, "runtime_env": runtime_env})}
