"""Ray's Jobs API, asked where Kubernetes knows too little: has a job ended, and its last words.

What a head answers is as untrusted as the programs on it: bounded, and any shape of it is no error.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

import aiohttp

from trainshed_api.json_object import as_object
from trainshed_api.names import MAX_SNAPSHOT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from trainshed_api.json_object import JsonObject

_OVER = ("SUCCEEDED", "FAILED", "STOPPED")
_OK, _NOT_FOUND = 200, 404
_CHUNK_BYTES = 64 * 1024
# A job carries its environment, the run itself included, and the end of its log.
_MAX_JOB_BYTES = 512 * 1024
# The last line of a log fills 64 KiB at most; as part of a JSON text, in ASCII, each two of its
# bytes become six at most. The rest is for words of Ray's after it.
_MAX_TAIL_BYTES = 4 * MAX_SNAPSHOT_BYTES


class _Answer(NamedTuple):
    status: int
    body: bytes
    is_whole: bool


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
        answer = await self._ask("GET", namespace, cluster, job_id, seconds)
        if answer and answer.status == _NOT_FOUND:
            return True
        said = _parse(answer.body) if answer and answer.status == _OK and answer.is_whole else None
        return None if said is None else said.get("status") in _OVER

    async def stop(self, namespace: str, cluster: str, job_id: str, seconds: float) -> None:
        """Have Ray stop the job, as far as the head answers in time."""
        await self._ask("POST", namespace, cluster, f"{job_id}/stop", seconds)

    async def read_log(
        self, namespace: str, cluster: str, job_id: str, seconds: float
    ) -> str | None:
        """Return the end of the log of a job; None if the head does not answer in time."""
        path = f"{job_id}/logs"
        answer = await self._ask("GET", namespace, cluster, path, seconds, _MAX_TAIL_BYTES)
        if answer is None or answer.status != _OK:
            return None
        return whole_log(answer.body) if answer.is_whole else end_of_log(answer.body)

    async def _ask(  # noqa: PLR0913, PLR0917  # what HTTP has
        self,
        method: str,
        namespace: str,
        cluster: str,
        path: str,
        seconds: float,
        most: int = _MAX_JOB_BYTES,
    ) -> _Answer | None:
        """Return the answer, and of its body the end; None where there is none in time.

        most: bytes that are kept of a body; twice as many of one that has no more.
        """
        url = f"{self._url.format(namespace=namespace, cluster=cluster)}/api/jobs/{path}"
        # A head must not send us on to others, with its token.
        request = self.session.request(
            method, url, headers=self._headers(cluster), allow_redirects=False
        )
        try:
            async with asyncio.timeout(seconds), request as answer:
                if method == "POST" or answer.status != _OK:
                    return _Answer(answer.status, b"", is_whole=True)
                tail, is_whole = bytearray(), True
                async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                    tail += chunk
                    if len(tail) > 2 * most:
                        del tail[:-most]
                        is_whole = False
                return _Answer(answer.status, bytes(tail), is_whole)
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None

    def _headers(self, cluster: str) -> dict[str, str]:
        if self._token is None or cluster != self._own:
            return {}
        try:
            token = self._token.read_text(encoding="utf-8").strip()
        except OSError:
            return {}  # mounted as soon as the operator has made it
        return {"Authorization": f"Bearer {token}"}


def _parse(body: bytes) -> JsonObject | None:
    """Return the object of a whole answer; None where it is no JSON."""
    try:
        return as_object(json.loads(body))
    except (ValueError, RecursionError):
        return None


def whole_log(body: bytes) -> str:
    """Return the log of a whole answer of Ray's; empty where it holds none."""
    return _without_surrogates((_parse(body) or {}).get("logs"))


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
