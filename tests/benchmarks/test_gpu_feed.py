"""What a GPU is fed for, without one."""

import pytest
import torch

from benchmarks.gpu_feed import check_gpu
from benchmarks.plain.residual import CLASSES, build_residual


# Of torchvision's, whose last layer has 1,000 classes.
@pytest.mark.parametrize(
    ("name", "parameters"), [("ResNet-18", 11_689_512), ("ResNet-50", 25_557_032)]
)
def test_a_network_has_the_parameters_that_it_is_known_for(name: str, parameters: int) -> None:
    with torch.device("meta"):
        network = build_residual(name)
    head = network[-1]
    assert isinstance(head, torch.nn.Linear)
    rest = (1000 - CLASSES) * (head.in_features + 1)

    assert sum(each.numel() for each in network.parameters()) + rest == parameters
    assert network(torch.empty(2, 3, 224, 224, device="meta")).shape == (2, CLASSES)


def test_who_has_no_gpu_is_told_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(SystemExit, match="torch sees no CUDA device here"):
        check_gpu()
