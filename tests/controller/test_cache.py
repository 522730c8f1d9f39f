"""What the cache keeps when word of the same object comes late or out of order."""

from dataclasses import replace

from tests.controller.builders_view import SETTINGS, make_job, make_view
from trainshed_controller.cache import Cache


def test_a_run_that_went_stays_gone_when_a_write_to_it_is_answered_late() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.drop(run)

    assert not cache.runs.put(replace(run, resource_version="2"))
    assert cache.runs.all() == []
    assert cache.runs.members("team", SETTINGS.default_cluster) == []


def test_a_list_tells_what_is_gone_except_what_changed_while_it_was_under_way() -> None:
    cache, kept, gone = Cache(SETTINGS), make_job(1), make_job(2)
    for job in (kept, gone):
        cache.jobs.put(job)
    cache.jobs.begin_list()
    cache.jobs.put(make_job(3))

    assert cache.jobs.end_list("team", {kept.name: kept.uid}) == [gone]


def test_a_list_does_not_bring_back_what_went_while_it_was_under_way() -> None:
    cache, run = Cache(SETTINGS), make_view()
    cache.runs.put(run)
    cache.runs.begin_list()
    cache.runs.drop(run)

    assert not cache.runs.put(run, is_listed=True)


def test_a_list_brings_back_what_was_restored_from_a_backup() -> None:
    cache, gone, old = Cache(SETTINGS), make_job(1), make_job(2, resource_version="100")
    cache.jobs.put(gone)
    cache.jobs.drop(gone)
    cache.jobs.put(make_job(2, resource_version="900"))

    cache.jobs.begin_list()
    assert cache.jobs.put(gone, is_listed=True)
    assert cache.jobs.put(old, is_listed=True)

    assert cache.jobs.get("team", old.name) == old


def test_the_name_that_another_has_by_now_is_the_other_s() -> None:
    cache, run = Cache(SETTINGS), make_view()
    again = replace(run, uid="another", resource_version="7")
    cache.runs.put(run)
    cache.runs.drop(run)
    cache.runs.put(again)

    cache.runs.drop(run)

    assert cache.runs.all() == [again]
