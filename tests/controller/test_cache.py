"""What the cache keeps when word of the same object comes late or out of order."""

from dataclasses import replace

from tests.controller.builders_view import SETTINGS, make_job, make_view
from trainshed_controller.cache import Cache, Names


def test_a_run_that_went_stays_gone_when_a_write_to_it_is_answered_late() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.drop(run)

    assert not cache.runs.put(replace(run, resource_version="2"))
    assert cache.runs.all() == []
    assert cache.runs.members("team", SETTINGS.default_cluster) == []


def test_a_run_that_went_stays_gone_when_a_list_comes_before_a_late_answer() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.drop(run)
    cache.runs.age("team", Names({}, "5"))

    assert not cache.runs.put(replace(run, resource_version="2"))
    assert cache.runs.all() == []


def test_a_list_tells_who_is_gone_and_whom_no_watch_told_of() -> None:
    cache, kept, gone = Cache(SETTINGS), make_job(1), make_job(2)
    for job in (kept, gone):
        cache.jobs.put(job)
    names = Names({kept.name: kept.uid, "digits-3": "job-3"}, "5")

    assert cache.jobs.not_in("team", names) == [gone]
    assert cache.jobs.untold("team", names) == ["digits-3"]


def test_what_was_made_after_a_list_is_not_missed_in_it() -> None:
    cache = Cache(SETTINGS)
    cache.jobs.put(make_job(1, resource_version="6"))

    assert cache.jobs.not_in("team", Names({}, "5")) == []


def test_who_went_while_a_list_was_under_way_is_not_waited_for() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    names = Names({run.name: run.uid}, "5")

    cache.runs.drop(run)

    assert cache.runs.untold("team", names) == []


def test_the_name_that_another_has_by_now_is_the_other_s() -> None:
    cache, run = Cache(SETTINGS), make_view()
    again = replace(run, uid="another", resource_version="7")
    cache.runs.put(run)
    cache.runs.drop(run)
    cache.runs.put(again)

    names = Names({run.name: run.uid}, "5")
    assert cache.runs.not_in("team", names) == []
    assert cache.runs.untold("team", names) == []
    assert cache.runs.all() == [again]


def test_who_cannot_be_read_is_heard_of_until_it_is_gone() -> None:
    cache = Cache(SETTINGS)
    names = Names({"broken": "uid-1"}, "5")
    cache.clusters.skip("team", "broken", "uid-1")

    assert cache.clusters.untold("team", names) == []
    cache.clusters.age("team", Names({}, "6"))
    assert cache.clusters.untold("team", names) == ["broken"]
