"""The report as a reader gets it: one file, complete, and nothing in it that could do harm."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.report.pages import ParsedPage, write_page
from tests.builders_run import (
    PIXEL,
    RunFolderBuilder,
    make_checkpoint,
    make_ended_run,
    make_evaluated,
    make_finished,
    make_progress,
    make_result,
    make_resume_point,
    make_started,
)
from trainshed.report import NoRunFolderError, write_report
from trainshed.report.history import list_checkpoints
from trainshed.report.load import MAX_PICTURE_BYTES, read_run
from trainshed.storage.disk import Disk
from trainshed.storage.folder import Folder
from trainshed.storage.run_folder import REPORT
from trainshed_api.progress import (
    AnyEvent,
    BadRecords,
    CheckpointSaved,
    Evaluated,
    ResumePoint,
    Stopping,
    WarningEvent,
    WorkersLost,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

HOSTILE = '"><script>alert(1)</script><img src=http://evil.test/x onerror=alert(1)>{{ 7*7 }}'


@dataclass(frozen=True)
class Case:
    """A folder and what a reader must find, or must not find, in its report."""

    make: Callable[[], RunFolderBuilder]
    want: list[str]
    want_not: list[str] = field(default_factory=list)


def make_resumed_run() -> RunFolderBuilder:
    """An attempt that was interrupted at step 30, and one that went on from step 20."""
    first: list[AnyEvent] = [make_started(), *(make_progress(step) for step in (10, 20, 30))]
    lost = WorkersLost(
        time=1_700_000_015.0, message="rank 1 died.", resumed_from=make_resume_point(40)
    )
    second: list[AnyEvent] = [
        make_started(2, resumed_step=20),
        *(make_progress(step) for step in (30, 40, 50)),
        lost,
        *(make_progress(step) for step in (50, 60)),
    ]
    finished = make_finished()
    return RunFolderBuilder(
        attempts=[first, [*second, finished]], result=make_result(finished, attempt=2)
    )


def make_entrypoint_run() -> RunFolderBuilder:
    """A script of the user's that reported nothing."""
    finished = make_finished("Stopped", message="Interrupted", metrics={}, report=None)
    stopping = Stopping(time=1_700_000_015.0, reason="Interrupted", grace_seconds=60)
    return RunFolderBuilder(
        spec={"entrypoint": ["python", "train_ray_ddp.py"]},
        attempts=[[make_started(), stopping, finished]],
        result={**make_result(finished), "step": 0, "steps": None, "samplesPerSecond": None},
    )


def make_waiting_run() -> RunFolderBuilder:
    """A run that waited for data."""
    run = make_ended_run()
    stage: JsonValue = {
        "dataset": "train",
        "stage": "reading parquet",
        "seconds": 12.5,
        "rows": 10_000,
    }
    told: dict[str, JsonValue] = {
        "waitsFor": "waiting for data takes 42 % of the time",
        "data": [stage],
    }
    return replace(run, result={**(run.result or {}), **told})


def make_epochs_run() -> RunFolderBuilder:
    """A script that reports its epochs, lost a worker once, and counts no steps."""
    back = ResumePoint(checkpoint="c", epoch=1)
    events: list[AnyEvent] = [make_started()]
    for epoch in (1, 2):
        events += [
            make_progress(epoch=epoch, step=None, steps=None),
            Evaluated(time=1_700_000_020.0, epoch=epoch, metrics={"valid.accuracy": 0.95}),
            CheckpointSaved(time=1_700_000_021.0, epoch=epoch, path="c"),
        ]
    lost = WorkersLost(time=1_700_000_021.5, message="rank 1 died.", resumed_from=back)
    return RunFolderBuilder(attempts=[[*events[:4], lost, *events[4:], make_finished()]])


def make_run_over_bad_rows() -> RunFolderBuilder:
    """An attempt that met three rows that cannot be used, and one that went on and met one."""

    def met(rows: int, *first: str) -> BadRecords:
        return BadRecords(time=1_700_000_012.0, dataset="train", rows=rows, first=first)

    first: list[AnyEvent] = [make_started(), met(2, "a.csv: byte 9: <broken>"), met(3)]
    second: list[AnyEvent] = [make_started(2, resumed_step=20), met(1, "b.csv: byte 7: late")]
    return RunFolderBuilder(attempts=[first, [*second, make_finished()]])


CASES: dict[str, Case] = {
    "rows that were left out, as the attempt says that met most": Case(
        make_run_over_bad_rows,
        ["Rows that were left out", "train 3 a.csv: byte 9: <broken>"],
        ["b.csv"],
    ),
    "a run that succeeded shows its key figures": Case(
        make_ended_run,
        ["digits Succeeded", "Best valid.accuracy 0.95", "5,173", "Wall time 20 s"],
        ["Goodput"],
    ),
    "a run that is not mostly its start shows its goodput": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started()]],
            result=make_result(make_finished().model_copy(update={"wall_seconds": 600.0})),
        ),
        ["Goodput 50 %"],
    ),
    "an attempt began as long before its end as it took": Case(
        lambda: RunFolderBuilder(attempts=[[make_started(), make_finished()]]),
        ["1 2023-11-14 22:13:22 UTC the beginning 2"],
    ),
    "rounds of boosting are called rounds": Case(
        lambda: RunFolderBuilder(
            attempts=[
                [
                    make_started().model_copy(update={"step_name": "round"}),
                    make_progress(120),
                    make_evaluated(),
                ]
            ]
        ),
        ["Best valid.accuracy 0.95 round 135", "Rounds 120 / 225"],
        ["Steps"],
    ),
    "a run that failed shows its message": Case(
        lambda: make_ended_run("Failed", "loss is NaN at step 12"),
        ["digits Failed", "loss is NaN at step 12"],
    ),
    "a run that was stopped says so": Case(
        lambda: make_ended_run("Stopped", "Interrupted"), ["digits Stopped", "Interrupted"]
    ),
    "a run without a result is running": Case(
        lambda: RunFolderBuilder(attempts=[[make_started(), make_progress()]]),
        ["digits Running", "Time left 42 s", "still running", "added up when the run ends"],
    ),
    "a run that never started an attempt": Case(
        RunFolderBuilder, ["No attempt has started yet", "reported no numbers yet"]
    ),
    "a script that reported nothing": Case(
        make_entrypoint_run,
        ["python train_ray_ddp.py", "has reported no numbers", "Asked to stop (Interrupted)"],
        ["Samples/s", "Steps"],
    ),
    "a script that reports epochs and no steps": Case(
        make_epochs_run,
        ["Best valid.accuracy 0.95 epoch 1", "Resumed from epoch 1."],
        ["Steps", "done twice"],
    ),
    "a newer attempt makes an older result void": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started(), make_finished("Failed")], [make_started(2)]],
            result=make_result(make_finished("Failed")),
        ),
        ["digits Running"],
        ["digits Failed"],
    ),
    "resumes count the steps that were done again": Case(
        make_resumed_run,
        [
            "20 done twice",
            "resumed here",
            "step 20",
            "rank 1 died. Resumed from step 40.",
            "cut off",
        ],
    ),
    "the time budget names every bucket and sums to the whole": Case(
        make_ended_run,
        [
            "training 10.0 50 %",
            "waiting for data 1.0 5.0 %",
            "evaluating 2.0 10 %",
            "starting 4.0 20 %",
            "lost 3.0 15 %",
        ],
        ["not accounted for"],
    ),
    "what rows took, and what training waited for": Case(
        make_waiting_run,
        ["waiting for data takes 42 %", "reading parquet train 12.5 10,000 1.25 ms"],
    ),
    "where a run came from": Case(
        make_ended_run,
        [
            "c2314525d1f0 with uncommitted changes",
            "1,437 rows, 2 files, 182 kB, fingerprint a41f",
            "ray 2.60.0",
            "memory 25.3 GB",
            "train: trainshed.programs.vision:train",
        ],
    ),
    "the same warning many times is one line": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started(), *[WarningEvent(time=1.0, message="slow")] * 500]]
        ),
        ["Warning: slow (500 times)"],
    ),
    "an attempt that did not read its checkpoint began at the start": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started(1, resumed_step=97), make_started(1), make_progress(15)]]
        ),
        ["the beginning"],
        ["step 97"],
    ),
    "a line that was interrupted is left out": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started(), make_evaluated()]], last_line='{"event":"progr'
        ),
        ["valid.accuracy"],
    ),
    "wrong predictions are counted": Case(
        lambda: RunFolderBuilder(
            attempts=[[make_started()]],
            examples={
                "valid": [
                    {"image": "valid-0.png", "caption": "3", "good": True},
                    {"image": "valid-1.png", "caption": "3 (predicted 5)", "good": False},
                ]
            },
        ),
        ["1 of 2 right", "3 (predicted 5)"],
    ),
    "a checkpoint that is gone is marked": Case(
        lambda: RunFolderBuilder(attempts=[[make_started(), make_checkpoint(path="HERE/gone/c")]]),
        ["gone/c", "removed"],
    ),
    "a metric that is never a number is still listed": Case(
        lambda: RunFolderBuilder(attempts=[[make_started(), make_evaluated(metrics={"f1": None})]]),
        ["f1"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_report_tells(case: Case, place: Folder) -> None:
    page = write_page(case.make().write(place))

    assert [words for words in case.want if words not in page.text] == []
    assert [words for words in case.want_not if words in page.text] == []
    assert_opens_offline(page)


def assert_opens_offline(page: ParsedPage) -> None:
    assert [a for a in page.addresses if not a.startswith("data:")] == []
    assert page.unclosed == []
    assert "script" not in page.tags
    assert [n for n in page.numbers if "nan" in n or "inf" in n] == []


def test_names_and_messages_of_users_stay_text(place: Folder) -> None:
    finished = make_finished("Failed", message=HOSTILE, metrics={HOSTILE: 1.0})
    events: list[AnyEvent] = [
        make_started(),
        make_progress(metrics={HOSTILE: 0.5}),
        make_evaluated(),
    ]
    folder = RunFolderBuilder(
        name=HOSTILE,
        spec={"config": {HOSTILE: HOSTILE}},
        attempts=[[*events, WarningEvent(time=1.0, message=HOSTILE), finished]],
        result=make_result(finished),
        examples={"valid": [{"image": "valid-0.png", "caption": HOSTILE, "good": False}]},
    ).write(place)

    page = write_page(folder)

    assert page.text.count(HOSTILE) >= 6
    assert_opens_offline(page)


def test_every_picture_and_chart_has_words_for_those_who_cannot_see_it(place: Folder) -> None:
    run = make_ended_run()
    run.examples = {"valid": [{"image": "valid-0.png", "caption": "3", "good": False}]}

    page = write_page(run.write(place))

    assert "Example of valid: 3, wrong" in page.alternatives
    assert any(words.startswith("loss over step: loss from 0.31") for words in page.alternatives)
    assert all(page.alternatives)


def test_captions_cannot_name_files_outside_the_examples(place: Folder) -> None:
    run = make_ended_run()
    run.examples = {"valid": [{"image": "../../../secret.png", "caption": "leak"}]}
    folder = run.write(place)
    folder.write("secret.png", b"\x89PNG\r\n\x1a\n" + b"0" * 20)

    assert "leak" not in write_page(folder).text


def test_long_runs_stay_small(place: Folder) -> None:
    events = [make_progress(step, metrics={"loss": step % 7 + 0.1}) for step in range(12_000)]
    folder = RunFolderBuilder(attempts=[[make_started(), *events]]).write(place)

    write_report(folder)

    assert len(folder.read(REPORT)) < 250_000


def test_writing_again_replaces_the_report_and_leaves_nothing_else(place: Folder) -> None:
    folder = make_ended_run().write(place)
    before = [each.name for each in folder.tree()]

    write_report(folder)
    first = folder.read(REPORT)
    write_report(folder)

    assert folder.read(REPORT) == first
    assert [each.name for each in folder.tree()] == sorted([*before, "report.html"])


def test_checkpoints_are_marked_that_are_not_there_any_more(place: Folder) -> None:
    kept = place / "run/attempts/1/ray"
    events = [make_checkpoint(step, str(kept / f"c{step}")) for step in (1, 2, 3)]
    run = RunFolderBuilder(attempts=[[make_started(), *events]]).write(place)
    for name in ("c1", "c3"):
        (kept / name).write("state.pt", b"")

    rows = list_checkpoints(read_run(run))

    assert [(saved.path.removeprefix(f"{kept}/"), marks) for saved, marks in rows] == [
        ("c3", []),
        ("c2", ["removed"]),
        ("c1", []),
    ]


@pytest.mark.parametrize("path", ["hdfs://server/c", "/no\0where/c", "s3:///c", "somewhere/c"])
def test_what_became_of_a_checkpoint_elsewhere_is_not_said(path: str, tmp_path: Path) -> None:
    events: list[AnyEvent] = [make_started(), make_checkpoint(path=path)]
    run = RunFolderBuilder(attempts=[events]).write(Disk(tmp_path))

    [(_, marks)] = list_checkpoints(read_run(run))

    assert marks == []


@pytest.mark.usefixtures("in_bucket")
def test_a_bucket_of_checkpoints_that_is_gone_keeps_nobody_from_the_rest(tmp_path: Path) -> None:
    saved = make_checkpoint(path="s3://no-such-bucket/ray/c")
    run = RunFolderBuilder(attempts=[[make_started(), saved]]).write(Disk(tmp_path))

    assert "s3://no-such-bucket/ray/c" in write_page(run).text


def test_a_file_where_a_run_is_looked_for_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")

    with pytest.raises(NoRunFolderError, match="is not the folder of a run"):
        write_report(Disk(tmp_path / "run"))


def test_pictures_that_are_too_large_or_none_are_left_out(place: Folder) -> None:
    run = make_ended_run()
    captions = [{"image": f"valid-{number}.png", "caption": "x"} for number in range(4)]
    run.examples = {"valid": captions}
    folder = run.write(place)
    examples = folder / "attempts/1/examples"
    examples.write("valid-0.png", PIXEL + bytes(MAX_PICTURE_BYTES))
    examples.write("valid-1.png", b"GIF89a")
    examples.delete("valid-2.png")
    examples.write("broken.json", b"[")

    [gallery] = read_run(folder).galleries

    assert (gallery.name, len(gallery.pictures), gallery.total) == ("valid", 1, 4)


NO_RUN: dict[str, tuple[dict[str, str], str]] = {
    "an empty folder": ({}, "is not the folder of a run: it has no run.json"),
    "a run.json that is no JSON": ({"run.json": "{"}, "run.json cannot be read: the whole file"),
    "a run.json of something else": ({"run.json": "{}"}, "run.json cannot be read: name"),
    "a result.json of something else": (
        {"result.json": '{"outcome": "Great"}'},
        "result.json cannot be read: outcome",
    ),
}


@pytest.mark.parametrize(("files", "want"), NO_RUN.values(), ids=NO_RUN.keys())
def test_folder_without_a_run_is_refused(files: dict[str, str], want: str, place: Folder) -> None:
    for name, text in files.items():
        place.write(name, text.encode())

    with pytest.raises(NoRunFolderError, match=want):
        write_report(place)

    assert place.stat(REPORT) is None


NAMES = st.one_of(st.sampled_from(["loss", "valid.loss", "valid.accuracy"]), st.text(max_size=12))
VALUES = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
METRICS = st.dictionaries(NAMES, VALUES, max_size=4)
STEPS = st.integers(0, 10**7)


def make_events() -> st.SearchStrategy[list[AnyEvent]]:
    """Any events in any order, as after crashes, clock jumps and resumes."""
    resumes = st.none() | STEPS.map(make_resume_point)
    one: st.SearchStrategy[AnyEvent] = st.one_of(
        st.builds(make_started, resumed_step=st.none() | STEPS),
        st.builds(make_progress, STEPS, metrics=METRICS, samples_per_second=VALUES),
        st.builds(make_evaluated, STEPS, metrics=METRICS),
        st.builds(make_checkpoint, STEPS),
        st.builds(WorkersLost, time=st.floats(0, 2e11), message=st.text(), resumed_from=resumes),
        st.builds(make_finished, metrics=METRICS),
    )
    return st.lists(one, max_size=12)


@settings(max_examples=60, deadline=None)
@given(name=st.text(max_size=40), attempts=st.lists(make_events(), max_size=3), ended=st.booleans())
def test_any_valid_folder_renders(name: str, attempts: list[list[AnyEvent]], ended: bool) -> None:
    result = make_result(make_finished(), attempt=3) if ended else None
    run = RunFolderBuilder(name=name, attempts=attempts, result=result)

    with TemporaryDirectory() as parent:
        page = write_page(run.write(Disk(Path(parent))))

    assert_opens_offline(page)
