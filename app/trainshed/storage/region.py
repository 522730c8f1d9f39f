"""In which region of Amazon's a bucket lies: asked for where nobody says it, as Ray does."""

from __future__ import annotations

import functools
import http.client
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import quote

# Of any bucket it says the region, also to who may not see it (S3, HeadBucket).
AMAZON = "https://s3.amazonaws.com"
_HEADER = "x-amz-bucket-region"
# In all: a name may have many addresses, and a Pod's network not be there yet.
PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.5


@functools.lru_cache(maxsize=64)
def region_of(bucket: str) -> str | None:
    """Return the region of a bucket; None where nobody tells."""
    found: list[str | None] = []
    end = time.monotonic() + PATIENCE_SECONDS
    asking = threading.Thread(target=lambda: found.append(_asked(bucket, end)), daemon=True)
    asking.start()
    asking.join(PATIENCE_SECONDS)
    return found[0] if found else None


def _asked(bucket: str, end: float) -> str | None:
    """Ask until there is an answer, or time is up."""
    request = urllib.request.Request(f"{AMAZON}/{quote(bucket, safe='')}", method="HEAD")
    while True:
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                told: str | None = answer.headers[_HEADER]
                return told
        except urllib.error.HTTPError as error:
            return error.headers[_HEADER]
        except (OSError, http.client.HTTPException):
            # That nobody answers, or something else does, the client says in its own words.
            if time.monotonic() + _PAUSE_SECONDS > end:
                return None
        time.sleep(_PAUSE_SECONDS)
