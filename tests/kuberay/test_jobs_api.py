"""The stand-in for Ray's Jobs API answers as Ray does: each case runs against both."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from tests.app.ray_head import TOKEN, Head
from tests.gates import KEPT_HEAD_GROUP
from tests.kuberay.dashboards import Dashboards
from tests.kuberay.drivers import finish, ignore_stop, run_until_stopped
from tests.kuberay.jobs_api import Driver, Submission
from tests.kuberay.resources import Manifest

GOOD, BAD, LONG = "echo hello", "echo boom; exit 3", "sleep 600"
STUBBORN = "trap '' TERM; echo trapped; while true; do sleep 0.2; done"
DRIVERS: dict[str, Driver] = {
    GOOD: finish("hello"),
    BAD: finish("boom", exit_code=3),
    LONG: run_until_stopped,
    STUBBORN: ignore_stop("trapped"),
}
ENDED = {"SUCCEEDED", "FAILED", "STOPPED"}


def choose(submission: Submission) -> Driver:
    return DRIVERS[submission.entrypoint]


@dataclass
class Client:
    """Asks one Jobs API."""

    session: aiohttp.ClientSession
    url: str
    number: int = 0

    async def ask(
        self, method: str, path: str = "", body: Manifest | None = None, token: str | None = TOKEN
    ) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.url}/api/jobs/{path}"
        async with self.session.request(method, url, json=body, headers=headers) as answer:
            return answer.status, await answer.text()

    async def get(self, path: str) -> Manifest:
        status, text = await self.ask("GET", path)
        assert status == 200, text
        found: Manifest = json.loads(text)
        return found

    async def submit(self, name: str, entrypoint: str, **env: str) -> None:
        body: Manifest = {"entrypoint": entrypoint, "submission_id": name}
        if env:
            body["runtime_env"] = {"env_vars": {**env}}
        status, text = await self.ask("POST", body=body)
        assert status == 200, text

    async def wait_for(self, name: str, *wanted: str) -> Manifest:
        until = time.monotonic() + 60
        while (found := await self.get(name))["status"] not in wanted:
            assert time.monotonic() < until, found
            await asyncio.sleep(0.05)
        return found

    async def said(self, name: str, line: str) -> None:
        """Wait until a job has printed a line."""
        until = time.monotonic() + 60
        while line not in (log := str((await self.get(f"{name}/logs"))["logs"])).splitlines():
            assert time.monotonic() < until, log
            await asyncio.sleep(0.05)


IN_RAY = pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.xdist_group(KEPT_HEAD_GROUP)])


@pytest.fixture(params=["stand-in", IN_RAY])
async def jobs(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        if request.param == "ray":
            head = request.getfixturevalue("head")
            assert isinstance(head, Head)
            yield Client(session, head.address)
            return
        async with Dashboards(choose) as dashboards:
            dashboards.start_head("team", "shared", token=TOKEN)
            url = dashboards.url_template.format(namespace="team", cluster="shared")
            yield Client(session, url)


async def test_a_job_succeeds_and_leaves_its_log(jobs: Client) -> None:
    await jobs.submit("good", GOOD)
    found = await jobs.wait_for("good", *ENDED)
    assert found["status"] == "SUCCEEDED"
    assert found["message"] == "Job finished successfully."
    assert found["driver_exit_code"] == 0
    assert found["submission_id"] == "good"
    # What Ray itself writes there may come later than what the job has printed.
    lines = str((await jobs.get("good/logs"))["logs"]).splitlines()
    assert {f"Running entrypoint for job good: {GOOD}", "hello"} <= set(lines)


async def test_a_job_that_fails_says_so_with_the_end_of_its_log(jobs: Client) -> None:
    await jobs.submit("bad", BAD)
    found = await jobs.wait_for("bad", *ENDED)
    assert (found["status"], found["driver_exit_code"]) == ("FAILED", 3)
    assert found["error_type"] == "JOB_ENTRYPOINT_COMMAND_ERROR"
    message = str(found["message"])
    assert message.startswith(
        "Job entrypoint command failed with exit code 3, "
        "last available logs (truncated to 20,000 chars):\n"
    )
    assert "boom\n" in message


async def test_the_details_of_a_job_have_the_fields_of_ray(jobs: Client) -> None:
    await jobs.submit("fields", GOOD, COLOUR="red")
    found = await jobs.wait_for("fields", "SUCCEEDED")
    assert set(found) == {
        "type",
        "job_id",
        "submission_id",
        "driver_info",
        "status",
        "entrypoint",
        "message",
        "error_type",
        "start_time",
        "end_time",
        "metadata",
        "runtime_env",
        "driver_agent_http_address",
        "driver_node_id",
        "driver_exit_code",
    }
    assert found["type"] == "SUBMISSION"
    assert found["runtime_env"] == {"env_vars": {"COLOUR": "red"}}
    assert isinstance(found["start_time"], int)
    assert isinstance(found["end_time"], int)
    assert found["start_time"] <= found["end_time"]


async def test_an_id_that_was_used_is_refused_even_when_its_job_is_over(jobs: Client) -> None:
    await jobs.submit("once", GOOD)
    await jobs.wait_for("once", "SUCCEEDED")
    status, text = await jobs.ask("POST", body={"entrypoint": GOOD, "submission_id": "once"})
    assert status == 500
    assert "Job with submission_id once already exists." in text
    assert "Please use a different submission_id." in text


async def test_a_job_that_was_deleted_is_forgotten(jobs: Client) -> None:
    await jobs.submit("deleted", GOOD)
    await jobs.wait_for("deleted", "SUCCEEDED")
    assert await jobs.ask("DELETE", "deleted") == (200, '{"deleted": true}')
    assert (await jobs.ask("GET", "deleted"))[0] == 404


async def test_a_stop_is_answered_at_once_and_ends_the_job(jobs: Client) -> None:
    await jobs.submit("stopped", LONG)
    running = await jobs.wait_for("stopped", "RUNNING")
    assert running["message"] == "Job is currently running."
    assert (await jobs.ask("DELETE", "stopped"))[0] == 500
    assert await jobs.ask("POST", "stopped/stop") == (200, '{"stopped": true}')
    found = await jobs.wait_for("stopped", *ENDED)
    assert (found["status"], found["driver_exit_code"]) == ("STOPPED", None)
    assert found["message"] == "Job was intentionally stopped."


async def test_a_job_that_does_not_heed_a_stop_is_killed_after_its_own_time(jobs: Client) -> None:
    await jobs.submit("stubborn", STUBBORN, RAY_JOB_STOP_WAIT_TIME_S="1")
    await jobs.said("stubborn", "trapped")
    asked = time.monotonic()
    await jobs.ask("POST", "stubborn/stop")
    found = await jobs.wait_for("stubborn", *ENDED)
    assert found["status"] == "STOPPED"
    assert time.monotonic() - asked >= 0.9


async def test_a_stop_of_a_job_that_is_over_stops_nothing(jobs: Client) -> None:
    await jobs.submit("over", GOOD)
    await jobs.wait_for("over", "SUCCEEDED")
    for _ in range(100):  # Ray looks whether the job's actor is alive, and that ends a little later
        if (await jobs.ask("POST", "over/stop")) == (200, '{"stopped": false}'):
            return
        await asyncio.sleep(0.1)
    pytest.fail("it is still said to be stopped")


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "nobody"), ("DELETE", "nobody"), ("POST", "nobody/stop"), ("GET", "nobody/logs")],
)
async def test_an_id_that_nobody_knows_is_not_found(jobs: Client, method: str, path: str) -> None:
    assert await jobs.ask(method, path) == (404, "Job nobody does not exist")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"entrypoint": 5},
        {"entrypoint": GOOD, "colour": "red"},
        {"entrypoint": GOOD, "metadata": 1},
    ],
    ids=["no entrypoint", "a number as entrypoint", "a field of no meaning", "metadata is no map"],
)
async def test_what_is_no_submission_is_a_bad_request(jobs: Client, body: Manifest) -> None:
    assert (await jobs.ask("POST", body=body))[0] == 400


async def test_a_token_is_asked_for(jobs: Client) -> None:
    missing = await jobs.ask("GET", token=None)
    assert missing == (401, "Unauthorized: Missing authentication token")
    wrong = await jobs.ask("GET", token="wrong")
    assert wrong == (403, "Forbidden: Invalid authentication token")
    assert (await jobs.ask("GET"))[0] == 200


async def test_a_head_that_ended_breaks_the_connection_and_a_new_one_knows_nothing() -> None:
    async with aiohttp.ClientSession() as session, Dashboards(choose) as dashboards:
        jobs = Client(session, dashboards.url_template.format(namespace="team", cluster="shared"))
        dashboards.start_head("team", "shared", "first")
        await jobs.submit("long", LONG)
        await jobs.wait_for("long", "RUNNING")
        await dashboards.end_head("team", "shared")
        with pytest.raises(aiohttp.ClientConnectionError):
            await jobs.ask("GET", "long")
        dashboards.start_head("team", "shared", "second")
        assert (await jobs.ask("GET", "long"))[0] == 404
        assert [(took.head, took.job.submission_id) for took in dashboards.submitted] == [
            ("first", "long")
        ]
