"""What the stand-in can be told."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def now() -> datetime:
    """Return the time as Kubernetes writes it, in whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(frozen=True)
class Settings:
    """The times are KubeRay's; tests that wait for them shorten them."""

    namespace: str | None = None
    """The one to watch; None is all of them."""
    dashboard_url: str = "http://{address}"
    """Where a dashboard answers; of {address} (host:port of the head's Service), {namespace} and
    {cluster} those are filled in that it names."""
    poll_seconds: float = 3
    """RayJobs are looked at this often."""
    cluster_retry_seconds: float = 2
    """A RayCluster is looked at again so soon after its status changed."""
    status_check_timeout_seconds: float = 300
    """A RayJob fails whose dashboard did not answer for so long."""
    dashboard_timeout_seconds: float = 2
    concurrency: int = 1
    """Objects of one kind that are worked on at a time."""
    now: Callable[[], datetime] = now
    """What deadlines are counted by."""
