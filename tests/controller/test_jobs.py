"""What a Ray head answers: the end of a log however long it is, and no answer is an error."""

import json
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from trainshed_api.names import SNAPSHOT_LINE
from trainshed_api.snapshot import Snapshot, final_snapshot
from trainshed_controller.jobs import JobsApi, end_of_log, whole_log

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Ask = Callable[[Handler], Awaitable[JobsApi]]
WORD = Snapshot(
    time=1.0, attempt=1, state="Ended", message='it said "\\" and \u00e4 \U0001f600\n' * 50
)
LINE = f"{SNAPSHOT_LINE}{WORD.to_line()}"


@pytest.fixture
async def head() -> AsyncIterator[Ask]:
    """Starts heads that answer as a test wants, and asks them."""
    servers: list[TestServer] = []
    clients: list[JobsApi] = []

    async def start(handler: Handler) -> JobsApi:
        application = web.Application()
        application.router.add_get("/{path:.*}", handler)
        server = TestServer(application)
        await server.start_server()
        servers.append(server)
        clients.append(JobsApi(str(server.make_url("")).rstrip("/"), None))
        return clients[-1]

    yield start
    for client in clients:
        await client.close()
    for server in servers:
        await server.close()


def says(text: str, status: int = 200) -> Handler:
    """Return what answers so."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text, status=status, content_type="application/json")

    return answer


async def is_over(jobs: JobsApi, seconds: float = 10.0) -> bool | None:
    """Ask whether the job is over."""
    return await jobs.is_over("team", "trainshed", "digits-1", seconds)


async def read_log(jobs: JobsApi, seconds: float = 10.0) -> str | None:
    """Ask for the log."""
    return await jobs.read_log("team", "trainshed", "digits-1", seconds)


ANSWERS: dict[str, tuple[str, int, bool | None]] = {
    "it runs": ('{"status": "RUNNING"}', 200, False),
    "it ended": ('{"status": "FAILED"}', 200, True),
    "it was never heard of": ("no such job", 404, True),
    "somebody else's page": ("<html>", 200, None),
    "an error": ('{"status": "FAILED"}', 500, None),
    "a list": ("[1]", 200, False),
    "a status that is none": ('{"status": ["FAILED"]}', 200, False),
    "a number without end": ('{"status": 1%s}' % ("0" * 5000), 200, None),
    "brackets without end": ("[" * 500_000, 200, None),
    "more than any job": (json.dumps({"message": "x" * 2_000_000, "status": "FAILED"}), 200, None),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_whether_a_job_is_over(head: Ask, case: str) -> None:
    text, status, want = ANSWERS[case]

    assert await is_over(await head(says(text, status))) is want


async def test_a_job_that_a_head_does_not_know_is_over_however_the_answer_ends(head: Ask) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=404, headers={"Content-Length": "50"})
        await response.prepare(request)
        await response.write(b"no")
        assert request.transport
        request.transport.close()
        return response

    assert await is_over(await head(answer)) is True


LOGS: dict[str, tuple[str, int, str | None]] = {
    "a log": (json.dumps({"logs": "a\nb\n"}), 200, "a\nb\n"),
    "no log": ("{}", 200, ""),
    "a log that is no text": ('{"logs": {"a": 1}}', 200, ""),
    "somebody else's page": ("<html>", 200, ""),
    "brackets without end": ("[" * 200_000, 200, ""),
    "an error": ('{"logs": "a"}', 500, None),
}


@pytest.mark.parametrize("case", LOGS)
async def test_a_log(head: Ask, case: str) -> None:
    text, status, want = LOGS[case]

    assert await read_log(await head(says(text, status))) == want


@pytest.mark.parametrize("ask", [is_over, read_log])
async def test_nobody_is_sent_on_to_others(
    head: Ask, ask: Callable[[JobsApi], Awaitable[object]]
) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        raise web.HTTPFound("/elsewhere")

    assert await ask(await head(answer)) is None
    assert [path for path in asked if path == "/elsewhere"] == []


@pytest.mark.parametrize("ask", [is_over, read_log])
async def test_a_head_that_says_nothing_is_not_waited_for(
    head: Ask, ask: Callable[[JobsApi, float], Awaitable[object]]
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"logs": "')
        while True:
            await response.write(b" ")
            await response.drain()

    assert await ask(await head(answer), 0.05) is None


async def test_of_a_log_of_200_megabytes_the_end_is_kept_in_little_memory(head: Ask) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"logs": "')
        for _ in range(200):
            await response.write(b"\\u00e4 12345\\n" * (1024 * 1024 // 14))
        await response.write(f"{json.dumps(LINE + chr(10))[1:]}}}".encode())
        return response

    jobs = await head(answer)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    log = await read_log(jobs, 120.0)

    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert log
    assert final_snapshot(log) == WORD
    assert len(log) <= 512 * 1024
    # The server of this test is in it, too.
    assert grown_kib < 24 * 1024


SPELLINGS = {
    "as Ray spells it": json.dumps({"logs": f'x\\"\u20ac\n{LINE}\n'}),
    "in UTF-8": json.dumps({"logs": f'x\\"\u20ac\n{LINE}\n'}, ensure_ascii=False),
    "with space": json.dumps({"logs": f"x\n{LINE}\n"}, indent=1) + "\n\n",
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_wherever_an_answer_is_cut_its_end_is_read_as_it_was_written(case: str) -> None:
    body = SPELLINGS[case].encode()
    whole = whole_log(body)

    for cut in range(len('{"logs": "'), len(body)):
        end = end_of_log(body[cut:])
        # What was cut through is some characters of nonsense.
        assert whole.endswith(end[6:]), cut
        assert "\n" not in end[:-1] or end.endswith(f"{LINE}\n")


NO_LOGS = ["", "}", '"}', '"', '{"logs": 1}', "\\", '\\"}', 'a "quote" in it"}', "[" * 9]


@pytest.mark.parametrize("text", NO_LOGS)
def test_what_is_no_end_of_a_log_is_an_empty_one(text: str) -> None:
    assert end_of_log(text.encode()) == ""


def test_half_a_character_is_replaced() -> None:
    assert end_of_log(b'\\ude00 a \xff\\ud83d b"}').encode()
    assert whole_log(b'{"logs": "\\ud83d"}') == "?"


async def test_the_token_goes_to_the_head_of_the_release_alone(tmp_path: Path) -> None:
    given: dict[str, str | None] = {}

    async def answer(request: web.Request) -> web.Response:
        given[request.match_info["cluster"]] = request.headers.get("Authorization")
        return web.json_response({"status": "RUNNING"})

    token = tmp_path / "auth_token"
    token.write_text("secret\n")
    application = web.Application()
    application.router.add_get("/{cluster}/{path:.*}", answer)
    async with TestServer(application) as server:
        jobs = JobsApi(f"{server.make_url('/')}{{cluster}}", token, "trainshed")
        for cluster in ("trainshed", "another", "digits-1-abcde"):
            await jobs.is_over("team", cluster, "digits-1", 10.0)
        await jobs.close()

    assert given == {"trainshed": "Bearer secret", "another": None, "digits-1-abcde": None}
