"""What drivers post, and what they are answered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.controller.builders_view import (
    SETTINGS,
    UID,
    later,
    make_head,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    make_worker,
    with_status,
)
from tests.controller.test_relay import held
from trainshed_api.snapshot import Answer, Snapshot, StopOrder
from trainshed_controller.cache import Cache
from trainshed_controller.clock import Clock
from trainshed_controller.decide import decide
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key, RunView
from trainshed_controller.progress import ProgressServer
from trainshed_controller.relay import Relay
from trainshed_controller.render import progress_path, progress_token
from trainshed_controller.snapshots import SnapshotStore

KEY = b"a key"
NOW_SECONDS = 20.0


def training(**spec: object) -> RunView:
    """Return a run in its first attempt."""
    view = make_view(**spec)  # type: ignore[arg-type]  # JSON values
    view = with_status(view, decide(view, make_seen(), SETTINGS, later(0)).status)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    return with_status(view, decide(view, make_seen(ray_job=job), SETTINGS, later(5)).status)


@dataclass
class Setting:
    """A server, and what it heard and told."""

    client: TestClient[web.Request, web.Application]
    cache: Cache
    heard: SnapshotStore
    told: list[Key]

    async def post(
        self, snapshot: Snapshot, *, number: int = 1, uid: str = UID, token: str = ""
    ) -> tuple[int, str]:
        """Return status and text of the answer."""
        good = progress_token(KEY, "team", "digits", uid, number)
        answer = await self.client.post(
            progress_path("team", "digits", uid, number),
            data=snapshot.to_payload(),
            headers={"Authorization": f"Bearer {token or good}"},
        )
        return answer.status, await answer.text()


@contextlib.asynccontextmanager
async def serving(relay: Relay | None = None) -> AsyncIterator[Setting]:
    """A server that knows of one run in its first attempt."""
    cache = Cache(SETTINGS)
    cache.runs.put(training())
    heard = SnapshotStore()
    told: list[Key] = []
    clock = Clock(lambda: later(NOW_SECONDS))
    server = ProgressServer(
        cache, KEY, heard, told.append, Metrics(cache), lambda: True, clock=clock, relay=relay
    )
    async with TestClient(TestServer(server.application())) as client:
        yield Setting(client, cache, heard, told)


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    """The only replica."""
    async with serving() as setting:
        yield setting


async def test_a_snapshot_is_kept_and_the_run_looked_at(setting: Setting) -> None:
    status, text = await setting.post(make_snapshot(step=7))

    assert (status, Answer.model_validate_json(text)) == (200, Answer())
    kept = setting.heard.get(UID, 1)
    assert kept
    assert kept.progress
    assert setting.told == [Key("run", "team", "digits")]


async def test_a_driver_is_told_which_pods_of_its_cluster_are_gone(setting: Setting) -> None:
    setting.cache.deleted_pods.record(make_worker(index=3))
    setting.cache.deleted_pods.record(make_head())
    setting.cache.deleted_pods.record(make_worker(index=4, cluster="another"))

    _, text = await setting.post(make_snapshot())

    assert Answer.model_validate_json(text).gone == (make_worker(index=3).name,)


async def test_the_token_of_another_attempt_is_refused(setting: Setting) -> None:
    other = progress_token(KEY, "team", "digits", UID, 2)

    status, _ = await setting.post(make_snapshot(), token=other)

    assert status == 401
    assert len(setting.heard) == 0


async def test_an_attempt_of_another_run_of_that_name_is_gone(setting: Setting) -> None:
    status, text = await setting.post(make_snapshot(), uid="another-uid")

    assert status == 410
    assert Answer.model_validate_json(text).stop == StopOrder(reason="Superseded", grace_seconds=0)


@pytest.mark.parametrize(("is_mine", "want"), [(True, 410), (False, 503)])
async def test_only_the_replica_that_acts_says_that_an_attempt_is_gone(
    is_mine: bool, want: int
) -> None:
    async with aiohttp.ClientSession() as session:
        relay = Relay(session, held(is_mine=is_mine))
        async with serving(relay) as setting:
            status, _ = await setting.post(make_snapshot(), uid="another-uid")

    assert status == want


async def test_an_attempt_that_another_followed_is_gone(setting: Setting) -> None:
    view = training()
    second = view.status.model_copy(update={"attempt": 2})
    setting.cache.runs.put(replace(with_status(view, second), resource_version="2"))

    status, _ = await setting.post(make_snapshot())

    assert status == 410


async def test_what_is_not_known_yet_is_no_reason_to_stop(setting: Setting) -> None:
    newer, _ = await setting.post(make_snapshot(2), number=2)
    setting.cache.runs.drop(training())
    unknown, _ = await setting.post(make_snapshot())

    assert (newer, unknown) == (404, 404)


async def test_an_attempt_that_ended_may_only_say_its_last_word(setting: Setting) -> None:
    view = training()
    lost = decide(view, make_seen(head=None), SETTINGS, later(9)).status
    setting.cache.runs.put(replace(with_status(view, lost), resource_version="2"))

    running, _ = await setting.post(make_snapshot())
    last, _ = await setting.post(make_snapshot(state="Ended", outcome="Succeeded", exit_code=0))

    assert (running, last) == (410, 200)


async def test_the_answer_carries_the_order_to_stop(setting: Setting) -> None:
    view = training()
    job = make_job(job_status="RUNNING", deployment_status="Running")
    asked = with_status(make_view(suspend=True, gracePeriodSeconds=30), view.status)
    status = decide(asked, make_seen(ray_job=job), SETTINGS, later(9)).status
    setting.cache.runs.put(replace(with_status(asked, status), resource_version="2"))

    _, text = await setting.post(make_snapshot())

    assert Answer.model_validate_json(text).stop == StopOrder(reason="Suspended", grace_seconds=30)


async def test_a_snapshot_that_was_overtaken_is_dropped(setting: Setting) -> None:
    await setting.post(make_snapshot(step=9, sequence=2))
    await setting.post(make_snapshot(step=1, sequence=1))

    kept = setting.heard.get(UID, 1)
    assert kept
    assert kept.sequence == 2


async def test_nonsense_and_too_much_are_refused(setting: Setting) -> None:
    path = progress_path("team", "digits", UID, 1)
    headers = {"Authorization": f"Bearer {progress_token(KEY, 'team', 'digits', UID, 1)}"}

    nonsense = await setting.client.post(path, data="{}", headers=headers)
    large = await setting.client.post(path, data="x" * 70_000, headers=headers)

    assert (nonsense.status, large.status) == (422, 413)


async def test_nothing_is_kept_of_an_attempt_that_ended(setting: Setting) -> None:
    view = training()
    lost = decide(view, make_seen(head=None), SETTINGS, later(9)).status
    setting.cache.runs.put(replace(with_status(view, lost), resource_version="2"))

    status, _ = await setting.post(make_snapshot(state="Ended", outcome="Failed", exit_code=1))

    assert (status, len(setting.heard)) == (200, 0)


STRANGE = {
    "a number that is none": ("\N{SUPERSCRIPT TWO}", "Bearer x", 404),
    "a number without end": ("9" * 5000, "Bearer x", 404),
    "a number below one": ("0", "Bearer x", 404),
    "no bearer": ("1", "", 401),
}


@pytest.mark.parametrize("case", STRANGE)
async def test_what_is_strange_is_refused_before_anything_is_read(
    setting: Setting, case: str
) -> None:
    number, bearer, want = STRANGE[case]
    path = progress_path("team", "digits", UID, 1).replace("/1/", f"/{number}/")

    answer = await setting.client.post(path, data="{", headers={"Authorization": bearer})

    assert answer.status == want


FAULTS = {
    "a time beyond all calendars": ("time", "1e300"),
    "a time that is no number": ("time", "NaN"),
    "a time that never comes": ("time", "Infinity"),
    "a step beyond 64 bits": ("progress.step", "1" + "0" * 30),
    "seconds without end": ("seconds.training", "1e300"),
    "a sequence beyond 64 bits": ("sequence", "1" + "0" * 30),
}


@pytest.mark.parametrize("case", FAULTS)
async def test_a_number_that_no_status_can_hold_is_refused_by_its_field(
    setting: Setting, case: str
) -> None:
    field, value = FAULTS[case]
    first, _, second = field.partition(".")
    told = f'{{"time": 1, "{second}": {value}}}' if second else value
    text = f'{{"time": 1, "attempt": 1, "{first}": {told}}}'

    answer = await setting.client.post(
        progress_path("team", "digits", UID, 1),
        data=text,
        headers={"Authorization": f"Bearer {progress_token(KEY, 'team', 'digits', UID, 1)}"},
    )

    assert answer.status == 422
    assert (await answer.text()).startswith(f"{field}: ")
    assert len(setting.heard) == 0


@pytest.mark.parametrize(("ahead", "want"), [(-1e6, 200), (599.0, 200), (601.0, 422)])
async def test_a_snapshot_of_a_time_to_come_is_refused_by_its_field(
    setting: Setting, ahead: float, want: int
) -> None:
    status, text = await setting.post(make_snapshot(at=NOW_SECONDS + ahead))

    assert status == want
    assert status == 200 or text.startswith("time: ")
    assert len(setting.heard) == (status == 200)


async def test_a_snapshot_that_never_comes_to_its_end_is_not_waited_for() -> None:
    async def drip() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    cache = Cache(SETTINGS)
    server = ProgressServer(
        cache, KEY, SnapshotStore(), lambda _: None, Metrics(cache), lambda: True, body_seconds=0.05
    )
    headers = {"Authorization": f"Bearer {progress_token(KEY, 'team', 'digits', UID, 1)}"}
    async with TestClient(TestServer(server.application())) as client:
        answer = await client.post(
            progress_path("team", "digits", UID, 1), data=drip(), headers=headers
        )

        assert answer.status == 408
        assert answer.headers["Connection"] == "close"


async def test_a_bearer_that_is_no_text_is_refused(setting: Setting) -> None:
    server = setting.client.server
    reader, writer = await asyncio.open_connection(str(server.host), server.port)
    path = progress_path("team", "digits", UID, 1)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: Bearer "

    writer.write(head.encode() + b"\xff\xfe\r\n\r\n")
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 401 ")
