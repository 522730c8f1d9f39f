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
# Client errors after which the same request may succeed.
_PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
# Slack reads these as links and mentions: https://docs.slack.dev/messaging/formatting-message-text
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class TurnedCondition(NamedTuple):
    """A condition that turned, and the run as it was then."""

    view: RunView
    condition: Condition

    def payload(self, form: WebhookFormat) -> JsonObject:
        """Return what is posted."""
        view, said = self.view, self.condition
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
    _waiting: asyncio.Queue[TurnedCondition] = field(
        default_factory=lambda: asyncio.Queue(_MOST_WAITING)
    )

    def tell(self, before: RunView, after: RunView) -> None:
        """Have the conditions posted that a write of a status turned; never waits."""
        for condition in self._turned(before, after):
            try:
                self._waiting.put_nowait(TurnedCondition(after, condition))
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
        while True:
            turned = await self._waiting.get()
            for pause in (0.0, *self.pauses):
                await asyncio.sleep(pause)
                error, may_pass = await self._post(turned)
                if not may_pass:
                    break
            self.metrics.webhook_messages.labels("failed" if error else "sent").inc()
            if error:
                said = turned.condition.type
                log.warning("no message of %s: %s", said, error, extra={"run": turned.view.path})

    async def _post(self, turned: TurnedCondition) -> tuple[str, bool]:
        """Return why a message was not taken, and whether that may pass.

        The address is a secret: it is in no error.
        """
        try:
            url = self.url_file.read_text(encoding="utf-8").strip()
            async with self.session.post(
                url, json=turned.payload(self.form), timeout=_SECONDS, allow_redirects=False
            ) as answer:
                status = answer.status
        except ValueError:  # aiohttp's InvalidURL is one, and so is a file that is no text
            return "the Secret's url is no address", False
        except (OSError, TimeoutError, aiohttp.ClientError) as error:
            return type(error).__name__, True
        is_broken = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        return "" if status < HTTPStatus.MULTIPLE_CHOICES else f"answer {status}", is_broken
