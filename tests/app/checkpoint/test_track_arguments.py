"""What run.track takes, and what it refuses with a message that says what to do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from tests.app.builders_checkpoint import make_tracked


def make_model() -> nn.Linear:
    return nn.Linear(2, 1)


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_each_model_of_a_tuple_has_a_file_of_its_own() -> None:
    maker, critic = make_model(), make_model()
    by_critic = make_optimizer(critic)
    scheduler = torch.optim.lr_scheduler.ConstantLR(by_critic)
    tracked = make_tracked(
        maker=(maker, make_optimizer(maker)),
        critic=(critic, by_critic, scheduler),
        average=make_model(),
    )

    assert {name: (each.kind, *each.files) for name, each in tracked.objects().items()} == {
        "maker": ("model", "maker.pt"),
        "maker.optimizer": ("optimizer", "state.pt"),
        "critic": ("model", "critic.pt"),
        "critic.optimizer": ("optimizer", "state.pt"),
        "critic.scheduler": ("scheduler", "state.pt"),
        "average": ("model", "state.pt"),
        "scaler": ("scaler", "state.pt"),
    }
    assert tracked.objects().keys() == tracked.weights().keys() | tracked.state().keys()


def test_the_model_that_is_passed_first_is_the_first() -> None:
    maker, critic = make_model(), make_model()
    pair = (critic, make_optimizer(critic))

    assert make_tracked(critic=pair).first.module is critic
    assert make_tracked(maker, critic=pair).first.module is maker


def test_each_scheduler_counts_the_steps_of_its_own_optimizer() -> None:
    models = [make_model(), make_model()]
    optimizers = [make_optimizer(model) for model in models]
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.5) for each in optimizers]
    one, two = zip(models, optimizers, schedulers, strict=True)
    tracked = make_tracked(one=one, two=two)
    tracked.step(optimizers[1])

    assert [each.get_last_lr() for each in schedulers] == [[0.1], [0.05]]


def test_the_norm_of_gradients_has_the_models_name() -> None:
    models = [make_model(), make_model(), make_model()]
    first, second, third = map(make_optimizer, models)
    tracked = make_tracked(
        models[0], first, second=(models[1], second), third=models[2], of_third=third
    )

    assert [tracked.norm_name(each) for each in (first, second, third)] == [
        "gradientNorm",
        "second.gradientNorm",
        "of_third.gradientNorm",
    ]


@dataclass(frozen=True)
class Wrong:
    """Arguments of `track` by a model `g`, its optimizer `og`, and another model `d` with `od`."""

    arguments: Callable[[Mapping[str, object]], tuple[tuple[object, ...], dict[str, object]]]
    message: str


WRONG = {
    "two models in a tuple": Wrong(
        lambda it: ((), {"pair": (it["g"], it["d"])}),
        r"track: got \(Linear, Linear\) for pair; expected \(model, optimizer\) or",
    ),
    "a model alone in a tuple": Wrong(
        lambda it: ((), {"pair": (it["g"],)}), r"track: got \(Linear\) for pair; expected \(model"
    ),
    "a tuple of four": Wrong(
        lambda it: ((), {"pair": (it["g"], it["og"], None, None)}),
        r"track: got \(Linear, SGD, NoneType, NoneType\) for pair; expected",
    ),
    "a scheduler that is none": Wrong(
        lambda it: ((), {"pair": (it["g"], it["og"], it["od"])}),
        r"track: got \(Linear, SGD, SGD\) for pair; expected",
    ),
    "a tuple in the first place": Wrong(
        lambda it: (((it["g"], it["og"]),), {}),
        r"track: got \(Linear, SGD\) for the model; expected a torch\.nn\.Module\. Pass",
    ),
    "an optimizer without a model": Wrong(
        lambda it: ((None, it["og"]), {"d": (it["d"], it["od"])}),
        "track: got an optimizer or a scheduler without a model; expected its model too",
    ),
    "no model that trains": Wrong(
        lambda it: ((), {"average": it["g"]}),
        "track: got no model that trains; expected at least one. Pass it first, or",
    ),
    "an object without a state": Wrong(
        lambda it: ((it["g"],), {"rate": 0.5}),
        "track: got float for rate; expected an object with state_dict and load_state_dict",
    ),
    "a model with two names": Wrong(
        lambda it: ((it["g"], it["og"]), {"average": it["g"]}),
        "track: got the same object for model and average; expected each object once",
    ),
    "an optimizer of two models": Wrong(
        lambda it: ((), {"one": (it["g"], it["both"]), "two": (it["d"], it["both"])}),
        r"track: got the same object for one\.optimizer and two\.optimizer; expected each",
    ),
    "optimizers of each other's models": Wrong(
        lambda it: ((), {"one": (it["g"], it["od"]), "two": (it["d"], it["og"])}),
        r"track: got one\.optimizer with no parameter of Linear; expected an optimizer of what",
    ),
    "an optimizer of a model that is not tracked": Wrong(
        lambda it: ((it["g"], it["og"]), {"of_d": it["od"]}),
        "track: got of_d with no parameter of Linear; expected an optimizer of what is tracked",
    ),
    "the first optimizer of another model": Wrong(
        lambda it: ((it["g"], it["od"]), {}), "track: got optimizer with no parameter of Linear"
    ),
    "a name that another file has": Wrong(
        lambda it: ((), {"state": (it["g"], it["og"])}),
        "track: got the keyword state for a model; expected another name",
    ),
    "a name that is a path": Wrong(
        lambda it: ((), {"a/b": (it["g"], it["og"])}), "track: got the keyword a/b for a model"
    ),
    "the name of a model's part": Wrong(
        lambda it: ((), {"d": (it["d"], it["od"]), "d.optimizer": it["og"]}),
        r"track: got the keyword d\.optimizer; expected another name, because a checkpoint",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_what_cannot_be_tracked_is_refused(case: Wrong) -> None:
    g, d = make_model(), make_model()
    both = torch.optim.SGD([*g.parameters(), *d.parameters()], lr=0.1)
    given = {"g": g, "d": d, "og": make_optimizer(g), "od": make_optimizer(d), "both": both}
    positional, named = case.arguments(given)

    with pytest.raises(ValueError, match=case.message):
        make_tracked(*positional, **named)  # type: ignore[arg-type]  # that is what is tried
