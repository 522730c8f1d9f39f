"""`trainshed apply FILE`: apply a TrainingRun to a cluster, with the code in its folder."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_file import file_options
from trainshed.planning.code import local_folder
from trainshed.planning.code_archive import FIELD, pack
from trainshed.planning.paths import home_of, locate
from trainshed.retry import READS
from trainshed_api.errors import Problem, SpecError
from trainshed_api.loading import load_file, load_written
from trainshed_api.names import EXIT_APPLICATION, EXIT_SUCCEEDED

if TYPE_CHECKING:
    from pathlib import Path

    from trainshed.jobs.kubectl import Kubectl
    from trainshed.planning.code_archive import CodeArchive
    from trainshed.storage.folder import Folder
    from trainshed_api.v1alpha1 import TrainingRun

SECONDS_BETWEEN_LOOKS = 2.0
# Below the storage. Archives are named by their content; one that no run names may be deleted.
CODE = "code"


@click.command()
@file_options
@click.option("--storage", metavar="ADDRESS", help="Bucket for code: the chart's storage.")
@click.option("--context", help="Context of the kubeconfig. Default: the current one.")
@click.option("-n", "--namespace", help="Namespace if FILE names none.")
@click.option(
    "--follow/--no-wait", default=True, help="Show progress until the run ends, or return at once."
)
def apply(  # noqa: PLR0913, PLR0917 - the options of a command
    file: Path,
    settings: tuple[str, ...],
    storage: str | None,
    context: str | None,
    namespace: str | None,
    follow: bool,
) -> None:
    """Check FILE, upload its code.workingDir, apply it, and follow the run.

    The code is uploaded to the bucket of --storage or TRAINSHED_HOME, unless the same content is
    there already. Files that git ignores or that look like keys are not uploaded. Ctrl-C stops
    following; the run continues.
    """
    from trainshed.jobs.kubectl import Kubectl

    run = load_file(file, settings)
    folder = local_folder(run.spec.code, file.absolute().parent)
    if folder:
        _check_beside(folder, file)
        sent = _send(pack(folder), _storage_of(run, file, storage) / CODE)
        settings = (*settings, f"spec.code.workingDir={sent}")
    cluster = Kubectl(context, namespace)
    click.echo(cluster.apply(load_written(file, settings)))
    if follow:
        sys.exit(_follow(cluster, run.metadata.name, run.metadata.namespace))


def _check_beside(folder: Path, file: Path) -> None:
    """Refuse a folder outside that of the file: another person may have written it."""
    if not folder.resolve().is_relative_to(file.resolve().parent):
        expected = (
            f"a folder below that of {file}: this one is brought to a bucket that others read"
        )
        raise SpecError([Problem(FIELD, str(folder), expected)])


def _storage_of(run: TrainingRun, file: Path, named: str | None) -> Folder:
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
    """Have a package in a folder and return its address."""
    there = folder.stat(package.name)
    if there is None or there.bytes != len(package.content):
        READS.read(lambda: folder.write(package.name, package.content))
    size = f"{package.files} files, {len(package.content) / 1024:.0f} KiB"
    click.echo(f"code: {folder / package.name} ({size}{', there already' if there else ''})")
    return str(folder / package.name)


def _follow(cluster: Kubectl, name: str, namespace: str | None) -> int:
    """Print what changes until the run is over; return the exit code."""
    from trainshed.jobs.kubectl import say_status

    said = ""
    while True:
        status = cluster.status(name, namespace)
        line = say_status(status)
        if line != said:
            click.echo(line)
            said = line
        if status.phase in ("Succeeded", "Failed"):
            return EXIT_SUCCEEDED if status.phase == "Succeeded" else EXIT_APPLICATION
        time.sleep(SECONDS_BETWEEN_LOOKS)
