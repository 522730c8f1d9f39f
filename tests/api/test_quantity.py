"""Kubernetes quantities."""

import pytest

from trainshed_api.quantity import parse_bytes, parse_cores

CORES = {"2": 2.0, "0.5": 0.5, "500m": 0.5, ".25": 0.25, "1e1": 10.0, "100u": 0.0001}
BYTES = {
    "1": 1,
    "1k": 1000,
    "1Ki": 1024,
    "8Gi": 8 * 2**30,
    "1.5M": 1_500_000,
    "2E": 2 * 10**18,
    "1e3": 1000,
    "1E3": 1000,
    "1500m": 2,
}


@pytest.mark.parametrize("text", CORES)
def test_cores_are_read_as_kubernetes_reads_them(text: str) -> None:
    assert parse_cores(text) == CORES[text]


@pytest.mark.parametrize("text", BYTES)
def test_bytes_are_read_as_kubernetes_reads_them(text: str) -> None:
    assert parse_bytes(text) == BYTES[text]


@pytest.mark.parametrize("text", ["", "1 Gi", "8GB", "Gi", "1K", "0x10", "1_000", "1e", "nan"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="want a Kubernetes quantity such as 2, 500m or 8Gi"):
        parse_bytes(text)
