"""What the cache keeps when word of the same object comes late or out of order."""

from dataclasses import replace

from tests.controller.builders_view import SETTINGS, make_job, make_view
from trainshed_controller.cache import Cache, Listing


def test_a_run_that_went_while_a_list_was_under_way_stays_gone() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    listing = Listing([run], "5")

    cache.runs.drop(run)

    assert cache.runs.take_over("team", listing) == 0
    assert cache.runs.all() == []
    assert cache.runs.members("team", SETTINGS.default_cluster) == []


def test_a_run_that_went_stays_gone_when_a_write_to_it_is_answered_late() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.drop(run)

    assert not cache.runs.put(replace(run, resource_version="2"))
    assert cache.runs.all() == []


def test_a_run_that_went_stays_gone_when_a_list_comes_before_a_late_answer() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.drop(run)
    cache.runs.take_over("team", Listing([], "5"))

    assert not cache.runs.put(replace(run, resource_version="2"))
    assert cache.runs.all() == []


def test_a_list_does_not_bring_back_the_run_whose_name_another_has_by_now() -> None:
    cache, run = Cache(SETTINGS), make_view()
    again = replace(run, uid="another", resource_version="7")
    cache.runs.put(run)
    cache.runs.drop(run)
    cache.runs.put(again)

    cache.runs.take_over("team", Listing([run], "5"))

    assert cache.runs.all() == [again]


def test_a_list_tells_what_the_watch_missed() -> None:
    cache, missed, gone = Cache(SETTINGS), make_job(2), make_job(1)
    cache.jobs.put(gone)

    assert cache.jobs.take_over("team", Listing([missed], "5")) == 2
    assert cache.jobs.all() == [missed]
