"""PyTorch's compiler, left out until something is compiled.

An optimizer and DistributedDataParallel import `torch._dynamo` when they are made, to say what may
not be compiled: 900 modules, 1.7 s of a core in each worker at each start, 2 s before its first
step. Few programs compile anything. So a module stands in its place that answers what those two ask
of it, and makes room for the real one as soon as anybody asks for more.

Private to PyTorch 2.15, the pinned release. A release that asks for something else gets the real
one at once, as if nothing stood here; tests/app/worker/test_compiler.py tells.
"""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec

NAME = "torch._dynamo"
# Where torch.compiler's `disable` of a function is kept (torch/_compile.py), once it is asked for.
_DISABLED = "__dynamo_disable"


class _Asked(NamedTuple):
    function: Callable[..., object]
    recursive: bool


class _Compiler(ModuleType):
    """What stands for `torch._dynamo` while nothing is compiled.

    Args:
        package: how the real one is loaded; `importlib.util.find_spec` asks whoever stands there.
    """

    def __init__(self, package: ModuleSpec) -> None:
        super().__init__(NAME)
        self.__spec__ = package
        self.__package__ = NAME
        self.__path__ = list(package.submodule_search_locations or ())
        self.utils = _Utils(self)
        self._parts = _Parts(self)
        self._asked: list[_Asked] = []
        self._lock = threading.Lock()

    def stand(self) -> None:
        """Stand in its place."""
        sys.modules[NAME] = self
        vars(torch)["_dynamo"] = self
        sys.meta_path.insert(0, self._parts)

    def graph_break(self, msg: str = "") -> None:
        """Break no graph: none is made."""

    def disable(self, *args: object, **kwargs: object) -> object:
        """Return the function itself, and keep in mind that it is not to be compiled."""
        match args, kwargs:
            case (function, bool(recursive)), {"wrapping": False} if callable(function):
                self._asked.append(_Asked(function, recursive))
                return function
        return self.real().disable(*args, **kwargs)  # as others ask for it

    def real(self) -> ModuleType:
        """Return the compiler itself, which from now on is found where this stood."""
        if self._makes_room():
            compiler = importlib.import_module(NAME)
            for function, recursive in self._asked:
                setattr(function, _DISABLED, compiler.disable(function, recursive, wrapping=False))
        return importlib.import_module(NAME)

    def _makes_room(self) -> bool:
        # Held for no import: who imports holds a lock of Python's, and would wait for this one.
        with self._lock:
            if sys.modules.get(NAME) is not self:
                return False
            sys.meta_path.remove(self._parts)
            vars(torch).pop("_dynamo", None)
            del sys.modules[NAME]
            return True

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # asked of every module, by those who look through all of them
            raise AttributeError(name)
        return getattr(self.real(), name)


class _Utils:
    """What stands for `torch._dynamo.utils`.

    Args:
        compiler: that stands in the package's place.
    """

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler

    def get_optimize_ddp_mode(self) -> str:
        """Return what it is where nobody has changed the compiler's settings."""
        return "ddp_optimizer"

    def __getattr__(self, name: str) -> object:
        return getattr(self._compiler.real().utils, name)


class _Parts(MetaPathFinder, Loader):
    """Has `import torch._dynamo.config` import the package first, and no part of it twice.

    Args:
        compiler: that stands in the package's place.
    """

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler
        self._there: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a part is loaded; most of them are there as soon as the package is."""
        del path, target
        if not fullname.startswith(f"{NAME}."):
            return None
        self._compiler.real()
        if fullname not in sys.modules:
            return find_spec(fullname)
        # Of a part that is there by now Python would take its own spec, and make another of it.
        part, spec = vars(sys.modules[fullname]), spec_from_loader(fullname, self)
        self._there[fullname], part["__spec__"] = part["__spec__"], spec
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the part that is there."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it was."""
        vars(module)["__spec__"] = self._there.pop(module.__name__)


def leave_out() -> None:
    """Have this process import PyTorch's compiler when something asks for it, and not before."""
    if NAME in sys.modules:
        return
    package = find_spec(NAME)
    assert package is not None
    _Compiler(package).stand()
