"""Whether a run is the one that its folder holds, whether it is over, and where it goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainshed.checkpoint import ray_snapshot
from trainshed.checkpoint import store as checkpoint
from trainshed.data.sampler import description
from trainshed.data.sampler.dataset_plan import main_dataset
from trainshed.data.sampler.description import REMEDY
from trainshed.data.sampler.permutation import ORDER, SAME_SLOTS
from trainshed.storage.run_folder import RESULT, read_record
from trainshed_api.errors import Problem, SpecError
from trainshed_api.names import SUCCEEDED
from trainshed_api.records import ResultRecord
from trainshed_api.spechash import diff, hashed_part
from trainshed_api.v1alpha1 import TrainingRunSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainshed.data.sampler.dataset_plan import DatasetPlan
    from trainshed.planning.preflight import Prepared
    from trainshed.storage.folder import Folder
    from trainshed.storage.run_folder import RunFolder
    from trainshed_api.data import ShuffleSpec


def check_same_run(prepared: Prepared) -> None:
    """Refuse to go on in a folder that holds another run.

    Raises:
        SpecError: with what differs, naming --fresh.
    """
    record = read_record(prepared.folder.at)
    if record is None:
        return
    old = new = prepared.spec
    if record.spec_hash != prepared.spec_hash:
        old = TrainingRunSpec.model_validate(record.spec)
    # Of both the shuffle itself, as `auto` may have chosen one; earlier releases recorded none.
    chosen = {
        name: prepared.plans[name].spec.shuffle for name in record.shuffle if name in prepared.plans
    }
    differing = diff(
        hashed_part(_with_shuffles(old, record.shuffle)), hashed_part(_with_shuffles(new, chosen))
    )
    if not differing:
        return  # only what sets speed was changed
    expected = (
        "the spec that this run was started with, or --fresh to start over. It differs: "
        f"{'; '.join(differing)}"
    )
    raise SpecError([Problem("spec", f"another spec than {prepared.folder.at} holds", expected)])


def _with_shuffles(spec: TrainingRunSpec, shuffles: Mapping[str, ShuffleSpec]) -> TrainingRunSpec:
    datasets = {
        name: dataset.model_copy(update={"shuffle": shuffles.get(name, dataset.shuffle)})
        for name, dataset in spec.data.datasets.items()
    }
    return spec.model_copy(update={"data": spec.data.model_copy(update={"datasets": datasets})})


def finished(prepared: Prepared) -> ResultRecord | None:
    """Return the result of a run that is over: its function returned, and its weights are saved.

    A result from before the last fresh start is that of another training. Earlier releases wrote
    no checkpoint where a tracked function left its last epochs out: such a run is not over. What a
    function saves by itself is its own to choose.
    """
    try:
        result = ResultRecord.model_validate_json(prepared.folder.at.read(RESULT))
    except (OSError, ValidationError):
        return None
    if result.outcome != SUCCEEDED or result.attempt not in prepared.folder.lineage():
        return None
    spec = prepared.spec
    if (spec.epochs or 0) > (result.epochs or 0):
        return None
    left_early = result.epoch is not None and result.epoch < (result.epochs or 0)
    kept = result.checkpoint
    is_behind = (
        kept is not None
        and checkpoint.is_ours(PurePath(kept.path).name)
        and (kept.step or 0) < (result.step or 0)
    )
    return None if left_early and is_behind and spec.checkpoint.is_written else result


def choose(
    prepared: Prepared, fresh: bool, number: int | None = None
) -> tuple[Folder | None, Sequence[str]]:
    """Return the checkpoint that an attempt resumes from, and a line for each refused newer one.

    A run with a path in checkpoint.resume starts there, then resumes from its own checkpoints.

    Args:
        prepared: the run.
        fresh: whether it starts anew rather than from an earlier attempt.
        number: of the attempt; None for one that is not claimed yet.

    Raises:
        SpecError: when `checkpoint.resume` names a path that is no whole checkpoint, or all that
            there is was written in the middle of an epoch whose steps had other rows.
    """
    wanted, folder = prepared.spec.checkpoint.resume, prepared.folder
    earlier = [] if fresh else ancestors(folder, wanted, number)
    folders = [folder.checkpoints(each) for each in earlier]
    found, refused = _latest(folders)
    if found is None:
        if prepared.named:
            return _named(prepared.named), refused
        _check_order(folders, wanted)
    return found, refused


def ancestors(
    folder: RunFolder, wanted: str, number: int | None, *, surely: bool = False
) -> list[int]:
    """Return the attempts whose training an attempt goes on with, in order.

    Args:
        folder: of the run.
        wanted: its `checkpoint.resume`.
        number: of the attempt; None for the next one.
        surely: to leave out those of which that is not known.
    """
    if wanted == "never":
        return []
    lineage = folder.lineage(surely=surely)
    earlier = [each for each in lineage if number is None or each < number]
    if wanted == "latest":
        return earlier

    def began_so(each: int) -> bool:
        record = read_record(folder.attempt(each))
        told = record.spec.get("checkpoint") if record else None
        return isinstance(told, dict) and told.get("resume") == wanted

    # Who died before it said what it began with has begun nothing.
    began = [each for each in earlier if folder.checkpoints(each).exists()]
    return list(takewhile(began_so, reversed(began)))[::-1]


def ancestors_of(prepared: Prepared, number: int | None) -> list[int]:
    """Return `ancestors` of an attempt of a run."""
    return ancestors(prepared.folder, prepared.spec.checkpoint.resume, number)


def checkpoints_there(prepared: Prepared, number: int | None = None) -> list[Folder]:
    """Return the checkpoints that attempt `number` could resume from, newest first."""
    earlier = ancestors_of(prepared, number)
    return checkpoint.candidates([prepared.folder.checkpoints(each) for each in earlier])


def _latest(folders: Sequence[Folder]) -> tuple[Folder | None, Sequence[str]]:
    found, _, refused = checkpoint.newest(folders)
    if found:
        return found, refused
    for folder in reversed(folders):
        registered = ray_snapshot.latest(folder)
        if registered is None or checkpoint.is_ours(registered.name):
            continue  # ours was looked at
        if not checkpoint.is_of_run(registered):
            return registered, refused  # a checkpoint in the format of a plain Ray Train function
        try:  # ours, that an attempt took from an earlier one
            checkpoint.verify(registered)
        except checkpoint.BadCheckpointError as error:
            refused.append(f"checkpoint refused, trying the one before it: {error}")
        else:
            return registered, refused
    return None, refused


def keep_order(prepared: Prepared, found: Folder | None) -> tuple[Prepared, Sequence[str]]:
    """Return the run with rows ordered as its checkpoint had them, and what is said of others.

    Raises:
        SpecError: when its rows are others now, and an epoch is under way; it names --fresh.
    """
    manifest = checkpoint.read_manifest(found) if found else None
    if manifest is None or manifest.data is None:  # a function's own kind, an earlier release's
        return prepared, ()
    order = manifest.order if manifest.order == SAME_SLOTS else ORDER
    plans = {name: replace(plan, order=order) for name, plan in prepared.plans.items()}
    main = main_dataset(plans)
    steps = {name: place.step_in_epoch for name, place in manifest.positions.items()}
    if main is not None:
        steps[main] = manifest.position.step_in_epoch
    mid_pass = {name: step > 0 for name, step in steps.items() if name in plans}
    begun = {name: plan for name, plan in plans.items() if mid_pass.get(name)}
    _check_shuffles(begun, manifest.shuffle)
    plans |= _with_buffers(prepared.spec, begun, manifest.buffer_rows)
    plans, notes = description.keep_order(plans, manifest.data, mid_pass=mid_pass)
    return replace(prepared, plans=plans), notes


def _check_shuffles(plans: Mapping[str, DatasetPlan], modes: Mapping[str, str]) -> None:
    """Refuse a shuffle under which the rows of a pass in progress repeat or are missing.

    modes: by dataset, as the checkpoint has them; earlier releases recorded none.
    """
    problems = [
        Problem(f"{plan.field}.shuffle.mode", plan.spec.shuffle.mode, f"{modes[name]}, {REMEDY}")
        for name, plan in plans.items()
        if modes.get(name, plan.spec.shuffle.mode) != plan.spec.shuffle.mode
    ]
    if problems:
        raise SpecError(problems)


def _with_buffers(
    spec: TrainingRunSpec, plans: Mapping[str, DatasetPlan], buffer_rows: Mapping[str, int]
) -> dict[str, DatasetPlan]:
    """Return the passes in progress with the buffers of the checkpoint.

    Args:
        spec: whose mode auto may have chosen another buffer, as from other sizes of rows.
        plans: of the passes, by dataset.
        buffer_rows: by dataset; earlier releases recorded none.

    Raises:
        SpecError: for a buffer that the spec names, under which rows repeat or are missing.
    """
    differing = {
        name: plan
        for name, plan in plans.items()
        if buffer_rows.get(name, plan.shuffle_buffer_rows) != plan.shuffle_buffer_rows
    }
    problems = [
        Problem(
            f"{plan.field}.shuffle.bufferSize",
            str(plan.spec.shuffle.buffer_size),
            f"{buffer_rows[name]}, {REMEDY}",
        )
        for name, plan in differing.items()
        if spec.data.datasets[name].shuffle.mode != "auto"
    ]
    if problems:
        raise SpecError(problems)
    found = {}
    for name, plan in differing.items():
        shuffle = plan.spec.shuffle.model_copy(update={"buffer_size": buffer_rows[name]})
        found[name] = replace(plan, spec=plan.spec.model_copy(update={"shuffle": shuffle}))
    return found


def _check_order(folders: Sequence[Folder], wanted: str) -> None:
    """Refuse to forget what an earlier release trained where it left no end of an epoch."""
    for folder in checkpoint.candidates(folders):
        try:
            checkpoint.verify(folder)
        except checkpoint.OtherOrderError as error:
            expected = (
                f"a checkpoint at an epoch's end ({error}): train on to there with that release, "
                "or start over with --fresh; in a cluster, delete the run and apply it again"
            )
            raise SpecError([Problem("spec.checkpoint.resume", wanted, expected)]) from error
        except checkpoint.BadCheckpointError:
            continue


def _named(folder: Folder) -> Folder:
    try:
        checkpoint.verify(folder)
    except checkpoint.BadCheckpointError as error:
        expected = f"latest, never, or the path or address of a checkpoint ({error})"
        raise SpecError([Problem("spec.checkpoint.resume", str(folder), expected)]) from error
    return folder
