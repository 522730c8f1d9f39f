"""How deep an object may be that is read at all: as deep as an API server takes."""

import sys

# An API server takes objects of 10,000 levels, and json.loads counts each as a call of Python's,
# of which 1,000 are allowed: one such object would end every LIST that it is in.
# 50,000 levels are parsed within the 8 MiB of a thread's stack.
_MOST_CALLS = 30_000


def allow_deep_objects() -> None:
    """Let this process read them; what is too deep is then said of the object alone."""
    sys.setrecursionlimit(_MOST_CALLS)
