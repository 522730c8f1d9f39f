"""Every TrainingRun that is shown loads, and names functions and options that exist."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bundle.repository import ROOT
from trainshed_api.loading import load_file
from trainshed_api.transforms import AugmentSpec, TransformSpec
from trainshed_api.v1alpha1 import TrainingRunResource

# The one manifest that is no TrainingRun: the chart, rendered.
INSTALL = ROOT / "manifests" / "install.yaml"
MANIFESTS = {
    str(path.relative_to(ROOT)): path
    for path in sorted((ROOT / "manifests").rglob("*.yaml"))
    if path != INSTALL
}


def list_functions(run: TrainingRunResource) -> Iterator[TransformSpec | AugmentSpec]:
    """Yield each transform and augmentation of a run."""
    for data in run.spec.data.datasets.values():
        yield from data.transforms
        yield from data.augment


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=MANIFESTS)
def test_manifest_names_functions_and_options_that_exist(path: Path) -> None:
    for step in list_functions(load_file(path)):
        module, _, name = step.use.partition(":")
        function = getattr(importlib.import_module(module), name)
        called = function.__call__ if inspect.isclass(function) else function
        assert set(step.options) <= set(inspect.signature(called).parameters)
        assert not step.init or set(step.init) <= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=MANIFESTS)
def test_config_is_one_the_program_takes(path: Path) -> None:
    spec = load_file(path).spec
    if spec.train is None:
        assert spec.entrypoint is not None
        assert (ROOT / spec.entrypoint[1]).is_file()
        return
    module = importlib.import_module(spec.train.partition(":")[0])
    module.check_config(dict(spec.config))


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=MANIFESTS)
def test_a_run_is_called_like_its_file(path: Path) -> None:
    name = load_file(path).metadata.name
    assert name == ("digits" if path.stem == "trainingrun" else path.stem)


@pytest.mark.parametrize("path", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_finds_its_code_in_its_own_folder(path: Path) -> None:
    modules = re.findall(r"\b(examples(?:\.\w+)+):", path.read_text("utf-8"))
    scripts = re.findall(r"\bexamples/\w+\.py\b", str(load_file(path).spec.entrypoint))

    for file in (*(f"{module.replace('.', '/')}.py" for module in modules), *scripts):
        assert (path.parent / file).is_file()
