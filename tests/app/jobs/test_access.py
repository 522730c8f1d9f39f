"""Which cluster is asked and with which token: the command line first, then the environment."""

from pathlib import Path

import pytest

from trainshed.jobs.access import DashboardAccess, find_access
from trainshed_api.errors import SpecError

BEARER = {"Authorization": "Bearer secret"}


def test_without_a_word_it_is_this_machine() -> None:
    access = find_access(None, None, [], {})

    assert access == DashboardAccess("http://localhost:8265", {}, is_default=True)


def test_the_command_line_wins_over_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    environment = {"RAY_ADDRESS": "http://other:1", "RAY_AUTH_TOKEN": "other"}

    access = find_access("https://here:8265/", file, ["X-Team: a: b"], environment)

    assert access == DashboardAccess(
        "https://here:8265", {"X-Team": "a: b", **BEARER}, f"--token-file {file}"
    )


def test_the_environment_names_cluster_and_token() -> None:
    environment = {"RAY_ADDRESS": "http://there:8265", "RAY_AUTH_TOKEN": "secret"}

    assert find_access(None, None, [], environment) == DashboardAccess(
        "http://there:8265", BEARER, "RAY_AUTH_TOKEN"
    )


def test_the_environment_may_name_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")

    access = find_access(None, None, [], {"RAY_AUTH_TOKEN_PATH": str(file)})

    assert access.headers == BEARER
    assert access.token_from == f"RAY_AUTH_TOKEN_PATH {file}"


def test_a_header_of_one_s_own_is_the_authorization() -> None:
    access = find_access(None, None, ["authorization: Basic x"], {"RAY_AUTH_TOKEN": "secret"})

    assert access.headers == {"authorization": "Basic x"}


WRONG: dict[str, tuple[str | None, Path | None, list[str], dict[str, str], str]] = {
    "an address of the head's other port": (
        "10.0.0.1:6379",
        None,
        [],
        {},
        '--address: got "10.0.0.1:6379"; expected the address of the dashboard, such as '
        "http://localhost:8265",
    ),
    "an address for Ray's own client": (
        None,
        None,
        [],
        {"RAY_ADDRESS": "ray://head:10001"},
        'RAY_ADDRESS: got "ray://head:10001"; expected the address of the dashboard, such as '
        "http://localhost:8265",
    ),
    "a header without a value": (
        None,
        None,
        ["X-Team"],
        {},
        '--header: got "X-Team"; expected name: value',
    ),
    "a file that is not there": (
        None,
        Path("/no/token"),
        [],
        {},
        '--token-file: got "/no/token"; expected a file that holds the token (No such file or '
        "directory)",
    ),
    "an empty file": (
        None,
        None,
        [],
        {"RAY_AUTH_TOKEN_PATH": "/dev/null"},
        'RAY_AUTH_TOKEN_PATH: got "/dev/null"; expected a file that is not empty',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(case: str) -> None:
    address, file, headers, environment, want = WRONG[case]

    with pytest.raises(SpecError) as caught:
        find_access(address, file, headers, environment)

    assert str(caught.value) == want
