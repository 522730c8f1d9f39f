"""Ray's Jobs API, asked where Kubernetes knows too little: has a job ended, and its last words.

What a head answers is as untrusted as the programs on it: bounded, and any shape of it is no error.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, TypeVar

import aiohttp

from trainshed_api.json_object import as_object
from trainshed_api.names import MAX_SNAPSHOT_BYTES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from pydantic import JsonValue

_OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_OK, _NOT_FOUND = 200, 404
_CHUNK_BYTES = 64 * 1024
# A job carries its environment, the run itself included, and the end of its log.
_MAX_JOB_BYTES = 512 * 1024
# The last line of a log fills 64 KiB at most; as part of a JSON text, in ASCII, each two of its
# bytes become six at most. The rest is for words of Ray's after it.
_MAX_TAIL_BYTES = 4 * MAX_SNAPSHOT_BYTES
T = TypeVar("T")
_MISBEHAVIOUR = (TimeoutError, aiohttp.ClientError, OSError, ValueError, RecursionError)


class JobsApi:
    """The dashboards of the RayClusters.

    Args:
        url: of a dashboard, with {namespace} and {cluster}.
        token: the file with the token of the release's own cluster; without one none is sent.
        own: the name of that cluster; others have tokens of their own, and never see this one.
    """

    def __init__(self, url: str, token: Path | None, own: str = "") -> None:
        self._url = url
        self._token = token
        self._own = own
        # What is compressed may grow without bounds, and is not asked for.
        self.session = aiohttp.ClientSession(
            headers={"Accept-Encoding": "identity"}, auto_decompress=False
        )

    async def close(self) -> None:
        """Let go of the connections."""
        await self.session.close()

    async def is_over(
        self, namespace: str, cluster: str, job_id: str, seconds: float
    ) -> bool | None:
        """Say whether the job is over: it ended, or this head does not know it.

        None if the head does not answer in time.
        """

        async def read(answer: aiohttp.ClientResponse) -> bool | None:
            if answer.status == _NOT_FOUND:
                return True
            is_whole, body = await _read_tail(answer, _MAX_JOB_BYTES)
            if answer.status != _OK or not is_whole:
                return None
            return as_object(json.loads(body)).get("status") in _OVER

        return await self._ask("GET", namespace, cluster, job_id, seconds, read)

    async def stop(self, namespace: str, cluster: str, job_id: str, seconds: float) -> None:
        """Have Ray stop the job, as far as the head answers in time."""

        async def read(_: aiohttp.ClientResponse) -> None:
            pass

        await self._ask("POST", namespace, cluster, f"{job_id}/stop", seconds, read)

    async def read_log(
        self, namespace: str, cluster: str, job_id: str, seconds: float
    ) -> str | None:
        """Return the end of the log of a job; None if the head does not answer in time."""

        async def read(answer: aiohttp.ClientResponse) -> str | None:
            if answer.status != _OK:
                return None
            is_whole, tail = await _read_tail(answer, _MAX_TAIL_BYTES)
            return whole_log(tail) if is_whole else end_of_log(tail)

        return await self._ask("GET", namespace, cluster, f"{job_id}/logs", seconds, read)

    async def _ask(  # noqa: PLR0913, PLR0917  # what HTTP has
        self,
        method: str,
        namespace: str,
        cluster: str,
        path: str,
        seconds: float,
        read: Callable[[aiohttp.ClientResponse], Awaitable[T]],
    ) -> T | None:
        """Return what is read of the answer; None where there is none that can be read in time."""
        url = f"{self._url.format(namespace=namespace, cluster=cluster)}/api/jobs/{path}"
        # A head must not send us on to others, with its token.
        request = self.session.request(
            method, url, headers=self._headers(cluster), allow_redirects=False
        )
        try:
            async with asyncio.timeout(seconds), request as answer:
                return await read(answer)
        except _MISBEHAVIOUR:
            return None

    def _headers(self, cluster: str) -> dict[str, str]:
        if self._token is None or cluster != self._own:
            return {}
        try:
            token = self._token.read_text(encoding="utf-8").strip()
        except OSError:
            return {}  # mounted as soon as the operator has made it
        return {"Authorization": f"Bearer {token}"}


async def _read_tail(answer: aiohttp.ClientResponse, most: int) -> tuple[bool, bytes]:
    """Return the end of the body, and whether that is all of it; twice `most` bytes are kept."""
    tail, is_whole = bytearray(), True
    async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
        tail += chunk
        if len(tail) > 2 * most:
            del tail[:-most]
            is_whole = False
    return is_whole, bytes(tail)


def whole_log(body: bytes) -> str:
    """Return the log of a whole answer of Ray's; empty where it holds none."""
    try:
        said = as_object(json.loads(body))
    except (ValueError, RecursionError):
        return ""
    return _without_surrogates(said.get("logs"))


def end_of_log(tail: bytes) -> str:
    """Return what a log ends with, from the end of an answer of Ray's; empty where it is none."""
    text = tail.rstrip().removesuffix(b"}").rstrip()
    if not text.endswith(b'"'):
        return ""
    # It may begin in the midst of an escape: nobody knows which of these belong together.
    begun = text.lstrip(b"\\")
    if len(begun) < len(text):
        begun = begun[1:]
    try:
        log = json.loads(b'"' + begun.decode(errors="replace").encode(), strict=False)
    except ValueError:
        return ""
    return _without_surrogates(log)


def _without_surrogates(log: JsonValue) -> str:
    """Return the text with what is half a character replaced."""
    return log.encode(errors="replace").decode() if isinstance(log, str) else ""
