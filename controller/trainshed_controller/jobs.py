"""Ray's Jobs API, asked where Kubernetes knows too little: has a job ended, and its last words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from pathlib import Path

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_OVER = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})
_OK, _NOT_FOUND = 200, 404


class JobsApi:
    """The dashboards of the RayClusters.

    Args:
        url: of a dashboard, with {namespace} and {cluster}.
        token: the file with the token of the clusters; without one none is sent.
    """

    def __init__(self, url: str, token: Path | None) -> None:
        self._url = url
        self._token = token
        self._session = aiohttp.ClientSession(timeout=_TIMEOUT)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()

    async def is_over(self, namespace: str, cluster: str, job_id: str) -> bool | None:
        """Say whether the job runs no more: it ended, or this head never heard of it.

        None where nobody answers.
        """
        try:
            async with self._session.get(
                f"{self._base(namespace, cluster)}/api/jobs/{job_id}", headers=self._headers()
            ) as answer:
                if answer.status == _NOT_FOUND:
                    return True
                if answer.status != _OK:
                    return None
                said = await answer.json()
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return None
        return isinstance(said, dict) and said.get("status") in _OVER

    async def read_log(self, namespace: str, cluster: str, job_id: str) -> str:
        """Return what the job printed; empty where nobody answers."""
        try:
            async with self._session.get(
                f"{self._base(namespace, cluster)}/api/jobs/{job_id}/logs", headers=self._headers()
            ) as answer:
                said = await answer.json() if answer.status == _OK else {}
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
            return ""
        return str(said.get("logs", "")) if isinstance(said, dict) else ""

    def _base(self, namespace: str, cluster: str) -> str:
        return self._url.format(namespace=namespace, cluster=cluster)

    def _headers(self) -> dict[str, str]:
        if self._token is None:
            return {}
        try:
            token = self._token.read_text(encoding="utf-8").strip()
        except OSError:
            return {}  # mounted as soon as the operator has made it
        return {"Authorization": f"Bearer {token}"}
