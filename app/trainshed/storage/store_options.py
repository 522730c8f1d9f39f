"""How a store of data is reached, where that is not as the environment says. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StoreOptions:
    """How the store of a dataset is reached; what is empty is as the environment says.

    Args:
        is_anonymous: whether without credentials.
        pays: whether who asks pays for it (S3 alone).
        endpoint: URL of an S3 store.
        region: of the bucket.
        query: what follows the question mark of a file on the web: mostly who may read it, so it
            stands apart from the address, which messages have.
    """

    is_anonymous: bool = False
    pays: bool = False
    endpoint: str = ""
    region: str = ""
    query: str = field(default="", repr=False)


AS_USUAL = StoreOptions()
