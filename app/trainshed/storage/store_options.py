"""Connection options of a dataset's store that differ from the environment. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StoreOptions:
    """Connection options of a store; empty ones come from the environment.

    Args:
        is_anonymous: whether to send no credentials.
        pays: whether the requester pays (S3 only).
        endpoint: URL of an S3 store.
        region: of the bucket.
        query: the query string of a file on the web: often a key, so it is separate from the
            address, which messages show.
    """

    is_anonymous: bool = False
    pays: bool = False
    endpoint: str = ""
    region: str = ""
    query: str = field(default="", repr=False)


AS_USUAL = StoreOptions()
