"""What drivers post, and what they are answered."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from tests.controller.builders_view import (
    SETTINGS,
    UID,
    later,
    make_job,
    make_seen,
    make_snapshot,
    make_view,
    with_status,
)
from trainshed_api.snapshot import Answer, Snapshot, StopOrder
from trainshed_controller.cache import Cache
from trainshed_controller.metrics import Metrics
from trainshed_controller.model import Key, RunView
from trainshed_controller.progress import ProgressServer
from trainshed_controller.reconcile import reconcile
from trainshed_controller.render import progress_path, progress_token

KEY = b"a key"


def training(**spec: object) -> RunView:
    """Return a run in its first attempt."""
    view = make_view(**spec)  # type: ignore[arg-type]  # JSON values
    view = with_status(view, reconcile(view, make_seen(), SETTINGS, later(0)).status)
    job = make_job(job_status="RUNNING", deployment_status="Running")
    return with_status(view, reconcile(view, make_seen(ray_job=job), SETTINGS, later(5)).status)


@dataclass
class Setting:
    """A server, and what it heard and told."""

    client: TestClient[web.Request, web.Application]
    cache: Cache
    heard: dict[str, Snapshot]
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


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    """A server that knows of one run in its first attempt."""
    cache = Cache(SETTINGS)
    cache.runs.put(training())
    heard: dict[str, Snapshot] = {}
    told: list[Key] = []
    server = ProgressServer(cache, KEY, heard, told.append, Metrics(cache), lambda: True)
    async with TestClient(TestServer(server.application())) as client:
        yield Setting(client, cache, heard, told)


async def test_a_snapshot_is_kept_and_the_run_looked_at(setting: Setting) -> None:
    status, text = await setting.post(make_snapshot(step=7))

    assert (status, Answer.model_validate_json(text)) == (200, Answer())
    assert setting.heard[UID].progress
    assert setting.told == [Key("run", "team", "digits")]


async def test_the_token_of_another_attempt_is_refused(setting: Setting) -> None:
    other = progress_token(KEY, "team", "digits", UID, 2)

    status, _ = await setting.post(make_snapshot(), token=other)

    assert status == 401
    assert setting.heard == {}


@pytest.mark.parametrize(("number", "uid"), [(2, UID), (1, "another-uid")])
async def test_what_is_not_the_newest_attempt_is_gone(
    setting: Setting, number: int, uid: str
) -> None:
    status, text = await setting.post(make_snapshot(number), number=number, uid=uid)

    assert status == 410
    assert Answer.model_validate_json(text).stop == StopOrder(reason="Superseded", grace_seconds=0)


async def test_an_attempt_that_ended_may_only_say_its_last_word(setting: Setting) -> None:
    view = training()
    lost = reconcile(view, make_seen(head=None), SETTINGS, later(9)).status
    setting.cache.runs.put(replace(with_status(view, lost), resource_version="2"))

    running, _ = await setting.post(make_snapshot())
    last, _ = await setting.post(make_snapshot(state="Ended", outcome="Succeeded", exit_code=0))

    assert (running, last) == (410, 200)


async def test_the_answer_carries_the_order_to_stop(setting: Setting) -> None:
    view = training()
    job = make_job(job_status="RUNNING", deployment_status="Running")
    asked = with_status(make_view(suspend=True, gracePeriodSeconds=30), view.status)
    status = reconcile(asked, make_seen(ray_job=job), SETTINGS, later(9)).status
    setting.cache.runs.put(replace(with_status(asked, status), resource_version="2"))

    _, text = await setting.post(make_snapshot())

    assert Answer.model_validate_json(text).stop == StopOrder(reason="Suspended", grace_seconds=30)


async def test_a_snapshot_that_was_overtaken_is_dropped(setting: Setting) -> None:
    await setting.post(make_snapshot(step=9, sequence=2))
    await setting.post(make_snapshot(step=1, sequence=1))

    kept = setting.heard[UID].progress
    assert kept
    assert kept.step == 9


async def test_nonsense_and_too_much_are_refused(setting: Setting) -> None:
    path = progress_path("team", "digits", UID, 1)
    headers = {"Authorization": f"Bearer {progress_token(KEY, 'team', 'digits', UID, 1)}"}

    nonsense = await setting.client.post(path, data="{}", headers=headers)
    large = await setting.client.post(path, data="x" * 70_000, headers=headers)

    assert (nonsense.status, large.status) == (422, 413)
