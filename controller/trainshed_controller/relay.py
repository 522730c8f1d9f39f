"""Passes what drivers post to a standby on to the replica that acts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from trainshed_controller.lease import Lease

# Drivers give up after five seconds.
_SECONDS = 3.0
_RELAYED = "Trainshed-Relayed"


@dataclass(frozen=True)
class Relay:
    """Posts to the holder of the Lease what came to this replica."""

    session: aiohttp.ClientSession
    lease: Lease

    async def send(self, request: web.Request) -> web.Response | None:
        """Return the holder's answer; None where this replica has to answer itself."""
        address = self.lease.holder.rpartition("/")[2]
        if self.lease.is_held() or not address or _RELAYED in request.headers:
            return None
        headers = {"Authorization": request.headers["Authorization"], _RELAYED: "yes"}
        body = await request.read()
        try:
            async with (
                asyncio.timeout(_SECONDS),
                self.session.post(
                    f"http://{address}{request.path}",
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                ) as answer,
            ):
                if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                    return None  # it starts, or is overloaded
                text = await answer.text()
                return web.Response(
                    status=answer.status, text=text, content_type=answer.content_type
                )
        except (TimeoutError, aiohttp.ClientError, OSError):
            return None
