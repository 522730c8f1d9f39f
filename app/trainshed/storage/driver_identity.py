"""Who a driver is: its own master, or attempt N of a run that a controller looks after."""

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
    """What the controller calls this driver.

    Args:
        namespace: of the TrainingRun.
        uid: of the TrainingRun: another one of the same name is another run.
        attempt: the one that this driver is, and no other.
    """

    namespace: str
    uid: str
    attempt: int


def read_identity(environment: Mapping[str, str]) -> Identity | None:
    """Return who this driver is to a controller; None where nobody started it but its user.

    Raises:
        SpecError: when the controller says only part of it.
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
    """Return where a run leaves what it leaves.

    Args:
        name: of the run.
        identity: of its driver.
        storage: of the spec.
    """
    if identity is None:
        return storage / "local" / name
    return storage / identity.namespace / f"{name}-{identity.uid[:UID_DIGITS]}"
