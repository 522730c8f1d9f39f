"""The networks of the GPU benchmark, and its check for a GPU."""

import pytest
import torch

from benchmarks.gpu_feed import check_gpu
from benchmarks.plain.residual import CLASSES, build_residual


# Numbers of torchvision's networks, which have 1,000 classes.
@pytest.mark.parametrize(
    ("name", "parameters"), [("ResNet-18", 11_689_512), ("ResNet-50", 25_557_032)]
)
def test_a_network_has_as_many_parameters_as_in_torchvision(name: str, parameters: int) -> None:
    with torch.device("meta"):
        network = build_residual(name)
    head = network[-1]
    assert isinstance(head, torch.nn.Linear)
    rest = (1000 - CLASSES) * (head.in_features + 1)

    assert sum(each.numel() for each in network.parameters()) + rest == parameters
    assert network(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, CLASSES)


def test_without_a_gpu_the_benchmark_exits_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(SystemExit, match="torch sees no CUDA device here"):
        check_gpu()
