"""Writes a PyTorch module as a file of another program, by PyTorch's own exporters."""

from __future__ import annotations

import copy
import logging
import warnings
from typing import TYPE_CHECKING

import torch

from trainshed.data.loader.batch_structure import take_apart
from trainshed.predict.hooks import RUN
from trainshed_api.errors import Problem, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from torch import Tensor, nn

    from trainshed.data.sources.column_arrays import Columns

    Inputs = tuple[Tensor, ...]
    Call = Callable[..., object]


def inputs_of(model: nn.Module, predict: Callable[[], object]) -> Inputs:
    """Return the arguments of the first call of a model, which `predict` makes.

    Raises:
        SpecError: if they are not tensors alone.
    """
    calls: list[tuple[tuple[object, ...], Mapping[str, object]]] = []

    def note(_: nn.Module, args: tuple[object, ...], named: Mapping[str, object]) -> None:
        calls.append((args, named))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        predict()
    finally:
        hook.remove()
    args, named = calls[0] if calls else ((), {})
    # A clone has no trace of the inference mode in which it was made.
    tensors = tuple(each.clone() for each in args if isinstance(each, torch.Tensor))
    if named or not tensors or len(tensors) != len(args):
        types = [type(each).__name__ for each in args]
        types += [f"{name}={type(each).__name__}" for name, each in named.items()]
        got = ", ".join(types) or "no call of the model"
        expected = "a function predict that calls the model with tensors alone, by position"
        raise SpecError([Problem(RUN, got, expected)])
    return tensors


def write_module(model: nn.Module, inputs: Inputs, form: str, file: Path) -> Call:
    """Write a file, and return what calls the model in it."""
    with torch.no_grad(), warnings.catch_warnings():
        # TorchScript is deprecated, and its loaders are what some programs have.
        warnings.simplefilter("ignore")
        return _WRITERS[form](model, inputs, file)


def outputs(call: Call, batches: Sequence[Inputs]) -> Columns:
    """Return what a model returns for some batches, under names for a comparison."""
    found: Columns = {}
    for number, inputs in enumerate(batches):
        with torch.no_grad():
            tensors = take_apart(call(*inputs), "")[1].values()
        for place, each in enumerate(tensors):
            found[f"output {place} of batch {number}"] = each.cpu().numpy()
    return found


def _onnx(model: nn.Module, inputs: Inputs, file: Path) -> Call:
    import onnxruntime

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns without torchvision
    rows = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    torch.onnx.export(model, inputs, file, dynamic_shapes=rows, external_data=False, verbose=False)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def call(*args: Tensor) -> object:
        arrays = (each.numpy() for each in args)
        return session.run(None, dict(zip(names, arrays, strict=True)))

    return call


def _torchscript(model: nn.Module, inputs: Inputs, file: Path) -> Call:
    # A trace has the branch that these inputs took, whatever the values of others.
    with warnings.catch_warnings(record=True) as found:
        warnings.filterwarnings("always", "Converting a tensor", module=r"(?!torch\.)")
        traced = torch.jit.trace(model, inputs)  # type: ignore[no-untyped-call]
    if found:
        expected = (
            "a model that makes no Python values of tensors, as a condition does in "
            f"{found[0].filename}:{found[0].lineno}. Use torch.where, or choose onnx"
        )
        raise SpecError([Problem("--to", "torchscript", expected)])
    traced.save(file)
    loaded: Call = torch.jit.load(file)  # type: ignore[no-untyped-call]
    return loaded


def _safetensors(model: nn.Module, _: Inputs, file: Path) -> Call:
    from safetensors.torch import load_model, save_model

    save_model(model, str(file))
    loaded = copy.deepcopy(model)
    for each in loaded.parameters():
        each.zero_()
    load_model(loaded, file)
    return loaded


_WRITERS = {"onnx": _onnx, "torchscript": _torchscript, "safetensors": _safetensors}
FORMATS = tuple(_WRITERS)
