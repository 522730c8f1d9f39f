"""What drivers post to: the progress server's own application, without a socket."""

import asyncio
from typing import NamedTuple
from unittest.mock import Mock

from aiohttp import streams, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import RawRequestMessage
from aiohttp.http_writer import HttpVersion11
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL


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
        # Its connection, which nobody reads from or writes to, is that of all posts.
        self._first = make_mocked_request("POST", "/", app=application)

    async def post(self, path: str, token: str, body: str) -> Said:
        """Return what is answered."""
        loop = asyncio.get_running_loop()
        payload = streams.StreamReader(BaseProtocol(loop), 2**16, loop=loop)
        payload.feed_data(body.encode())
        payload.feed_eof()
        headers = CIMultiDictProxy(CIMultiDict(Authorization=f"Bearer {token}"))
        message = RawRequestMessage(
            "POST", path, HttpVersion11, headers, (), False, None, False, False, URL(path)
        )
        first = self._first
        request = web.Request(
            message, payload, first.protocol, first._payload_writer, first.task, loop,
            client_max_size=self._application._client_max_size,
        )  # fmt: skip
        answer = await self._application._handle(request)
        # They remember each call, and an hour of simulation makes a hundred thousand.
        for mock in (first.protocol, first.transport, first._payload_writer):
            assert isinstance(mock, Mock)
            mock.reset_mock()
        for found in vars(type(first.protocol)).values():  # the connection's properties
            if isinstance(found, Mock):
                found.reset_mock()
        assert isinstance(answer, web.Response)
        return Said(answer.status, answer.text or "")
