"""Keeps Ray's libraries from talking over the run's events; their log files still have it all."""

from __future__ import annotations

import logging

from ray._private.log import PlainRayHandler


def quiet(library: str, level: int) -> None:
    """Let a library of Ray's, such as `ray.data`, write to the console from a level on only.

    Call it when the library has set its handlers up; each of its processes has its own.
    """
    for handler in logging.getLogger(library).handlers:
        if isinstance(handler, PlainRayHandler):
            handler.setLevel(level)
