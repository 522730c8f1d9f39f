"""Conditions that turned are posted to the platform's webhook, beside the work."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hack.cluster.pki import Authority
from tests.controller.builders_view import NOW, SETTINGS, make_view, with_status
from trainshed_api.json_object import JsonObject, as_object
from trainshed_api.status import AttemptStatus, TrainingRunStatus
from trainshed_controller.cache import Cache
from trainshed_controller.errors import requested_pause
from trainshed_controller.metrics import Metrics
from trainshed_controller.project import Said, with_conditions
from trainshed_controller.webhook import Webhook, WebhookFormat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trainshed_controller.model import RunView

SAID = "ValueError: <!channel> & more"


def failed(before: RunView, *, reason: str = "ApplicationFailed") -> RunView:
    """Return a run whose first attempt failed, and that is not retried."""
    said = {
        "Failed": Said(True, reason, f"{SAID}\nTraceback"),
        "Progressing": Said(False, reason),
    }
    attempt = AttemptStatus(number=1, generation=1, ray_job="digits-1", job_id="j")
    status = TrainingRunStatus(phase="Failed", attempt=1, attempts=(attempt,))
    return with_status(before, with_conditions(status, said, NOW, 1))  # type: ignore[arg-type]


@dataclass
class Receiver:
    """A server that answers in turn with these statuses, then with 200.

    moments: when the messages arrived, in seconds of the loop's clock.
    """

    answers: list[int] = field(default_factory=list)
    retry_after: str = ""
    moments: list[float] = field(default_factory=list)
    got: list[JsonObject] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.moments.append(asyncio.get_running_loop().time())
        self.got.append(as_object(await request.json()))
        status = self.answers.pop(0) if self.answers else 200
        headers = {"Location": "/secret", "Retry-After": self.retry_after}
        return web.Response(status=status, headers=headers)


@contextlib.asynccontextmanager
async def posting(
    receiver: Receiver, folder: Path, form: WebhookFormat = "json", url: str = ""
) -> AsyncIterator[tuple[Webhook, Metrics]]:
    application = web.Application()
    application.router.add_post("/secret", receiver.take)
    metrics = Metrics(Cache(SETTINGS))
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        address = folder / "url"
        address.write_text(url or f"{server.make_url('/secret')}\n")
        kinds = frozenset({"Failed", "InternalError"})
        webhook = Webhook(address, form, kinds, session, metrics, pauses=(0.0, 0.0))
        task = asyncio.create_task(webhook.run())
        yield webhook, metrics
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def count(metrics: Metrics, result: str) -> float:
    """Wait until a message is through, and return how many ended so."""
    read = metrics.registry.get_sample_value
    async with asyncio.timeout(10):
        while True:
            ends = [
                read("trainshed_webhook_messages_total", {"result": each}) or 0.0
                for each in ("sent", "failed")
            ]
            if any(ends):
                return read("trainshed_webhook_messages_total", {"result": result}) or 0.0
            await asyncio.sleep(0.01)


async def test_a_condition_that_turned_is_posted_once(tmp_path: Path) -> None:
    receiver, before = Receiver(), make_view()
    async with posting(receiver, tmp_path) as (webhook, metrics):
        webhook.tell(before, failed(before))
        webhook.tell(failed(before), failed(before, reason="Other"))

        assert await count(metrics, "sent") == 1

    [message] = receiver.got
    assert message == {
        "id": f"{before.uid}/1/Failed/True/2026-11-21T12:00:00Z",
        "namespace": "team",
        "run": "digits",
        "uid": before.uid,
        "attempt": 1,
        "phase": "Failed",
        "condition": {
            "type": "Failed",
            "status": "True",
            "reason": "ApplicationFailed",
            "message": SAID,
            "time": "2026-11-21T12:00:00Z",
        },
    }


async def test_slack_is_told_in_one_line_that_mentions_nobody(tmp_path: Path) -> None:
    receiver = Receiver()
    async with posting(receiver, tmp_path, "slack") as (webhook, metrics):
        webhook.tell(make_view(), failed(make_view()))
        await count(metrics, "sent")

    text = (
        "team/digits: Failed is True (ApplicationFailed): ValueError: &lt;!channel&gt; &amp; more"
    )
    assert receiver.got == [{"text": text}]


@pytest.mark.parametrize(
    ("answers", "num_posts", "result"),
    [
        ([503, 429], 3, "sent"),
        ([503, 503, 503], 3, "failed"),
        ([404], 1, "failed"),
        ([307], 1, "failed"),
    ],
    ids=["a fault that passes", "a fault that stays", "a refusal", "a redirect"],
)
async def test_a_message_is_tried_again_where_that_may_help(
    answers: list[int], num_posts: int, result: str, tmp_path: Path
) -> None:
    receiver = Receiver(answers)
    async with posting(receiver, tmp_path) as (webhook, metrics):
        webhook.tell(make_view(), failed(make_view()))

        assert await count(metrics, result) == 1

    assert len(receiver.got) == num_posts


async def test_a_receiver_says_how_long_to_wait_before_the_next_try(tmp_path: Path) -> None:
    receiver = Receiver([429], retry_after="1")
    async with posting(receiver, tmp_path) as (webhook, metrics):
        webhook.tell(make_view(), failed(make_view()))

        assert await count(metrics, "sent") == 1

    refused, taken = receiver.moments
    assert taken - refused > 0.9


@pytest.mark.parametrize(
    "said", ["", "soon", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "\u0661", "9" * 400]
)
def test_no_wait_is_longer_than_a_minute(said: str) -> None:
    assert 0.0 <= requested_pause(said) <= 60.0


async def test_a_receiver_without_a_trusted_certificate_is_named_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*Authority().issue("x", addresses=["127.0.0.1"]).write(tmp_path, "x"))
    server = TestServer(web.Application(), scheme="https")
    await server.start_server(ssl=context)
    url = str(server.make_url("/secret"))
    async with posting(Receiver(), tmp_path, url=url) as (webhook, metrics):
        webhook.tell(make_view(), failed(make_view()))

        assert await count(metrics, "failed") == 1
    await server.close()

    assert "no message of Failed: ClientConnectorCertificateError" in caplog.text


async def test_a_secret_without_an_address_is_named_at_the_start_and_in_failures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with posting(Receiver(), tmp_path) as (webhook, metrics):
        webhook.url_file.unlink()
        webhook.tell(make_view(), failed(make_view()))

        assert await count(metrics, "failed") == 1

    missing = "the Secret of controller.webhook has no key url"
    assert [record.getMessage() for record in caplog.records] == [
        f"no message is posted: {missing}",
        f"no message of Failed: {missing}",
    ]


async def test_a_message_that_waits_keeps_no_run_in_memory(tmp_path: Path) -> None:
    receiver, after = Receiver(), failed(make_view())
    kept = weakref.ref(after)
    async with posting(receiver, tmp_path) as (webhook, metrics):
        webhook.tell(make_view(), after)
        del after
        gc.collect()

        assert kept() is None
        assert await count(metrics, "sent") == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/secret", "secret", "ftp://secret", "//secret", "http://.secret/"]
)
async def test_an_address_that_does_not_work_is_in_no_log(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with posting(Receiver(), tmp_path, url=url) as (webhook, metrics):
        webhook.tell(make_view(), failed(make_view()))

        assert await count(metrics, "failed") == 1

    assert "no message of Failed" in caplog.text
    assert "secret" not in caplog.text.lower().replace("the secret's url", "")
