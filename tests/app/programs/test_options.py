import pytest

from trainshed.programs.models.cnn import CnnOptions
from trainshed.programs.tabular import TabularOptions
from trainshed.programs.vision import build_model

FAULTS = {
    "misspelt name": (
        {"learningrate": 0.1},
        'spec.config.learningrate: unknown field; did you mean "learningRate"?',
    ),
    "python's spelling": (
        {"image_size": 8},
        'spec.config.image_size: unknown field; did you mean "imageSize"?',
    ),
    "option of the other model": (
        {"model": "cnn", "heads": 2},
        "spec.config.heads: unknown field; valid here: learningRate, weightDecay",
    ),
    "nothing like it": (
        {"zzz": 1},
        "spec.config.zzz: unknown field; valid here: learningRate, weightDecay, warmupSteps",
    ),
    "wrong type": (
        {"width": "wide"},
        'spec.config.width: got "wide"; expected a valid integer',
    ),
    "out of bounds": (
        {"learningRate": 0},
        "spec.config.learningRate: got 0; expected a number greater than 0",
    ),
    "unknown model": ({"model": "resnet"}, 'spec.config.model: got "resnet"; expected cnn or vit'),
    "two channels": ({"channels": 2}, "spec.config.channels: got 2; expected 1 or 3"),
}


@pytest.mark.parametrize(("config", "want"), FAULTS.values(), ids=FAULTS)
def test_wrong_config_is_named_with_what_would_be_right(
    config: dict[str, object], want: str
) -> None:
    with pytest.raises(ValueError, match=r"spec\.config") as caught:
        build_model(config)
    assert str(caught.value).startswith(want)


def test_every_fault_has_a_line_of_its_own() -> None:
    with pytest.raises(ValueError, match=r"spec\.config") as caught:
        CnnOptions.read({"widht": 3, "depth": 0})
    assert str(caught.value).splitlines() == [
        "spec.config.depth: got 0; expected a number greater than or equal to 1",
        'spec.config.widht: unknown field; did you mean "width"?',
    ]


def test_missing_option_is_named() -> None:
    with pytest.raises(ValueError, match=r"^spec\.config\.features: missing$"):
        TabularOptions.read({})


def test_whole_numbers_do_for_fractions() -> None:
    assert CnnOptions.read({"learningRate": 1}).learning_rate == 1.0
