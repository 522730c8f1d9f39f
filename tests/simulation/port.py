"""What drivers post to: the progress server's own application, without a socket."""

import asyncio
from typing import NamedTuple

from aiohttp import streams, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request


class Said(NamedTuple):
    """status: 0 where nobody listened."""

    status: int
    text: str = ""


NOBODY = Said(0)


class Port:
    """Answers posts."""

    def __init__(self, application: web.Application) -> None:
        application.freeze()
        self._application = application

    async def post(self, path: str, token: str, body: str) -> Said:
        """Return what is answered."""
        loop = asyncio.get_running_loop()
        payload = streams.StreamReader(BaseProtocol(loop), 2**16, loop=loop)
        payload.feed_data(body.encode())
        payload.feed_eof()
        request = make_mocked_request(
            "POST",
            path,
            {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            app=self._application,
            payload=payload,
        )
        answer = await self._application._handle(request)
        assert isinstance(answer, web.Response)
        return Said(answer.status, answer.text or "")
