"""A log is heard once, whatever happens to the connection."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.builders_run import Shown, make_finished, make_progress
from trainshed.jobs.cluster_error import ClusterError
from trainshed.jobs.follow import MOST_TRIES, LogReader, follow
from trainshed.jobs.jobs_api import Job, Jobs
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN, SNAPSHOT_LINE

RUNNING = Job("digits-1", "RUNNING", "", 0.0, None, None)
OVER = Job("digits-1", "SUCCEEDED", "", 0.0, 1.0, 0)


class Cluster:
    """Each connection yields its pieces, and then fails or ends."""

    def __init__(self, *connections: list[str | Exception], jobs: list[Job | Exception]) -> None:
        self.connections = list(connections)
        self.jobs = jobs

    async def tail(self, _: str) -> AsyncIterator[str]:
        for piece in self.connections.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def get(self, _: str) -> Job:
        job = self.jobs.pop(0) if len(self.jobs) > 1 else self.jobs[0]
        if isinstance(job, Exception):
            raise job
        return job


def heard(cluster: Cluster) -> list[str]:
    lines: list[str] = []
    job = asyncio.run(follow(cast("Jobs", cluster), "digits-1", lines.append, 0.001))
    assert job.is_over
    return lines


def test_lines_are_whole_however_they_arrive() -> None:
    cluster = Cluster(["one\nt", "wo\nthr", "ee"], jobs=[OVER])

    assert heard(cluster) == ["one", "two", "three"]


def test_a_broken_connection_repeats_nothing() -> None:
    cluster = Cluster(
        ["one\ntwo\nthr", RuntimeError("closed unexpectedly")],
        ["one\n", OSError("reset")],
        ["one\ntwo\nthree\nfour\n"],
        jobs=[RUNNING, RUNNING, OVER],
    )

    assert heard(cluster) == ["one", "two", "three", "four"]


def test_a_cluster_that_is_away_for_a_moment_is_waited_for() -> None:
    away = ClusterError("does not answer", EXIT_TRY_AGAIN)
    cluster = Cluster(["one\n"], [OSError("refused")], ["one\ntwo\n"], jobs=[away, OVER])

    assert heard(cluster) == ["one", "two"]


def test_a_cluster_that_stays_away_is_given_up() -> None:
    away = ClusterError("does not answer", EXIT_TRY_AGAIN)
    connections: list[list[str | Exception]] = [["one\n"]] * (MOST_TRIES + 1)
    cluster = Cluster(*connections, jobs=[away])

    with pytest.raises(
        ClusterError, match=r"no answer about digits-1 in 61 tries; it may still run"
    ):
        heard(cluster)


def test_a_job_that_nobody_knows_is_no_matter_of_waiting() -> None:
    cluster = Cluster([OSError("404")], [], jobs=[ClusterError("no job", EXIT_INVALID)])
    cluster.connections[0] = []

    with pytest.raises(ClusterError, match="no job"):
        heard(cluster)


def test_events_go_to_the_display_and_words_to_the_user() -> None:
    display, said = Shown(), list[str]()
    reader = LogReader(display, said.append, since=0.0)

    for line in [
        "starting",
        make_progress().to_line(),
        '{"no": "event"}',
        SNAPSHOT_LINE + "{}",
        make_finished().to_line(),
    ]:
        reader.take(line)

    assert display.events == [make_progress(), make_finished()]
    assert said == ["starting", '{"no": "event"}']


def test_events_of_an_earlier_job_of_the_same_id_are_left_out() -> None:
    display = Shown()
    reader = LogReader(display, print, since=make_finished().time + 1)

    reader.take(make_finished().to_line())

    assert display.events == []
