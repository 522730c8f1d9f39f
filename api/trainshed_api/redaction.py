"""Which values of a spec may be a key or a password, and are not shown to others. Pure."""

from __future__ import annotations

import re

_SECRET_NAME = re.compile(r"(token|secret|password|api_?key)$", re.IGNORECASE)
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")


def is_secret(path: str) -> bool:
    """Return whether the name of a field, or the last one of a path, ends as that of a secret."""
    return bool(_SECRET_NAME.search(path))


def without_password(text: str) -> str:
    """Return a text whose addresses have no user and no password."""
    return _LOGIN.sub("", text)
