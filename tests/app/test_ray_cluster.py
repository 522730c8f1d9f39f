"""Whether there is a cluster to join is told by RAY_ADDRESS, unless it is a dashboard's."""

import pytest

from trainshed.ray_cluster import in_cluster

ADDRESSES: dict[str, tuple[str | None, bool]] = {
    "none": (None, False),
    "an empty one": ("", False),
    "that of a head": ("10.0.0.1:6379", True),
    "whatever is around": ("auto", True),
    "that of a dashboard": ("http://localhost:8265", False),
    "that of a dashboard behind a proxy": ("https://ray.example.com", False),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_a_run_joins_a_cluster_that_can_be_joined(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, want = ADDRESSES[case]
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)

    assert in_cluster() is want
