"""The report as a reader gets it: one file, complete, and nothing in it that could do harm."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.app.report.pages import ParsedPage
from tests.builders_run import (
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
from trainshed_api.progress import (
    AnyEvent,
    CheckpointSaved,
    Evaluated,
    ResumePoint,
    Stopping,
    WarningEvent,
    WorkersLost,
)

HOSTILE = '"><script>alert(1)</script><img src=http://evil.test/x onerror=alert(1)>{{ 7*7 }}'


@dataclass(frozen=True)
class Case:
    """A folder and what a reader must find, or must not find, in its report."""

    make: Callable[[], RunFolderBuilder]
    want: list[str]
    want_not: list[str] = field(default_factory=list)


def make_resumed_run() -> RunFolderBuilder:
    """An attempt that was cut off at step 30, and one that went on from step 20."""
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


CASES: dict[str, Case] = {
    "a run that succeeded shows its key figures": Case(
        make_ended_run,
        ["digits Succeeded", "Best valid.accuracy 0.95", "5,173", "Goodput 50 %", "Wall time 20 s"],
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
        ["Best valid.accuracy 0.95 epoch 1", "Went on from epoch 1."],
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
            "rank 1 died. Went on from step 40.",
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
    "a line that was cut off is left out": Case(
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
        lambda: RunFolderBuilder(attempts=[[make_started(), make_checkpoint(path="/gone/c")]]),
        ["/gone/c", "removed"],
    ),
    "a metric that is never a number is still listed": Case(
        lambda: RunFolderBuilder(attempts=[[make_started(), make_evaluated(metrics={"f1": None})]]),
        ["f1"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_report_tells(case: Case, tmp_path: Path) -> None:
    page = ParsedPage(write_report(case.make().write(tmp_path)))

    assert [words for words in case.want if words not in page.text] == []
    assert [words for words in case.want_not if words in page.text] == []
    assert_opens_offline(page)


def assert_opens_offline(page: ParsedPage) -> None:
    assert [a for a in page.addresses if not a.startswith("data:")] == []
    assert page.unclosed == []
    assert "script" not in page.tags
    assert [n for n in page.numbers if "nan" in n or "inf" in n] == []


def test_names_and_messages_of_users_stay_text(tmp_path: Path) -> None:
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
    ).write(tmp_path)

    page = ParsedPage(write_report(folder))

    assert page.text.count(HOSTILE) >= 6
    assert_opens_offline(page)


def test_every_picture_and_chart_has_words_for_those_who_cannot_see_it(tmp_path: Path) -> None:
    run = make_ended_run()
    run.examples = {"valid": [{"image": "valid-0.png", "caption": "3", "good": False}]}

    page = ParsedPage(write_report(run.write(tmp_path)))

    assert "Example of valid: 3, wrong" in page.alternatives
    assert any(words.startswith("loss over step: loss from 0.31") for words in page.alternatives)
    assert all(page.alternatives)


def test_captions_cannot_name_files_outside_the_examples(tmp_path: Path) -> None:
    run = make_ended_run()
    run.examples = {"valid": [{"image": "../../../secret.png", "caption": "leak"}]}
    folder = run.write(tmp_path)
    (folder / "secret.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"0" * 20)

    assert "leak" not in ParsedPage(write_report(folder)).text


def test_long_runs_stay_small(tmp_path: Path) -> None:
    events = [make_progress(step, metrics={"loss": step % 7 + 0.1}) for step in range(12_000)]
    folder = RunFolderBuilder(attempts=[[make_started(), *events]]).write(tmp_path)

    assert write_report(folder).stat().st_size < 250_000


def test_writing_again_replaces_the_report_and_leaves_nothing_else(tmp_path: Path) -> None:
    folder = make_ended_run().write(tmp_path)
    before = sorted(path.name for path in folder.iterdir())

    first = write_report(folder).read_text()
    second = write_report(folder).read_text()

    assert first == second
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "report.html"])


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
def test_folder_without_a_run_is_refused(files: dict[str, str], want: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)

    with pytest.raises(NoRunFolderError, match=want):
        write_report(tmp_path)

    assert not (tmp_path / "report.html").exists()


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
        page = ParsedPage(write_report(run.write(Path(parent))))

    assert_opens_offline(page)
