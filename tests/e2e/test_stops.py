"""Twenty stops of TrainingRuns; `make stops` tries 240 of runs on one machine."""

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from hack.stops.catalogue import make_programs
from hack.stops.draw import SIGNALS_ON_NODE, Stop, draw, find_possible
from hack.stops.judge import Trace
from hack.stops.trial import Result, write_data
from tests.e2e.bundle import RELEASE, Bundle
from tests.e2e.running import ROOT
from tests.e2e.runs import Runs
from tests.e2e.stops import CODE, CODE_FILES, StoppedRun, train_unstopped, try_stop

pytestmark = pytest.mark.timeout(3600)

# What differs in what it saves and reads; a program costs a run that nobody stops.
NAMES = ("digits", "adopted", "collate", "early-return", "two-models", "zip", "ray-data")
PROGRAMS = {program.name: program for program in make_programs() if program.name in NAMES}
PHASES = {name: program.phases for name, program in PROGRAMS.items()}
STOPS = draw(find_possible(PHASES, seed=0, signals=SIGNALS_ON_NODE), seed=0, count=20)
# Runs side by side: each takes 2 GiB.
SIDE_BY_SIDE = int(os.environ.get("TRAINSHED_SIDE_BY_SIDE", "3"))
# All workers are in one group, which has the CPUs of the runs side by side.
VALUES = (
    "--set=groups.gpu.enabled=false",
    f"--set=groups.cpu.resources.limits.cpu={2 * SIDE_BY_SIDE}",
    "--set=groups.cpu.resources.limits.memory=10Gi",
    "--set=head.resources.limits.memory=8Gi",
    # Ray's default, a niceness of 15, makes a busy machine slower.
    "--set-string=ray.env.RAY_worker_niceness=0",
)
Trials = Mapping[Stop, Future[Result]]


@pytest.fixture(scope="module")
def runs(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The chart installed, with the programs and their rows on its storage."""
    bundle.uninstall(RELEASE)
    try:
        bundle.install(RELEASE, *VALUES)
        bundle.wait_for_ray(RELEASE)
        bundle.wait_for_digits()
        made = Runs(bundle, RELEASE)
        made.forget_all()
        made.give_code(ROOT, CODE_FILES, CODE)
        made.give_folder(write_data(tmp_path_factory.mktemp("data")) / "rows", "rows")
        yield made
    finally:
        bundle.kubectl("delete", "trun", "--all", "--timeout=3m")
        bundle.uninstall(RELEASE)


@pytest.fixture(scope="module")
def trials(
    runs: Runs, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trials]:
    """Every stop that was chosen, on its way; a program's unstopped run comes first."""
    folder = tmp_path_factory.mktemp("stops")
    chosen = {item.name for item in request.session.items}
    stops = [stop for stop in STOPS if any(f"[{stop.name}]" in name for name in chosen)]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:

        def train(name: str) -> Trace:
            run = StoppedRun(runs, f"unstopped-{name}", PROGRAMS[name])
            return train_unstopped(run, PROGRAMS[name], folder / name)

        def attempt(stop: Stop) -> Result:
            name, program = f"stop-{STOPS.index(stop)}-{stop.program}", PROGRAMS[stop.program]
            reference = references[stop.program].result()
            run = StoppedRun(runs, name, program, stop)
            return try_stop(stop, run, program, reference, folder / name)

        programs = dict.fromkeys(stop.program for stop in stops)
        references = {name: pool.submit(train, name) for name in programs}
        yield {stop: pool.submit(attempt, stop) for stop in stops}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.name)
def test_a_stopped_run_trains_what_one_does_that_nobody_stops(stop: Stop, trials: Trials) -> None:
    result = trials[stop].result()
    print(result.line)
    assert result.faults == []
