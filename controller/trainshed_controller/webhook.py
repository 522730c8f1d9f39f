"""Posts conditions that turned to one address, which the platform chooses.

The address is in a Secret of the release and never in a TrainingRun: whoever may write runs could
have the controller ask addresses that only the controller reaches. Nothing depends on an answer.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, NamedTuple

import aiohttp

from trainshed_controller.errors import requested_pause

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trainshed_api.json_object import JsonObject
    from trainshed_api.status import Condition
    from trainshed_controller.metrics import Metrics
    from trainshed_controller.model import RunView

log = logging.getLogger("trainshed.webhook")

WebhookFormat = Literal["json", "slack"]
_MOST_WAITING = 1000
_SECONDS = aiohttp.ClientTimeout(total=10.0)
_NO_URL = "the Secret of controller.webhook has no key url"
_NO_ADDRESS = "the Secret's url is no address"
# Client errors after which the same request may succeed.
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# Slack reads these as links and mentions: https://docs.slack.dev/messaging/formatting-message-text
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class WebhookMessage(NamedTuple):
    """What is posted, and of which run and type of condition it is."""

    payload: JsonObject
    run: str
    kind: str


def _payload(view: RunView, said: Condition, form: WebhookFormat) -> JsonObject:
    """Return what is posted of a condition that turned. view: the run as it was then."""
    if form == "slack":
        text = f"{view.path}: {said.type} is {said.status} ({said.reason}): {said.sentence}"
        return {"text": text.translate(_ESCAPES)}
    time = f"{said.last_transition_time:%Y-%m-%dT%H:%M:%SZ}"
    return {
        "id": f"{view.uid}/{view.status.attempt}/{said.type}/{said.status}/{time}",
        "namespace": view.namespace,
        "run": view.name,
        "uid": view.uid,
        "attempt": view.status.attempt,
        "phase": view.status.phase,
        "condition": {
            "type": said.type,
            "status": said.status,
            "reason": said.reason,
            "message": said.sentence,
            "time": time,
        },
    }


@dataclass(eq=False)
class Webhook:
    """Posts one message after the other, each until it is taken or its tries are used up.

    Args:
        url_file: has the address; read for each try, so that the Secret may change.
        form: of a message.
        kinds: types of conditions that are posted.
        session: for requests.
        metrics: count what became of the messages.
        pauses: seconds between the tries of a message.
    """

    url_file: Path
    form: WebhookFormat
    kinds: frozenset[str]
    session: aiohttp.ClientSession
    metrics: Metrics
    pauses: tuple[float, ...] = (1.0, 4.0, 15.0)
    _waiting: asyncio.Queue[WebhookMessage] = field(
        default_factory=lambda: asyncio.Queue(_MOST_WAITING)
    )

    def tell(self, before: RunView, after: RunView) -> None:
        """Have the conditions posted that a write of a status turned; never waits."""
        for condition in self._turned(before, after):
            payload = _payload(after, condition, self.form)
            try:
                self._waiting.put_nowait(WebhookMessage(payload, after.path, condition.type))
            except asyncio.QueueFull:
                self.metrics.webhook_messages.labels("dropped").inc()
                log.warning("no message: %d wait", _MOST_WAITING, extra={"run": after.path})

    def _turned(self, before: RunView, after: RunView) -> Iterator[Condition]:
        for condition in after.status.conditions:
            known = before.status.condition(condition.type)
            was = known.status if known else "False"
            if condition.type in self.kinds and condition.status != was:
                yield condition

    async def run(self) -> None:
        """Post until cancelled."""
        if not self.url_file.exists():
            log.warning("no message is posted: %s", _NO_URL)
        while True:
            message = await self._waiting.get()
            wait = 0.0
            for pause in (0.0, *self.pauses):
                await asyncio.sleep(max(pause, wait))
                error, requested = await self._post(message.payload)
                if requested is None:
                    break
                wait = requested
            self.metrics.webhook_messages.labels("failed" if error else "sent").inc()
            if error:
                log.warning("no message of %s: %s", message.kind, error, extra={"run": message.run})

    async def _post(self, payload: JsonObject) -> tuple[str, float | None]:
        """Return why a message was not taken, and the seconds until the next try; None: no more.

        The address is a secret: it is in no error.
        """
        try:
            url = self.url_file.read_text(encoding="utf-8").strip()
            if not url.lower().startswith(("http://", "https://")):
                return _NO_ADDRESS, None
            async with self.session.post(
                url, json=payload, timeout=_SECONDS, allow_redirects=False
            ) as answer:
                status, retry_after = answer.status, answer.headers.get("Retry-After", "")
        except FileNotFoundError:
            return _NO_URL, 0.0
        except (aiohttp.InvalidURL, UnicodeError):  # UnicodeError: of a host name or of the file
            return _NO_ADDRESS, None
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            return type(error).__name__, 0.0
        if status < HTTPStatus.MULTIPLE_CHOICES:
            return "", None
        is_broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        return f"answer {status}", requested_pause(retry_after) if is_broken else None
