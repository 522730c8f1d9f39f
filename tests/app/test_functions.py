"""Functions that a TrainingRun names: found, and found fit, before anything starts."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import pytest

from trainshed.functions import (
    check_config,
    check_framework_of,
    find,
    find_training_function,
    takes_config,
    takes_shards,
)
from trainshed_api.errors import SpecError
from trainshed_api.frameworks import FrameworkName

NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Module":
    """Return a module to be, found from where the command is typed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return Module(tmp_path / f"users_module_{next(NUMBERS)}.py")


@dataclass(frozen=True)
class Module:
    """A user's module."""

    file: Path

    def write(self, text: str) -> str:
        """Write it; return the use of its `train`."""
        self.file.write_text(text)
        return f"{self.file.stem}:train"


@dataclass(frozen=True)
class Case:
    """A module's text and what is said of it; MODULE stands for its name."""

    text: str
    want: str


SESSION = (
    "spec.train: got MODULE:train; expected a module without ray.air.session (line {line}): Ray "
    "removed it; use ray.train.report, ray.train.get_dataset_shard and ray.train.get_context"
)
ARGUMENTS = (
    "spec.train: got MODULE:train({}); expected a function with no argument or one (the config)"
)
CASES: dict[str, Case] = {
    "an error at import is named with its place": Case(
        "x = 1\ny = x / 0\n",
        "expected a module that imports (ZeroDivisionError: division by zero, FOLDER/MODULE.py:2)",
    ),
    "an error of syntax": Case(
        "def train(:\n", "expected a module that imports (SyntaxError: invalid"
    ),
    "something else is not installed": Case(
        "import not_installed\n",
        "expected a module that imports (ModuleNotFoundError: No module named 'not_installed'",
    ),
    "a script that reads arguments at import": Case(
        "import sys\nsys.exit('usage: ...')\n",
        "expected a module that imports (SystemExit: usage: ..., FOLDER/MODULE.py:2)",
    ),
    "no such function": Case(
        "from math import sqrt\ndef trian(config): ...\nclass Other: ...\n",
        "spec.train: got MODULE:train; expected a name in MODULE; it has: trian",
    ),
    "no function at all": Case("", "expected a name in MODULE; it has: none"),
    "not a function": Case("train = 5\n", "expected a function, not a int"),
    "two arguments": Case("def train(config, data): ...\n", ARGUMENTS.format("config, data")),
    "an argument by name only": Case("def train(*, lr): ...\n", ARGUMENTS.format("lr")),
    "async": Case(
        "async def train(config): ...\n", "expected a plain function: calling one that is"
    ),
    "a generator": Case(
        "def train(config):\n    yield 1\n", "expected a plain function: calling one"
    ),
    "the removed session by its import": Case(
        "\nfrom ray.air import session\ndef train(): ...\n", SESSION.format(line=2)
    ),
    "the removed session as a module": Case(
        "import ray.air.session as s\ndef train(): ...\n", SESSION.format(line=1)
    ),
    "the removed session through dots": Case(
        "def train():\n    import ray\n    ray.air.session.report({})\n", SESSION.format(line=3)
    ),
    "the removed session through air": Case(
        "from ray import air\ndef train():\n    air.session.report({})\n", SESSION.format(line=3)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_function_that_will_not_do_is_said_so(module: Module, case: Case) -> None:
    use = module.write(case.text)
    with pytest.raises(SpecError) as caught:
        find_training_function(use, "spec.train")

    assert len(caught.value.problems) == 1
    want = case.want.replace("MODULE", module.file.stem).replace("FOLDER", str(module.file.parent))
    assert want in str(caught.value)


def test_a_module_that_is_not_there_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        find("nowhere.at_all:train", "spec.data.datasets.train.read.use")

    assert str(caught.value) == (
        "spec.data.datasets.train.read.use: got nowhere.at_all:train; expected a module in "
        f"{Path.cwd()} or an installed one (No module named 'nowhere'): set spec.code.workingDir "
        "to the folder of your code, relative to the run's file"
    )


FRAMEWORKS: dict[str, tuple[str, FrameworkName, str | None]] = {
    "the run of XGBoost": ("import trainshed.boosting", "torch", "xgboost"),
    "the run of XGBoost for Keras": ("import trainshed.boosting", "tensorflow", "xgboost"),
    "the run of Keras": ("from trainshed import keras", "torch", "tensorflow"),
    "the framework that it names": ("from trainshed.keras import current", "tensorflow", None),
    "either run": ("trainshed.boosting.current() or trainshed.current()", "torch", None),
    "a function of Ray in the same file": ("import trainshed.boosting, ray.train", "torch", None),
    "another module": ("import trainshed.boostings", "torch", None),
    "nothing of ours": ("pass", "xgboost", None),
}


@pytest.mark.parametrize("case", FRAMEWORKS)
def test_a_function_names_the_framework_that_a_run_forgot(case: str, module: Module) -> None:
    line, framework, want = FRAMEWORKS[case]
    use = module.write(f"def train(config):\n    {line}\n")

    if want is None:
        check_framework_of(use, framework)
        return
    with pytest.raises(SpecError, match=f"got {framework}; expected {want}, as {use} uses"):
        check_framework_of(use, framework)


@pytest.mark.parametrize(
    ("head", "wants_config"),
    [
        ("def train():", False),
        ("def train(config):", True),
        ("def train(config, verbose=False):", True),
        ("def train(config=None, *, verbose=False):", True),
        ("def train(*args):", True),
        ("def train(**options):", False),
        ("def train(*, verbose=False):", False),
    ],
)
def test_the_config_goes_to_those_who_take_it(
    module: Module, head: str, wants_config: bool
) -> None:
    function = find_training_function(module.write(f"{head}\n    return 7\n"), "spec.train")

    assert takes_config(function) is wants_config
    assert (function({}) if wants_config else function()) == 7


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("import ray.train\ndef train():\n    ray.train.get_dataset_shard('train')\n", True),
        ("from ray import train as it\ndef train():\n    it.get_dataset_shard('a')\n", True),
        ("from ray.train import get_dataset_shard as shard\ndef train():\n    shard('a')\n", True),
        ("def train():\n    'not get_dataset_shard'\n", False),
    ],
)
def test_a_function_that_takes_shards_is_known_by_its_file(
    module: Module, text: str, takes: bool
) -> None:
    assert takes_shards(module.write(text)) is takes


def test_a_session_of_somebody_else_is_fine(module: Module) -> None:
    text = "class air:\n    session = 1\ndef train():\n    return air.session\n"

    assert find_training_function(module.write(text), "spec.train")() == 1


# --------------------------------------------------------------------- config

CHECKED = """
from trainshed_api.errors import Problem, SpecError
def train(config): ...
def check_config(config):
    if config.get("kind") == "plain":
        raise ValueError("rate must be above 0")
    if config.get("kind") == "typed":
        raise SpecError([Problem("spec.config.rate", "-1", "a rate above 0")])
    if config.get("kind") == "silent":
        raise ValueError
    config["changed"] = True
"""


@pytest.mark.parametrize(
    ("kind", "want"),
    [
        ("plain", "spec.config: rate must be above 0"),
        ("typed", "spec.config.rate: got -1; expected a rate above 0"),
        ("silent", "spec.config: another one: MODULE:train refuses it"),
    ],
)
def test_a_module_may_refuse_a_config(module: Module, kind: str, want: str) -> None:
    use = module.write(CHECKED)
    with pytest.raises(SpecError) as caught:
        check_config(use, {"kind": kind})

    assert str(caught.value) == want.replace("MODULE", module.file.stem)


def test_a_config_that_is_right_stays_as_it_is(module: Module) -> None:
    config: dict[str, object] = {"rate": 0.1}
    check_config(module.write(CHECKED), config)

    assert config == {"rate": 0.1}


def test_most_modules_check_nothing(module: Module) -> None:
    check_config(module.write("def train(): ...\n"), {"anything": 1})


@pytest.mark.parametrize(
    ("program", "config", "want"),
    [
        (
            "vision",
            {"model": "vit", "pach": 2},
            'spec.config.pach: unknown field; did you mean "patch"?',
        ),
        ("vision", {"model": "vit", "patch": 5}, "spec.config.patch: got 5; expected a divisor of"),
        ("tabular", {"features": ["a"], "widths": [0]}, "spec.config.widths: got [0]; expected at"),
    ],
)
def test_built_in_programs_check_theirs(program: str, config: dict[str, object], want: str) -> None:
    with pytest.raises(SpecError, match=r"^spec\.config\.") as caught:
        check_config(f"trainshed.programs.{program}:train", config)

    assert str(caught.value).startswith(want)
