"""A cluster that cannot be used says why in one line, before anything is sent."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner

from hack.cluster.ports import pick_ports
from tests.app.jobs.server import Reply, serve
from trainshed.cli.main import cli
from trainshed.jobs.access import DashboardAccess
from trainshed.jobs.cluster_error import ClusterError
from trainshed.jobs.jobs_api import check_cluster
from trainshed_api.names import EXIT_INVALID, EXIT_TRY_AGAIN

RIGHT = {"/api/version": (200, json.dumps({"ray_version": "2.60.0"})), "/api/jobs/": (200, "[]")}


@dataclass(frozen=True)
class Case:
    """What a server answers, and what is said of it."""

    replies: Mapping[str, Reply] = field(default_factory=dict)
    want: str = ""
    token_from: str = ""


CASES: dict[str, Case] = {
    "a cluster": Case(RIGHT),
    "a newer one": Case({**RIGHT, "/api/version": (200, '{"ray_version": "3.1.0rc1"}')}),
    "an older one": Case(
        {**RIGHT, "/api/version": (200, '{"ray_version": "2.9.3"}')},
        "has Ray 2.9.3: expected 2.60 or newer",
    ),
    "no token": Case(
        {"/api/version": (401, "Unauthorized")},
        "wants a token: set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, or give --token-file",
    ),
    "a wrong token": Case(
        {"/api/version": (403, "Forbidden")},
        "refuses the token of RAY_AUTH_TOKEN (403)",
        token_from="RAY_AUTH_TOKEN",
    ),
    "a proxy that lets nobody in": Case({"/api/version": (403, "Forbidden")}, "refuses us (403)"),
    "some other server": Case({}, "answers, but is not a Ray dashboard"),
    "a web page": Case({"/api/version": (200, "<html>")}, "answers, but is not a Ray dashboard"),
    "a dashboard without jobs": Case(
        {"/api/version": RIGHT["/api/version"]},
        "accepts no jobs: its Ray was installed without ray[default]",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_stands_behind_the_address_is_said(case: Case) -> None:
    with serve(lambda path, _: case.replies.get(path, (404, "not found"))) as server:
        access = DashboardAccess(server.address, {"Authorization": "Bearer x"}, case.token_from)
        if not case.want:
            check_cluster(access)
        else:
            with pytest.raises(ClusterError) as caught:
                check_cluster(access)
            assert str(caught.value) == f"{server.address} {case.want}"
            assert caught.value.exit_code == EXIT_INVALID

    assert set(server.authorizations) == {"Bearer x"}


def test_nobody_behind_the_address_is_worth_another_try() -> None:
    [nobody] = pick_ports(1)
    address = f"http://127.0.0.1:{nobody}"

    with pytest.raises(ClusterError) as caught:
        check_cluster(DashboardAccess(address, {}))

    want = "does not answer (Connection refused): is it the dashboard's address?"
    assert str(caught.value) == f"{address} {want}"
    assert caught.value.exit_code == EXIT_TRY_AGAIN


def test_a_job_is_shown_as_json() -> None:
    job = {"type": "SUBMISSION", "submission_id": "digits-1", "status": "FAILED", "entrypoint": ""}
    replies = {**RIGHT, "/api/jobs/digits-1": (200, json.dumps({**job, "driver_exit_code": 1}))}
    with serve(lambda path, _: replies.get(path, (404, "not found"))) as server:
        words = ["ps", "--ray", "digits-1", "--output", "json", "--address", server.address]
        shown = json.loads(CliRunner().invoke(cli, words).stdout)

    assert (shown["id"], shown["status"], shown["exitCode"]) == ("digits-1", "FAILED", 1)
