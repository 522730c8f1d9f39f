"""How a store of data is reached, where that is not as the environment says. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reach:
    """How the store of a dataset is reached; what is empty is as the environment says.

    Args:
        is_anonymous: whether without credentials.
        pays: whether who asks pays for it (S3 alone).
        endpoint: URL of an S3 store.
        region: of the bucket.
    """

    is_anonymous: bool = False
    pays: bool = False
    endpoint: str = ""
    region: str = ""


AS_USUAL = Reach()
