"""In which region of Amazon's a bucket lies: asked for where nobody says it, as Ray does."""

from __future__ import annotations

import functools
import urllib.error
import urllib.request

# Of any bucket it says the region, also to who may not see it (S3, HeadBucket).
AMAZON = "https://s3.amazonaws.com"
_HEADER = "x-amz-bucket-region"
_TIMEOUT_SECONDS = 5


@functools.lru_cache(maxsize=64)
def region_of(bucket: str) -> str | None:
    """Return the region of a bucket; None where nobody tells."""
    request = urllib.request.Request(f"{AMAZON}/{bucket}", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
            found: str | None = answer.headers[_HEADER]
    except urllib.error.HTTPError as error:
        return error.headers[_HEADER]
    except OSError:  # the client says in its own words that nobody answers
        return None
    return found
