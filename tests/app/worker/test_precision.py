"""What torch is told of a run's precision."""

from collections.abc import Iterator

import pytest
import torch

from trainshed.frameworks.on_torch import set_float32_products
from trainshed.worker.current import AUTOCAST_DTYPES
from trainshed_api.v1alpha1 import Precision

GPU, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(autouse=True)
def torch_as_it_comes() -> Iterator[None]:
    """Products in float32, convolutions rounded; afterwards, too."""
    yield
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = True


def rounded() -> tuple[bool, bool]:
    """Say whether GPUs round in products of matrices, and in convolutions."""
    return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32


CASES: dict[Precision, tuple[bool, bool]] = {
    "tensorfloat32": (True, True),
    "float32": (False, False),
    "bfloat16": (False, True),
    "float16": (False, True),
}


@pytest.mark.parametrize("precision", CASES)
def test_a_gpu_rounds_float32_only_where_the_run_says_so(precision: Precision) -> None:
    set_float32_products(precision, GPU)

    assert rounded() == CASES[precision]


@pytest.mark.parametrize("precision", CASES)
def test_nothing_is_set_for_cpus(precision: Precision) -> None:
    set_float32_products(precision, CPU)

    assert rounded() == (False, True)


def test_a_function_may_say_it_in_either_way_after_us() -> None:
    set_float32_products("float32", GPU)

    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.matmul.fp32_precision = "tf32"

    assert torch.backends.cuda.matmul.allow_tf32


def test_only_half_precisions_have_a_type_of_their_own() -> None:
    assert {"bfloat16": torch.bfloat16, "float16": torch.float16} == AUTOCAST_DTYPES


@pytest.mark.gpu
def test_a_gpu_from_ampere_on_multiplies_rounded_numbers() -> None:
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.fail("needs a GPU of compute capability 8.0 or later")
    numbers = torch.full((64, 64), 1 + 2**-12, device="cuda")  # 12 bits: TensorFloat32 has 10

    set_float32_products("float32", GPU)
    exact = (numbers @ numbers)[0, 0].item()
    set_float32_products("tensorfloat32", GPU)
    rounded_off = (numbers @ numbers)[0, 0].item()

    assert exact == pytest.approx(64 * (1 + 2**-12) ** 2, rel=1e-6)
    assert rounded_off == 64.0
