"""What the fixtures of servers share: their users are marked, and have their tools in time."""

import socket
from collections.abc import Iterable

import pytest

from hack.cluster.ports import LOOPBACK
from hack.tools.finder import ToolMissingError, find


def mark_users(items: Iterable[pytest.Item], fixture: str, marker: str) -> list[pytest.Item]:
    """Mark the tests that use a fixture, and return them."""
    users = [item for item in items if fixture in getattr(item, "fixturenames", ())]
    for item in users:
        item.add_marker(marker)
    return users


def get_tools(
    session: pytest.Session, marker: str, tools: Iterable[str], missing: pytest.StashKey[str]
) -> None:
    """Get the tools of a marker's tests before the first of them: a build takes longer than a test.

    missing: where it is kept that one cannot be had.
    """
    if session.config.option.collectonly:
        return
    if any(item.get_closest_marker(marker) for item in session.items):
        try:
            for tool in tools:
                find(tool)
        except ToolMissingError as error:
            session.config.stash[missing] = str(error)


def listens(port: int) -> bool:
    """Say whether somebody listens on a port of loopback."""
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
