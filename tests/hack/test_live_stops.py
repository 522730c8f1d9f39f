"""Twenty stops of whole runs, each on a Ray of its own; `make stops` tries 240."""

from pathlib import Path

import pytest

from hack.stops.catalogue import make_programs
from hack.stops.draw import Stop, draw, find_possible
from hack.stops.trial import try_stop

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

# What is not installed is not drawn.
PROGRAMS = {program.name: program for program in make_programs() if program.is_installed}
STOPS = draw(find_possible({n: p.phases for n, p in PROGRAMS.items()}, seed=0), seed=0, count=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stops")


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.name)
def test_a_stopped_run_trains_what_one_does_that_nobody_stops(stop: Stop, folder: Path) -> None:
    assert try_stop(stop, PROGRAMS[stop.program], folder).faults == []
