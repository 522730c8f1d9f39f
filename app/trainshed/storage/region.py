"""Finds the region of a bucket at Amazon if no setting names it, as Ray does."""

from __future__ import annotations

import functools
import http.client
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import quote

# It returns the region of any bucket, also without permission to read it (S3, HeadBucket).
AMAZON = "https://s3.amazonaws.com"
_HEADER = "x-amz-bucket-region"
# Total time: a name may have many addresses, and a Pod's network may not be up yet.
PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.5


@functools.lru_cache(maxsize=64)
def region_of(bucket: str) -> str | None:
    """Return the region of a bucket; None without an answer."""
    found: list[str | None] = []
    end = time.monotonic() + PATIENCE_SECONDS
    asking = threading.Thread(target=lambda: found.append(_asked(bucket, end)), daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    return found[0] if found else None


def _asked(bucket: str, end: float) -> str | None:
    """Ask until there is an answer, or the time is over."""
    request = urllib.request.Request(f"{AMAZON}/{quote(bucket, safe='')}", method="HEAD")
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                told: str | None = answer.headers[_HEADER]
                return told
        except urllib.error.HTTPError as error:
            return error.headers[_HEADER]
        except (OSError, http.client.HTTPException):
            # Without an answer, or with a wrong one, the client reports its own error.
            if time.monotonic() + _PAUSE_SECONDS > end:
                return None
        time.sleep(_PAUSE_SECONDS)
