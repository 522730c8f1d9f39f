import pytest
import torch

from trainshed.programs.label_guard import LabelGuard

FAULTS = {
    "too large": (torch.tensor([0, 12, 3]), "label 12 at step 7 is no class; with"),
    "negative": (torch.tensor([-1, 2]), "label -1 at step 7 is no class; with"),
    "fractions": (torch.tensor([0.5]), "labels must be one whole number a row, got torch.float32"),
    "one-hot": (torch.eye(3, dtype=torch.int64), "got torch.int64 of shape (3, 3)"),
}


@pytest.mark.parametrize(("labels", "want"), FAULTS.values(), ids=FAULTS)
def test_wrong_labels_are_named_with_column_value_and_step(labels: torch.Tensor, want: str) -> None:
    guard = LabelGuard("train", "label", classes=10)
    with pytest.raises(ValueError, match=r'^dataset "train", column "label": ') as caught:
        guard.check(labels, step=7)
    assert want in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_good_labels_become_int64(dtype: torch.dtype) -> None:
    checked = LabelGuard("train", "label", classes=10).check(torch.tensor([0, 9], dtype=dtype), 1)
    assert checked.dtype == torch.int64
    assert checked.tolist() == [0, 9]


def test_a_batch_without_rows_is_fine() -> None:
    empty = torch.zeros(0, dtype=torch.int32)
    assert len(LabelGuard("valid", "label", classes=10).check(empty, 1)) == 0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_first_wrong_label_is_told_when_the_device_is_read() -> None:
    guard = LabelGuard("train", "label", classes=10)
    for step, label in enumerate([3, 11, 12, 4], start=1):
        assert guard.check(torch.tensor([0, label], device="cuda"), step).max() < 10
    with pytest.raises(ValueError, match="label 11 at step 2 is no class"):
        guard.finish()
