"""Which cluster is asked, and with which token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trainshed_api.errors import Problem, SpecError, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

DEFAULT_ADDRESS = "http://localhost:8265"
AUTHORIZATION = "Authorization"


@dataclass(frozen=True)
class DashboardAccess:
    """How a cluster's dashboard is reached.

    Args:
        address: of the dashboard, without a slash at its end.
        headers: sent with each request.
        token_from: where the token was found; empty without one.
        is_default: whether nobody named the address.
    """

    address: str
    headers: Mapping[str, str]
    token_from: str = ""
    is_default: bool = False


def find_access(
    address: str | None,
    token_file: Path | None,
    headers: Sequence[str],
    environment: Mapping[str, str],
) -> DashboardAccess:
    """Return how to reach the cluster that the command line or the environment names.

    Args:
        address: of the command line; None for RAY_ADDRESS, or this machine.
        token_file: of the command line; None for RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH.
        headers: of the command line, "name: value" each.
        environment: of this process.

    Raises:
        SpecError: for an address that is no dashboard's, a header or a file that cannot be read.
    """
    given = address or environment.get("RAY_ADDRESS")
    named = given or DEFAULT_ADDRESS
    if not named.startswith(("http://", "https://")):
        field = "--address" if address else "RAY_ADDRESS"
        expected = f"the address of the dashboard, such as {DEFAULT_ADDRESS}"
        raise SpecError([Problem(field, show_value(named), expected)])
    sent = dict(_split(header) for header in headers)
    if any(name.lower() == AUTHORIZATION.lower() for name in sent):
        return DashboardAccess(named.rstrip("/"), sent, "--header", is_default=not given)
    token, found = _find_token(token_file, environment)
    if token:
        sent[AUTHORIZATION] = f"Bearer {token}"
    token_from = found if token else ""
    return DashboardAccess(named.rstrip("/"), sent, token_from, is_default=not given)


def _split(header: str) -> tuple[str, str]:
    name, colon, value = header.partition(":")
    if not colon or not name.strip():
        raise SpecError([Problem("--header", show_value(header), "name: value")])
    return name.strip(), value.strip()


def _find_token(file: Path | None, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the token and where it was found, in the order that Ray itself looks."""
    from pathlib import Path

    if file is None and environment.get("RAY_AUTH_TOKEN"):
        return environment["RAY_AUTH_TOKEN"].strip(), "RAY_AUTH_TOKEN"
    name = "--token-file" if file else "RAY_AUTH_TOKEN_PATH"
    if file is None and environment.get(name):
        file = Path(environment[name])
    if file is None:
        return "", ""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        expected = f"a file that holds the token ({reason})"
        raise SpecError([Problem(name, show_value(str(file)), expected)]) from None
    if not token:
        raise SpecError([Problem(name, show_value(str(file)), "a file that is not empty")])
    return token, f"{name} {file}"
