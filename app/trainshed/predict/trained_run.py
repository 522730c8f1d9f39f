"""Finds the checkpoint of a run to predict with."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainshed.checkpoint import store
from trainshed.planning.run_folders import run_folder
from trainshed.predict.hooks import RUN
from trainshed.storage.run_folder import RunFolder, read_record
from trainshed_api.checkpoint import BestSpec
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import ENV_HOME

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from trainshed.checkpoint.manifest import Manifest
    from trainshed.storage.folder import Folder


def find_checkpoint(text: str) -> tuple[Folder, Manifest]:
    """Return the checkpoint that a text names, and its manifest.

    Of a run it is the best one, if `checkpoint.best` is set, otherwise the newest.

    Args:
        text: a run's name, its TrainingRun file, or the path or address of its folder or of a
            checkpoint.

    Raises:
        SpecError: if there is no such run, or no checkpoint that Trainshed wrote.
        InfrastructureError: if the storage does not answer.
        BadCheckpointError: if the checkpoint is damaged.
    """
    folder = run_folder(text, RUN)
    if store.is_of_run(folder):
        return folder, store.verify(folder)
    run = RunFolder(folder)
    numbers = run.attempts()
    if not numbers:
        expected = (
            "a run's name below runs/local, its TrainingRun file, its folder, or a checkpoint. Set "
            f"{ENV_HOME}, or give the path"
        )
        raise SpecError([Problem(RUN, text, expected)])
    parents = [run.checkpoints(number) for number in run.lineage()]
    return _chosen(folder, parents) or _newest(text, parents)


def _chosen(folder: Folder, parents: list[Folder]) -> tuple[Folder, Manifest] | None:
    """Return the best checkpoint of a run that has one."""
    record = read_record(folder) or read_record(parents[-1].parent)
    checkpoint = record.spec.get("checkpoint") if record else None
    if not (isinstance(checkpoint, dict) and checkpoint.get("best")):
        return None
    wanted = BestSpec.model_validate(checkpoint["best"])
    found = store.ranked(parents, wanted.metric, wanted.mode)
    if found.unread:
        # It may be the best one.
        raise store.BadCheckpointError(f"the manifest of {found.unread[0]} cannot be read")
    return (found.scored[0][0], store.verify(found.scored[0][0])) if found.scored else None


def _newest(text: str, parents: list[Folder]) -> tuple[Folder, Manifest]:
    folder, manifest, refused = store.newest(parents)
    if folder is None or manifest is None:
        why = f" ({refused[0]})" if refused else ""
        expected = (
            f"a run with a checkpoint that Trainshed wrote{why}. Name the model with "
            "run.track(...) in the training function"
        )
        raise SpecError([Problem(RUN, text, expected)])
    for why in refused:
        log.warning("%s; an earlier checkpoint predicts: %s", why, folder)
    return folder, manifest
