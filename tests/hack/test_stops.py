"""The oracle of `make stops` sees what a stop may break, and every combination gets its turn."""

from collections import Counter
from dataclasses import replace

import pytest

from hack.stops.__main__ import main
from hack.stops.catalogue import make_programs
from hack.stops.draw import (
    BEFORE_WORKERS,
    PHASES,
    SIGNALS,
    SIGNALS_ON_NODE,
    Stop,
    draw,
    find_possible,
)
from hack.stops.judge import End, Line, Trace, judge, judge_epochs, read_trace
from hack.stops.marks import digest, identify

STOP = Stop("own-loop", "training", "terminate", 3)
EARLY = "attempt 2 succeeded before all was trained"
ENDS = [End(143, "terminate", 4.0), End(0)]


def make_line(step: int, rank: int = 0, life: int = 1) -> Line:
    """Return a line of a run of 2 epochs of 2 steps, in which each of 2 workers takes 2 rows."""
    epoch, number = divmod(step - 1, 2)
    first = 4 * number + 2 * rank
    return Line(life, rank, epoch, step, {"train": (first, first + 1)})


def make_lines(*steps: int, life: int = 1) -> list[Line]:
    return [make_line(step, rank, life) for step in steps for rank in (0, 1)]


REFERENCE = Trace(make_lines(1, 2, 3, 4), "final", "model", "model")
# Stopped after step 2, and gone on in other processes.
RESUMED = replace(REFERENCE, lines=[*make_lines(1, 2), *make_lines(3, 4, life=2)])


def with_lines(lines: list[Line]) -> Trace:
    return replace(REFERENCE, lines=lines)


def judged(
    seen: Trace, ends: list[End] = ENDS, stop: Stop = STOP, *, keeps_steps: bool = True
) -> list[str]:
    return judge(stop, REFERENCE, seen, ends, keeps_steps=keeps_steps)


def test_a_run_that_went_on_at_its_step_has_no_fault() -> None:
    assert judged(RESUMED) == []


FAULTY_TRACES = {
    "a step that nobody trained": (
        with_lines([*make_lines(1, 2), *make_lines(4, life=2)]),
        [EARLY, "steps never trained: 3"],
    ),
    "the share of a worker is lost": (
        with_lines([*make_lines(1, 2, 4), make_line(3)]),
        [EARLY, "steps never trained: 3"],
    ),
    "an epoch that begins again with its first rows": (
        with_lines([*make_lines(1, 2, 3), *(replace(make_line(3, r), step=4) for r in (0, 1))]),
        ["steps with other rows than the reference's: 4"],
    ),
    "rows of two steps in each other's place": (
        with_lines(
            [*make_lines(1, 2), *(replace(line, step=7 - line.step) for line in make_lines(3, 4))]
        ),
        ["steps with other rows than the reference's: 3, 4"],
    ),
    "more steps than there are": (
        with_lines([*make_lines(1, 2, 3, 4), Line(1, 0, 1, 5, {})]),
        ["steps beyond the reference's: 5"],
    ),
    "a step that an orderly stop lost": (
        with_lines([*make_lines(1, 2), *make_lines(2, 3, 4, life=2)]),
        ["steps trained twice: 2"],
    ),
    "other weights": (
        replace(RESUMED, weights="other"),
        ["final weights are other, the reference's final"],
    ),
    "weights that no checkpoint holds": (
        replace(RESUMED, saved="earlier"),
        ["the last checkpoint holds earlier, the function ended with model"],
    ),
}


@pytest.mark.parametrize(("seen", "faults"), FAULTY_TRACES.values(), ids=FAULTY_TRACES)
def test_a_trace_of_a_run_that_lost_something_is_seen(seen: Trace, faults: list[str]) -> None:
    assert judged(seen) == faults


FAULTY_ENDS = {
    "an attempt that fails": (
        [End(143, "terminate"), End(1), End(0)],
        "code 1; expected 0",
    ),
    "a stop that fails": ([End(1, "terminate"), End(0)], "code 1; expected 143"),
    "a controller whose absence fails the attempt": (
        [End(75, "cut-controller"), End(0)],
        "code 75; expected 0",
    ),
    "a worker whose loss fails the attempt": ([End(1, "kill-worker"), End(0)], "code 1; expected"),
    "a stop that is taken for success": (
        [End(0, "terminate"), End(0)],
        "attempt 1 succeeded before",
    ),
    "processes that stay": (
        [End(143, "terminate", 4.0, ["raylet"]), End(0)],
        "attempt 1 left processes: raylet",
    ),
    "a stop that takes too long": ([End(143, "terminate", 121.0), End(0)], "the stop took 121 s"),
    "a run that never ends": ([End(143, "terminate"), End(75)], "not finished after 2 attempts"),
    "a lock that nobody was killed with": (
        [End(143, "terminate"), End(75), End(0)],
        "attempt 2 ended with code 75",
    ),
}


@pytest.mark.parametrize(("ends", "said"), FAULTY_ENDS.values(), ids=FAULTY_ENDS)
def test_an_attempt_that_does_not_end_as_documented_is_seen(ends: list[End], said: str) -> None:
    assert any(said in fault for fault in judged(RESUMED, ends))


GOOD_ENDS = {
    "a suspended run": [End(143, "suspend"), End(0)],
    "Ctrl-C": [End(130, "interrupt"), End(0)],
    "a driver that is killed": [End(137, "kill-driver"), End(75), End(0)],
    "a worker that is killed": [End(0, "kill-worker")],
    "the coordinator that is killed": [End(75, "kill-coordinator"), End(0)],
    "a signal when all is trained": [End(0, "terminate")],
    "a worker's Pod that is deleted": [End(0, "delete-worker-pod")],
    "a head's Pod that is deleted": [End(75, "delete-head-pod"), End(0)],
    "a controller that is away": [End(0, "cut-controller")],
    "a stop, then a loss": [End(143, "terminate"), End(137, "kill-driver"), End(0)],
}


@pytest.mark.parametrize("ends", GOOD_ENDS.values(), ids=GOOD_ENDS)
def test_an_attempt_that_ends_as_documented_has_no_fault(ends: list[End]) -> None:
    assert judged(RESUMED, ends) == []


def test_what_a_killed_process_trained_after_its_checkpoint_is_trained_again() -> None:
    seen = with_lines([*make_lines(1, 2, 3), *make_lines(2, 3, 4, life=2)])
    killed = [End(137, "kill-driver"), End(0)]
    assert judged(seen, killed, replace(STOP, signal="kill-driver")) == []
    lost_before = replace(STOP, phase="early-loss")
    assert judged(seen, stop=lost_before) == []
    assert judged(seen, keeps_steps=False) == []


def test_a_kill_excuses_no_lost_row() -> None:
    seen = with_lines([*make_lines(1, 2), *make_lines(4, life=2)])
    killed = [End(137, "kill-driver"), End(0)]
    assert len(judged(seen, killed, replace(STOP, signal="kill-driver"))) == 2


def test_parts_of_a_step_are_one_step() -> None:
    parts = [replace(make_line(1), rows={"train": (row,)}) for row in (0, 1)]
    assert with_lines(parts).effective == {(1, 0, 0): {"train": [0, 1]}}
    assert with_lines(parts).repeated == set()


def test_an_epoch_without_every_row_once_is_seen() -> None:
    lines = [
        replace(line, rows={"train": line.rows["train"], "other": (1, 1)})
        for line in make_lines(1, 2)
    ]
    assert list(judge_epochs({"train": 8, "other": 8}, with_lines(lines))) == []
    again = [replace(make_line(3, rank), step=4) for rank in (0, 1)]
    said = list(judge_epochs({"train": 8}, with_lines([*make_lines(1, 2, 3), *again])))
    assert said == ["train, epoch 1: 4 rows lost, 4 repeated, of 8"]
    said = list(judge_epochs({"train": 8, "other": 9}, with_lines(lines)))
    assert said == ["other, epoch 0: 0 rows lost, 8 repeated, of 9"]


def test_logs_are_read_but_for_the_line_that_a_kill_cut() -> None:
    text = (
        '{"life": 5, "rank": 1, "epoch": 0, "step": 2, "rows": {"train": [7]}}\n'
        '{"life": 5, "weights": "w", "trained": "m"}\n{"life": 5, "ra'
    )
    older = '{"life": 4, "weights": "old", "trained": "old"}\n'
    assert read_trace([text, older], "m") == Trace(
        [Line(5, 1, 0, 2, {"train": [7]})], "w", "m", "m"
    )


def test_every_program_phase_and_signal_is_drawn() -> None:
    programs = {program.name: program.phases for program in make_programs()}
    drawn = draw(find_possible(programs, 1), 1, 240)
    assert len(set(drawn)) == 240
    assert {stop.program for stop in drawn} == set(programs)
    assert {stop.phase for stop in drawn} == set(PHASES)
    assert {stop.signal for stop in drawn} == set(SIGNALS)


def test_the_seed_alone_says_what_is_drawn_and_where_it_stops() -> None:
    phases = {"own-loop": PHASES, "zip": PHASES}
    possible = find_possible(phases, 1)
    assert draw(possible, 1, 20) == draw(find_possible(phases, 1), 1, 20)
    assert draw(possible, 1, 20) != draw(possible, 2, 20)
    assert [stop.at for stop in find_possible(phases, 2)] != [stop.at for stop in possible]


def test_what_cannot_happen_is_not_drawn() -> None:
    possible = find_possible({"own-loader": ["import", "training"]}, 1)
    assert {stop.phase for stop in possible} == {"import", "training"}
    early = {stop.signal for stop in possible if stop.phase in BEFORE_WORKERS}
    assert early == set(SIGNALS) - {"kill-worker", "kill-coordinator"}
    starts = {stop.signal for stop in find_possible({"zip": ["cluster-start"]}, 1)}
    assert starts == early - {"suspend"}
    on_node = find_possible({"zip": ["cluster-start"]}, 1, SIGNALS_ON_NODE)
    signals = {stop.signal for stop in on_node}
    assert signals == {"suspend", "delete-head-pod", "delete-rayjob", "cut-controller"}


def test_rows_are_told_apart_whatever_they_are_padded_to() -> None:
    import numpy as np

    short = {"ink": np.array([[1, 2, 0], [3, 4, 0]]), "label": np.array([1, 2])}
    long = {"ink": np.array([[1, 2, 0, 0], [3, 4, 5, 0]]), "label": np.array([1, 2])}
    assert identify(short)[0] == identify(long)[0]
    assert identify(short)[1] != identify(long)[1]
    assert identify({**short, "row": np.array([8, 9])}) == [8, 9]


def test_a_digest_is_of_the_weights_however_the_model_is_wrapped() -> None:
    import numpy as np

    weights = np.arange(4.0)
    assert (
        digest({"module.w": weights}) == digest({"_orig_mod.w": weights}) == digest({"w": weights})
    )
    assert digest({"w": weights + 1e-12}) != digest({"w": weights})


def test_an_unknown_program_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "own-lop"]) == 2
    assert "--only: got own-lop; expected" in capsys.readouterr().err


def test_shards_share_out_what_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    names = []
    for shard in ("1/1", "1/3", "2/3", "3/3"):
        assert main(["--list", "--count", "30", "--shard", shard]) == 0
        names.append(capsys.readouterr().out.split())
    assert sorted(names[0]) == sorted(names[1] + names[2] + names[3])
    assert len(names[0]) == 30


def test_each_shard_has_every_phase_equally_often(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--shard", "3/4"]) == 0
    phases = [name.split("/")[1] for name in capsys.readouterr().out.split()]
    assert Counter(phases) == dict.fromkeys(PHASES, 5)
