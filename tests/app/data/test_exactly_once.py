"""Over an epoch each row comes exactly once, whatever is lost in its middle, in the same order.

What is lost: a rank, whose group begins again with another number of ranks; the head, with the
feeder and all ranks, and an attempt that goes on with what a checkpoint has counted; a node with
rows that were made, or are being made.
"""

import random
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from tests.app.data.losses import (
    CACHES,
    FILES,
    ROWS,
    SHUFFLES,
    Case,
    Loss,
    Run,
    Site,
    Step,
    Way,
    befall,
    start_site,
    undisturbed,
)
from tests.app.data.numbered import FORMATS, write_files

pytestmark = [pytest.mark.ray, pytest.mark.timeout(1200)]

LOSSES: tuple[Loss, ...] = get_args(Loss)
# Modes in which a worker keeps its rows.
BY_WORKERS = ("none", "local")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with start_site() as running:
        yield running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files of each format, which are cut into a dozen fragments."""
    folder = tmp_path_factory.mktemp("rows")
    for form in FORMATS:
        write_files(folder / form, form, ROWS, FILES)
    formats = "trainshed.data.sources.formats"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(f"{formats}.line_files.SPAN_BYTES", 2500)
        patched.setattr(f"{formats}.whole_files.TASK_FILES", 100)
        patched.setattr(f"{formats}.npy.FRAGMENT_BYTES", 1200)
        yield folder


def ways_of(loss: Loss, shift: int) -> list[Way]:
    """Return a way for each format; each shift has other ones."""
    begin, modes = shift + LOSSES.index(loss), list(SHUFFLES)
    ways = []
    for number, form in enumerate(FORMATS):
        mode = modes[(number + begin) % len(modes)]
        ways.append(Way(form, mode, cache_of(number, mode)))
    return ways


def cache_of(number: int, mode: str) -> str:
    """Return where rows of a format are in a mode: over all modes once, or more, in each cache.

    number: of the format.
    """
    in_workers = BY_WORKERS[number % len(BY_WORKERS)]
    if mode == in_workers:
        return "workers"
    others = [each for each in SHUFFLES if each != in_workers]
    caches = [each for each in CACHES if each != "workers"]
    return caches[(number // len(BY_WORKERS) + others.index(mode)) % len(caches)]


def test_each_loss_befalls_every_two_of_a_format_a_mode_and_a_cache() -> None:
    for loss in LOSSES:
        ways = [way for shift in range(len(SHUFFLES)) for way in ways_of(loss, shift)]
        assert {(way.format, way.mode) for way in ways} == {*product(FORMATS, SHUFFLES)}
        assert {(way.format, way.cache) for way in ways} == {*product(FORMATS, CACHES)}
        assert {(way.mode, way.cache) for way in ways} == {
            (mode, cache)
            for mode, cache in product(SHUFFLES, CACHES)
            if cache != "workers" or mode in BY_WORKERS
        }


@cache
def whole(way: Way, folder: Path, epoch: int, seed: int) -> list[Step]:
    """Return the steps of an epoch that nothing befalls, each sorted."""
    return [sorted(step) for step in undisturbed(way, folder, epoch, seed)]


def check(site: Site, folder: Path, home: Path, case: Case, ways: list[Way]) -> None:
    want = {way: whole(way, folder, 0, case.seed) for way in ways}
    run = Run(site, folder, home, case, want)
    try:
        found = befall(run)
        for way in ways:
            numbers = sorted(number for step in found[way] for number, _ in step)
            assert numbers == list(range(ROWS)), f"{way}: rows are lost, or come twice"
            assert found[way] == want[way], f"{way}: the order is another"
        for way in (each for each in ways if run.plans[each].is_learned):
            run.begin(way, epoch=1)
            assert run.take(way) == whole(way, folder, 1, case.seed), f"{way}: in the next epoch"
    finally:
        run.end()


@pytest.mark.parametrize("loss", LOSSES)
def test_each_row_comes_once_in_the_order_that_nothing_disturbs(
    site: Site, folder: Path, tmp_path: Path, loss: Loss
) -> None:
    # Of the formats every second one, of the modes all.
    ways = ways_of(loss, 0)[LOSSES.index(loss) % 2 :: 2]
    ranks = (2, 1) if loss == "head" else (2, 3)  # fewer once, and more
    check(site, folder, tmp_path, Case(loss, ranks=ranks), ways)


def test_blocks_that_are_all_lost_are_made_again_where_who_wants_them_has_all_cpus(
    site: Site, folder: Path, tmp_path: Path
) -> None:
    way, case = Way("json", "files", "objects"), Case("node")
    want = whole(way, folder, 0, case.seed)
    run = Run(site, folder, tmp_path, case, {way: want})
    try:
        run.begin(way)
        found = run.take(way, case.lost)
        site.lose_nodes()
        found += run.take(way)
    finally:
        site.lose_node()  # of a single CPU
        run.end()
    assert found == want


@pytest.mark.e2e
@pytest.mark.parametrize(("loss", "shift"), list(product(LOSSES, range(len(SHUFFLES)))))
def test_so_it_is_with_every_format_in_every_mode_at_any_step(
    site: Site, folder: Path, tmp_path: Path, loss: Loss, shift: int
) -> None:
    case = drawn(loss, random.Random(f"{loss} {shift}"))
    check(site, folder, tmp_path, case, ways_of(loss, shift))


def drawn(loss: Loss, draw: random.Random) -> Case:
    """Return a case by chance."""
    saved = draw.randrange(9)
    ranks = draw.randint(1, 3), draw.randint(1, 4)
    return Case(loss, saved, saved + draw.randrange(4), ranks, seed=draw.randrange(2**31))
