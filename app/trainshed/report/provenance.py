"""List what a run was made from: code, versions, machine, data. Pure."""

from collections.abc import Iterator

from trainshed.display.formatting import say_bytes, say_moment
from trainshed.report.load import RunData
from trainshed_api.records import DataRecord

Fact = tuple[str, str]


def list_provenance(run: RunData) -> dict[str, tuple[Fact, ...]]:
    """Return the known facts by heading."""
    provenance, machine = run.provenance, run.provenance.machine
    return {
        "Run": tuple(_run_facts(run)),
        "Data": tuple(_data_facts(provenance.data)),
        "Versions": tuple(provenance.versions.items()),
        "Machine": (
            ("CPUs", str(machine.cpus)),
            ("memory", say_bytes(machine.memory_bytes)),
            ("GPUs", str(machine.gpus) if machine.gpus else "none"),
        ),
    }


def _run_facts(run: RunData) -> Iterator[Fact]:
    provenance = run.provenance
    yield "created", say_moment(provenance.created_at)
    if run.result:
        yield "finished", say_moment(run.result.finished_at)
    yield "spec hash", provenance.spec_hash
    if git := provenance.git:
        yield "code", git.commit + (" with uncommitted changes" if git.dirty else "")
    else:
        yield "code", "not under git"
    if run.result and run.result.checkpoint:
        yield "checkpoint", run.result.checkpoint.path
    for trace in run.traces:
        yield "profile", trace


def _data_facts(data: dict[str, DataRecord]) -> Iterator[Fact]:
    for name, dataset in data.items():
        files = f"{dataset.files:,} file{'s' if dataset.files != 1 else ''}"
        rows = "" if dataset.rows is None else f"{dataset.rows:,} rows, "
        size = f"{rows}{files}, {say_bytes(dataset.bytes)}"
        yield name, f"{size}, fingerprint {dataset.fingerprint}"
