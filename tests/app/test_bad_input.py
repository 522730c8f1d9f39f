"""What is wrong is said in one line before anything starts: exit 2, no Ray, storage untouched."""

import os
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.app.bad_runs import CASES, Case, Spec, make_data, make_spec, workers
from tests.app.builders_rows import write_rows
from tests.app.cli_here import trainshed_here
from tests.app.processes import Mark, children
from tests.app.ray_run import run_folder, trainshed, write_run
from trainshed.planning.preflight import RunLocation, prepare
from trainshed.storage.disk import Disk
from trainshed_api.loading import load_file
from trainshed_api.names import EXIT_INVALID, EXIT_SUCCEEDED, EXIT_TRY_AGAIN

ROWS = 60
USERS_MODULE = """
def train(config):
    raise AssertionError("nothing may start")
def fail(batch):
    return batch["z"]
def read_more(batch):
    raise OSError(116, "Stale file handle", "/data/more")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with rows and a user's module, where the commands are typed."""
    write_rows(tmp_path / "rows", ROWS)
    (tmp_path / "users_module.py").write_text(USERS_MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "users_module", raising=False)
    monkeypatch.delenv("TRAINSHED_HOME", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return tmp_path


def content(folder: Path) -> dict[str, bytes | None]:
    """Return all there is but what Python leaves of the modules that it imports."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if "__pycache__" not in path.parts
    }


def ray_runs_here() -> bool:
    """Say whether this process has started or joined a Ray."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_it_is_said_before_anything_starts(
    case: Case,
    folder: Path,
) -> None:
    if case.not_as_root and os.geteuid() == 0:
        pytest.skip(case.not_as_root)
    case.before(folder)
    file = write_run(folder, "test", **case.spec)
    before, born = content(folder), children()

    said = trainshed_here("run", str(file), *case.words)

    assert (said.code, said.stdout) == (EXIT_INVALID, "")
    assert len(said.stderr.splitlines()) == 1, said.stderr
    for want in ["error: ", *case.want]:
        assert want.replace("FOLDER", str(folder)) in said.stderr
    assert content(folder) == before
    assert not ray_runs_here()
    assert children() <= born


def test_a_home_of_a_kind_that_is_not_known_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken for a path it would be one that goes with the Pod, and every run with it."""
    monkeypatch.setenv("TRAINSHED_HOME", "hdfs://server/home")
    file = write_run(folder, "test", **make_spec())

    said = trainshed_here("run", str(file))
    assert said.code == EXIT_INVALID
    assert said.stderr == (
        "error: TRAINSHED_HOME: got hdfs://server/home; expected a path, file://, or a bucket's "
        "address with one of s3://, gs://, abfs://, abfss://, az://\n"
    )


def test_every_mistake_is_said_at_once(folder: Path) -> None:
    file = write_run(folder, "test", **make_spec(epochs=0, sead=1, precision="double"))

    said = trainshed_here("run", str(file))
    assert said.code == EXIT_INVALID
    assert sorted(said.stderr.splitlines()) == [
        f"error: {file}:1: spec.epochs: got 0; expected an integer >= 1 and <= 2147483647",
        f'error: {file}:1: spec.precision: got "double"; expected one of float32, tensorfloat32, '
        "bfloat16, float16",
        f'error: {file}:1: spec.sead: unknown field; did you mean "seed"?',
    ]


def test_a_value_of_the_command_line_has_no_line_of_the_file(folder: Path) -> None:
    file = write_run(folder, "test", **make_spec())

    said = trainshed_here("validate", str(file), "--set", "spec.epochs=0")
    assert said.stderr.startswith("error: spec.epochs: got 0; expected an integer")


def test_a_run_that_another_driver_is_at_work_on_is_left_alone(folder: Path) -> None:
    file = write_run(folder, "test", **make_spec())
    prepared = prepare(load_file(file), RunLocation(Disk(folder)))
    with closing(prepared.folder.claim(prepared.spec_hash, fresh=False)):
        before = content(folder)

        said = trainshed_here("run", str(file))
        assert said.code == EXIT_TRY_AGAIN
        assert f"attempt 1 is held by process {os.getpid()} on" in said.stderr
        new = content(folder).keys() - before.keys()
        assert not {file for file in new if "heartbeat" not in str(file)}  # which alone goes on


def test_a_storage_that_fails_is_no_mistake_in_the_spec(folder: Path) -> None:
    data = make_data(transforms=[{"use": "users_module:read_more"}])
    file = write_run(folder, "test", **make_spec(data=data))

    said = trainshed_here("run", str(file))
    assert said.code == EXIT_TRY_AGAIN
    assert said.stderr == (
        "error: spec.data.datasets.train.transforms[0].use: users_module:read_more raised OSError: "
        "[Errno 116] Stale file handle: '/data/more'\n"
    )


@dataclass(frozen=True)
class FileCase:
    """What a file holds, None for no file, and what is said of it."""

    text: str | None
    want: str


FILES: dict[str, FileCase] = {
    "a missing file": FileCase(None, "error: run.yaml: No such file or directory"),
    "no YAML": FileCase("spec: {a: 1\n", "error: run.yaml"),
}


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_a_file_that_is_no_run_is_named(
    case: FileCase,
    folder: Path,
) -> None:
    if case.text is not None:
        Path("run.yaml").write_text(case.text)
    before = content(folder)

    said = trainshed_here("run", "run.yaml")
    assert said.code == EXIT_INVALID
    assert said.stderr.startswith(case.want)
    assert len(said.stderr.splitlines()) == 1
    assert content(folder) == before


@pytest.mark.parametrize("command", ["run", "validate", "explain"])
def test_all_commands_say_the_same(
    command: str,
    folder: Path,
) -> None:
    file = write_run(folder, "test", **make_spec(data=make_data("nowhere")))

    said = trainshed_here(command, str(file))
    assert said.code == EXIT_INVALID
    assert said.stderr == (
        f"error: {file}:1: spec.data.datasets.train.read.path: got {folder}/nowhere; expected a "
        "parquet file or folder that exists\n"
    )


def test_what_is_right_passes_and_cpu_does_without_gpus(folder: Path) -> None:
    file = write_run(folder, "test", **make_spec(workers=workers(gpu=99)))
    before = content(folder)

    assert trainshed_here("validate", str(file)).code == EXIT_INVALID
    said = trainshed_here("validate", str(file), "--cpu")
    assert said.code == EXIT_SUCCEEDED
    assert "test is valid" in said.stdout
    assert content(folder) == before


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["report", "rows"], "rows is not the folder of a run: it has no run.json"),
        (["report", "nowhere"], "Invalid value for 'FOLDER': Directory 'nowhere' does not exist"),
        (["data", "digits", "--to", "data"], "Invalid value for --to: data/digits holds {"),
        (["data", "digits", "--to", "users_module.py/x"], "Invalid value for --to: [Errno 20] Not"),
        (["run"], "Missing argument 'FILE'"),
        (["trian", "run.yaml"], "No such command 'trian'"),
    ],
)
def test_wrong_words_are_said_as_such(
    folder: Path,
    words: list[str],
    want: str,
) -> None:
    (folder / "data" / "digits").mkdir(parents=True)
    before = content(folder)

    said = trainshed_here(*words)
    assert said.code == EXIT_INVALID
    assert want in said.stderr
    assert content(folder) == before


# --------------------------------------------------- as processes of their own

IS_RAY_IMPORTED = """
import atexit, sys
atexit.register(lambda: print("imported:", *{"ray", "torch"} & {*sys.modules}, file=sys.stderr))
from trainshed.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        (make_spec(train="tests.app.processes:children", epoch=3), "spec.epoch: unknown field"),
        (
            make_spec(train="tests.app.processes:children", data=make_data("nowhere")),
            "spec.data.datasets.train.read.path: got",
        ),
    ],
    ids=["in the file", "beside it"],
)
def test_a_process_starts_no_other_and_does_not_import_ray(
    folder: Path, spec: Spec, want: str
) -> None:
    mark = Mark()
    file = write_run(folder, "test", **spec)
    output = trainshed("run", str(file), environment=mark.environment, program=IS_RAY_IMPORTED)

    assert output.code == EXIT_INVALID
    error, imported = output.stderr.splitlines()
    assert error.startswith(f"error: {file}:1: {want}")
    assert imported == "imported:"
    assert mark.processes() == []
    assert not run_folder(file).exists()
