"""The identity of a driver: independent, or attempt N of a run of a controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError, show_value
from trainshed_api.names import ENV_ATTEMPT, ENV_NAMESPACE, ENV_UID

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainshed.storage.folder import Folder

UID_DIGITS = 8


@dataclass(frozen=True)
class Identity:
    """The identity that a controller assigns to this driver.

    Args:
        namespace: of the TrainingRun.
        uid: of the TrainingRun, which differs for a new run of the same name.
        attempt: the number of the attempt that this driver runs.
    """

    namespace: str
    uid: str
    attempt: int


def read_identity(environment: Mapping[str, str]) -> Identity | None:
    """Return the identity from the controller; None if a user started the driver.

    Raises:
        SpecError: if only some of the variables are set.
    """
    values = {name: environment.get(name, "") for name in (ENV_NAMESPACE, ENV_UID, ENV_ATTEMPT)}
    if not any(values.values()):
        return None
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise SpecError([Problem(name, None, "missing; set all three or none") for name in missing])
    attempt = values[ENV_ATTEMPT]
    if not attempt.isdecimal() or int(attempt) < 1:
        raise SpecError([Problem(ENV_ATTEMPT, show_value(attempt), "a number from 1")])
    return Identity(values[ENV_NAMESPACE], values[ENV_UID], int(attempt))


def folder_of(name: str, identity: Identity | None, storage: Folder) -> Folder:
    """Return the folder of a run.

    Args:
        name: of the run.
        identity: of its driver.
        storage: of the spec.
    """
    if identity is None:
        return storage / "local" / name
    return storage / identity.namespace / f"{name}-{identity.uid[:UID_DIGITS]}"
