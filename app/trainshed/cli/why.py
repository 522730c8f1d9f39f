"""`trainshed why NAME`: the cause of what a run does, its chain, and the next command."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from trainshed.cli.run_location import storage_errors
from trainshed.display.formatting import say_lines_plainly
from trainshed.display.start_phases import say_start
from trainshed.jobs.cluster_error import ClusterError
from trainshed.planning.paths import home_of, locate
from trainshed.planning.run_folders import DEFAULT_STORAGE, PROJECT_FILE, run_file, run_folder
from trainshed.storage.driver_identity import folder_of
from trainshed_api.errors import Problem, SpecError
from trainshed_api.json_object import as_object, text
from trainshed_api.loading import load_file, load_written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trainshed.causes.chain import Diagnosis
    from trainshed.storage.folder import Folder

# After which a request to the API server fails; most are sent at once.
SECONDS = 2.0


@click.command()
@click.argument("named", metavar="NAME|FILE|FOLDER")
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="Format of the answer."
)
@click.option("-n", "--namespace", help="Namespace of a TrainingRun in Kubernetes.")
@click.option("--context", help="Context of the kubeconfig. Default: the current one.")
def why(named: str, output: str, namespace: str | None, context: str | None) -> None:
    """Say why a run failed, waits or is slow, and which command to type next.

    NAME is a run on this machine, its TrainingRun file, or the path or address of its folder; else
    a TrainingRun in Kubernetes. The first line of the answer names the folder or the namespace.
    With --namespace or --context only Kubernetes is asked.
    """
    is_remote = namespace is not None or context is not None
    found = None if is_remote else _local(named)
    if found is None or (found.state == "NotStarted" and not found.culprits):
        try:
            found = _in_kubernetes(named, namespace, context)
        except ClusterError as error:
            if is_remote:
                raise
            if found is None:
                reason = str(error).rpartition("\n")[2]  # kubectl logs each try before it
                expected = "the name, file or folder of a run on this machine, or a TrainingRun"
                raise SpecError([Problem("NAME", named, f"{expected} ({reason})")]) from error
    said = json.dumps(_as_json(found)) if output == "json" else "\n".join(_lines(found))
    click.echo(say_lines_plainly(said))


def _local(named: str) -> Diagnosis | None:
    """Return the diagnosis of a run on this machine or in a bucket; None if there is no such."""
    from trainshed.causes import stored_run

    file = run_file(named)
    problems: tuple[str, ...] = ()
    try:
        folder = run_folder(named, "NAME")
    except SpecError as error:
        if file is None:
            raise
        folder, problems = _likely_folder(file), _located(error, file)
    with storage_errors():
        run = stored_run.read(folder)
    if not (file or run.attempt):
        return None
    if file and not problems and (not run.attempt or file.stat().st_mtime > run.began):
        # What `trainshed run` refuses leaves no attempt.
        problems = _problems(file)
    shown = str(file) if file else _file_here(run.name)
    return stored_run.explain(replace(run, problems=problems), named, shown)


def _likely_folder(file: Path) -> Folder:
    """Return the folder of the run of an invalid file, as far as it can be read."""
    home, name = home_of(file), file.stem
    folder = home / DEFAULT_STORAGE
    with suppress(SpecError, ValueError, OSError):
        written = load_written(file)
        name = text(as_object(written.get("metadata")), "name") or name
        storage = text(as_object(written.get("spec")), "storage")
        folder = locate(storage, home, "spec.storage") if storage else folder
    return folder_of(name, None, folder)


def _file_here(name: str) -> str:
    """Return the TrainingRun file of the working directory if it is that of the run."""
    with suppress(SpecError):
        if load_file(PROJECT_FILE).metadata.name == name:
            return PROJECT_FILE
    return "FILE"


def _in_kubernetes(named: str, namespace: str | None, context: str | None) -> Diagnosis:
    """Return the diagnosis of a TrainingRun, by its name or its file."""
    from trainshed.causes import cluster_run
    from trainshed.jobs.kubectl import Kubectl

    file, name = run_file(named), named
    if file:
        metadata = load_file(file).metadata
        name, namespace = metadata.name, metadata.namespace or namespace
    options = (
        f"{f' --context {context}' if context else ''}{f' -n {namespace}' if namespace else ''}"
    )
    facts = cluster_run.read(Kubectl(context, namespace, SECONDS), name)
    return cluster_run.explain(facts, name, options)


def _problems(file: Path) -> tuple[str, ...]:
    from trainshed.cli.run_file import check
    from trainshed.data.sources.errors import DataError

    try:
        check(file, load_file(file))
    except SpecError as error:
        return _located(error, file)
    except DataError as error:
        return (str(error),)
    return ()


def _located(error: SpecError, file: Path) -> tuple[str, ...]:
    from trainshed.cli.run_file import located

    return tuple(str(located(problem, file, ())) for problem in error.problems)


def _lines(found: Diagnosis) -> Iterator[str]:
    """Yield the answer for people: the cause, the chain, events, log lines, and what to type."""
    yield f"{found.run}: {found.state} ({found.where})"
    yield f"cause: {found.cause}"
    yield ""
    for link in found.links:
        yield f"  {link.state:<8}{link.name:<10}{link.says}".rstrip()
        yield from (f"{'':<20}{each}" for each in link.evidence)
    if found.start:
        yield f"\nstart: {say_start(found.start)}"
    for title, lines in (("events", found.events), ("log", found.log)):
        if lines:
            yield f"\n{title}:"
            yield from (f"  {line}" for line in lines)
    if found.page:
        yield f"\ndocs: {found.page}"
    if found.next:
        yield f"\nnext: {found.next}"


def _as_json(found: Diagnosis) -> dict[str, object]:
    """Return the answer for programs."""
    links = [
        {"name": each.name, "state": each.state, "says": each.says, "evidence": each.evidence}
        for each in found.links
    ]
    broken = [link.name for link in found.culprits]
    return {
        "run": found.run,
        "where": found.where,
        "state": found.state,
        "cause": found.cause,
        "link": broken[0] if broken else None,
        "links": links,
        "start": dict(found.start),
        "events": found.events,
        "log": found.log,
        "docs": found.page,
        "next": found.next,
    }
