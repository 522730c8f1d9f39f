"""Sends a run to a cluster: as a job to Ray, or as an object to Kubernetes."""

from __future__ import annotations

import hashlib
import shlex
from typing import TYPE_CHECKING

from trainshed.jobs.ids import choose_id
from trainshed.planning.code import local_folder
from trainshed.planning.code_archive import FIELD, pack
from trainshed.planning.paths import home_of, locate
from trainshed.retry import READS
from trainshed_api.errors import Problem, SpecError
from trainshed_api.job import render_runtime_env
from trainshed_api.json_object import as_object
from trainshed_api.loading import set_value
from trainshed_api.names import JOB_ENTRYPOINT
from trainshed_api.spechash import spec_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trainshed.jobs.jobs_api import Jobs
    from trainshed.jobs.kubectl import Kubectl
    from trainshed.planning.code_archive import CodeArchive
    from trainshed.storage.folder import Folder
    from trainshed_api.loading import Document
    from trainshed_api.v1alpha1 import TrainingRunResource

# Below the storage. Archives are named by their content; one that no run names may be deleted.
CODE = "code"


def submit(jobs: Jobs, run: TrainingRunResource, beside: Path, *, fresh: bool) -> tuple[str, bool]:
    """Submit a run, unless its job is running; return its ID, and whether it was running.

    Args:
        jobs: of the cluster.
        run: to submit.
        beside: the folder of its file.
        fresh: start over instead of resuming.
    """
    environment = render_runtime_env(run, {})
    folder = local_folder(run.spec.code, beside)
    if folder:
        environment["working_dir"] = str(folder)
    job_id, runs = choose_id(run.metadata.name, spec_hash(run.spec), jobs.list())
    if not runs:
        jobs.submit(job_id, JOB_ENTRYPOINT + " --fresh" * fresh, environment)
    return job_id, runs


def submit_command(
    jobs: Jobs, name: str, words: Sequence[str], code: Path | None
) -> tuple[str, bool]:
    """Submit a command of Trainshed, unless its job is running.

    Args:
        jobs: of the cluster.
        name: with which the ID of the job begins.
        words: of the command, after `trainshed`.
        code: folder to upload as the working directory; None for none.

    Returns:
        The ID of the job, and whether it was running.
    """
    command = shlex.join(["python", "-m", "trainshed", *words])
    digest = hashlib.sha256(command.encode()).hexdigest()
    job_id, runs = choose_id(name, digest, jobs.list())
    if not runs:
        jobs.submit(job_id, command, {"working_dir": str(code)} if code else {})
    return job_id, runs


def apply_run(
    cluster: Kubectl, run: TrainingRunResource, document: Document, file: Path, storage: str | None
) -> Iterator[str]:
    """Upload the code of a run and apply it; yield a line for each.

    Args:
        cluster: in which it trains.
        run: to apply.
        document: the run as it is written, without defaults.
        file: of the run.
        storage: address of the bucket for code; None for TRAINSHED_HOME.

    Raises:
        SpecError: if its code cannot be uploaded.
        ClusterError: if the cluster refuses it.
    """
    folder = local_folder(run.spec.code, file.absolute().parent)
    if folder:
        _check_beside(folder, file)
        package, bucket = pack(folder), _storage_of(run, file, storage) / CODE
        yield _send(package, bucket)
        document = set_value(document, FIELD, str(bucket / package.name))
    if "suspend" not in as_object(document.get("spec")):
        # A merge would leave the value that `stop` has set.
        document = set_value(document, "spec.suspend", "false")
    yield cluster.apply(document)


def _check_beside(folder: Path, file: Path) -> None:
    """Refuse a folder outside that of the file: another person may have written it."""
    if not folder.resolve().is_relative_to(file.resolve().parent):
        expected = (
            f"a folder below that of {file}: this one is brought to a bucket that others read"
        )
        raise SpecError([Problem(FIELD, str(folder), expected)])


def _storage_of(run: TrainingRunResource, file: Path, named: str | None) -> Folder:
    home = home_of(file)
    found = locate(named, home, "--storage") if named else home
    if found.path:
        # Not the file's own: whoever wrote it would say where the reader's code goes.
        expected = (
            "code in an image, or a bucket to bring it to, such as s3://bucket/runs, that "
            "--storage or TRAINSHED_HOME names"
        )
        raise SpecError([Problem(FIELD, run.spec.code.working_dir, expected)])
    return found


def _send(package: CodeArchive, folder: Folder) -> str:
    """Have a package in a folder, and say so."""
    there = folder.stat(package.name)
    if there is None or there.bytes != len(package.content):
        READS.read(lambda: folder.write(package.name, package.content))
    size = f"{package.files} files, {len(package.content) / 1024:.0f} KiB"
    return f"code: {folder / package.name} ({size}{', there already' if there else ''})"
