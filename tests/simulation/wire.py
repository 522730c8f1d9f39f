"""What is between a controller and the API server: time, and by seed every way to fail."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.controller.api_server import REQUEST_SECONDS, Answer, ApiServer, Request, refusal

_Fault = Callable[["Wire", Request], Awaitable[Answer]]


class Weather(NamedTuple):
    """How likely what is with each request; dark: nobody answers at all."""

    fault: float = 0.0
    crash: float = 0.0
    slow: float = 0.0
    dark: bool = False


CALM = Weather()


class Wire:
    """Carries requests.

    Args:
        weather: how it is just now.
        crash: ends the controller's process, between two requests.
        tell: told of each fault.
    """

    def __init__(
        self,
        server: ApiServer,
        chance: random.Random,
        weather: Callable[[], Weather],
        crash: Callable[[], None],
        tell: Callable[[str], None],
    ) -> None:
        self.server = server
        self._chance = chance
        self._weather = weather
        self._crash = crash
        self._tell = tell

    async def carry(self, request: Request) -> Answer:
        """Return the answer, or do not."""
        weather = self._weather()
        await asyncio.sleep(self._latency(weather))
        if weather.dark:
            return await _no_answer(self, request)
        if self._chance.random() < weather.crash:
            await self._die(request, took_effect=self._chance.random() < 0.5)
        if self._chance.random() < weather.fault:
            name = self._chance.choice(tuple(FAULTS))
            self._tell(f"{name}: {request.method} {request.path}")
            return await FAULTS[name](self, request)
        answer = self.server.respond(request)
        await asyncio.sleep(self._latency(weather))
        return answer

    def _latency(self, weather: Weather) -> float:
        if self._chance.random() < weather.slow:
            return self._chance.random() * 3.0
        return 0.001 + self._chance.random() * 0.01

    async def _die(self, request: Request, *, took_effect: bool) -> None:
        if took_effect:
            self.server.respond(request)
        self._crash()
        await asyncio.Event().wait()


def _refusing(status: int, message: str, **headers: str) -> _Fault:
    async def fault(wire: Wire, request: Request) -> Answer:
        return refusal(status, message, **headers)

    return fault


async def _no_answer(wire: Wire, request: Request) -> Answer:
    await asyncio.sleep(REQUEST_SECONDS)
    raise TimeoutError


async def _no_answer_but_done(wire: Wire, request: Request) -> Answer:
    wire.server.respond(request)
    return await _no_answer(wire, request)


async def _reset(wire: Wire, request: Request) -> Answer:
    raise ConnectionResetError("by peer")


async def _reset_but_done(wire: Wire, request: Request) -> Answer:
    wire.server.respond(request)
    raise ConnectionResetError("by peer")


async def _cut(wire: Wire, request: Request) -> Answer:
    answer = wire.server.respond(request)
    return Answer(answer.status, answer.text[: len(answer.text) // 2], answer.headers)


async def _broken_but_done(wire: Wire, request: Request) -> Answer:
    wire.server.respond(request)
    return refusal(500, "etcdserver: request timed out")


FAULTS: dict[str, _Fault] = {
    "403": _refusing(403, "exceeded quota: runs"),
    "409": _refusing(409, "the object has been modified"),
    "404": _refusing(404, "404 page not found"),
    "410": _refusing(410, "too old resource version"),
    "422": _refusing(422, "admission webhook denied the request"),
    "429": _refusing(429, "too many requests", Retry_After="7"),
    "500": _refusing(500, "etcdserver: leader changed"),
    "no answer": _no_answer,
    "no answer, but done": _no_answer_but_done,
    "reset": _reset,
    "reset, but done": _reset_but_done,
    "cut": _cut,
    "500, but done": _broken_but_done,
}
