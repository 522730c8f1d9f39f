import pytest
import torch

from tests.app.programs.fake_run import Tensors, run_program
from trainshed.programs import tabular
from trainshed.programs.tabular import join_features


def make_table(rows: int = 512) -> dict[str, Tensors]:
    """Return two columns and a vector column, a class and a number that follow from them."""
    values = torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))
    table = {
        "a": values[:, 0],
        "b": values[:, 1],
        "rest": values[:, 2:],
        "label": (values.sum(dim=1) > 0).to(torch.int32),
        "price": values[:, 0] - 2 * values[:, 2],
    }
    return {
        "train": {name: column[:-128] for name, column in table.items()},
        "valid": {name: column[-128:] for name, column in table.items()},
    }


def make_config(**options: object) -> dict[str, object]:
    return {"features": ["a", "b", "rest"], "inputs": 4, "learningRate": 0.01, **options}


def test_classification_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_program(monkeypatch, tabular.train, make_config(), make_table(), epochs=5)
    assert run.metrics["valid.accuracy"] > 0.9
    counts = run.confusions["rows of valid"]
    assert counts.sum() == 128
    assert counts.trace() / 128 == run.metrics["valid.accuracy"]


def test_regression_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config(task="regression", label="price")
    run = run_program(monkeypatch, tabular.train, config, make_table(), epochs=8)
    assert run.metrics["valid.loss"] < 0.3
    assert set(run.metrics) == {"valid.loss", "valid.absoluteError"}


def test_columns_lie_side_by_side_in_the_order_they_are_named() -> None:
    batch = {"x": torch.tensor([1, 2]), "v": torch.tensor([[3, 4], [5, 6]])}
    assert join_features(batch, ["v", "x"], inputs=3).tolist() == [[3, 4, 1], [5, 6, 2]]


FAULTS: dict[str, tuple[dict[str, object], str]] = {
    "feature that is not there": (
        {"features": ["age"], "inputs": 0},
        r'^there is no column "age"; expected one of a, b, rest, label, price\. The transform',
    ),
    "vector column without inputs": (
        {"features": ["a", "b", "rest"], "inputs": 0},
        r"^spec\.config\.inputs: got 3; expected 4: the length of a row of features",
    ),
    "class out of range": ({"label": "price"}, 'column "price": labels must be one whole number'),
    "target that is a vector": (
        {"task": "regression", "label": "rest"},
        r'column "rest": a target must be one number a row, got the shape \(32, 2\)',
    ),
    "label that is not there": ({"label": "cost"}, r'^there is no column "cost"; expected one of'),
    "no features": (
        {"features": []},
        r"^spec\.config\.features: got \[\]; expected at least 1 item$",
    ),
}


@pytest.mark.parametrize(("options", "want"), FAULTS.values(), ids=FAULTS)
def test_config_that_does_not_fit_the_data(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, object], want: str
) -> None:
    with pytest.raises(ValueError, match=want):
        run_program(monkeypatch, tabular.train, make_config(**options), make_table())
