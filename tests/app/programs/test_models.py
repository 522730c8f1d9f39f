import pytest
import torch

from trainshed.programs.models import cnn, mlp, vit
from trainshed.programs.vision import build_model

SHAPES = {
    "8x8 grey": (8, 1, 10),
    "32x32 colour": (32, 3, 10),
    "16x16 grey, two classes": (16, 1, 2),
}


@pytest.mark.parametrize(("size", "channels", "classes"), SHAPES.values(), ids=SHAPES)
def test_picture_models_give_one_logit_a_class(size: int, channels: int, classes: int) -> None:
    config = {"imageSize": size, "channels": channels, "classes": classes}
    images = torch.randn(3, channels, size, size)

    models = [cnn.build(cnn.CnnOptions.read(config)), vit.build(vit.VitOptions.read(config))]

    assert [tuple(model(images).shape) for model in models] == [(3, classes), (3, classes)]


def test_a_row_is_scored_alone_whatever_else_is_in_its_batch() -> None:
    images = torch.randn(5, 3, 32, 32)
    for model in (cnn.build(cnn.CnnOptions()), vit.build(vit.VitOptions())):
        model.eval()
        torch.testing.assert_close(model(images)[2:3], model(images[2:3]))


def test_the_same_seed_builds_the_same_weights() -> None:
    def weights() -> torch.Tensor:
        torch.manual_seed(3)
        return torch.cat([p.flatten() for p in vit.build(vit.VitOptions()).parameters()])

    assert torch.equal(weights(), weights())


def test_dropout_acts_in_training_and_not_in_evaluation() -> None:
    model = vit.build(vit.VitOptions.read({"dropout": 0.5}))
    images = torch.randn(2, 3, 32, 32)
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))


def test_mlp_has_the_hidden_layers_it_is_told() -> None:
    model = mlp.build(4, [7, 5], 3)
    shapes = [tuple(p.shape) for p in model.parameters() if p.ndim == 2]
    assert shapes == [(7, 4), (5, 7), (3, 5)]
    assert model(torch.randn(2, 4)).shape == (2, 3)


FAULTS = {
    "patch does not divide the picture": (
        "vit",
        {"imageSize": 8, "patch": 3},
        "spec.config.patch: got 3; expected a divisor of spec.config.imageSize 8: 1, 2, 4, 8",
    ),
    "heads do not divide the width": (
        "vit",
        {"width": 6, "heads": 4},
        "spec.config.heads: got 4; expected a divisor of spec.config.width 6: 1, 2, 3, 6",
    ),
    "more halvings than the picture has": (
        "cnn",
        {"imageSize": 8, "depth": 4},
        "spec.config.depth: got 4; expected at most 3: each stage halves a picture, and "
        "spec.config.imageSize is 8",
    ),
}


@pytest.mark.parametrize(("model", "config", "want"), FAULTS.values(), ids=FAULTS)
def test_options_that_do_not_fit_together(model: str, config: dict[str, object], want: str) -> None:
    with pytest.raises(ValueError, match=r"spec\.config") as caught:
        build_model({"model": model, **config})
    assert str(caught.value) == want


def test_hidden_layer_without_units_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"spec\.config\.widths: got \[8, 0\]; expected at least 1 unit"
    ):
        mlp.build(4, [8, 0], 2)
