"""Delays the import of PyTorch's compiler until something is compiled.

Optimizers and DistributedDataParallel import `torch._dynamo` to mark what may not be compiled:
900 modules, 1.7 s of a core in each worker at each start, 2 s before its first step. Few programs
compile anything. So a proxy module answers these two calls, and loads the real module for any other
access.

Private to PyTorch 2.15, the pinned release. A release with other accesses loads the real module
at once; tests/app/worker/test_compiler.py shows it.
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
# Where torch._compile caches the `disable` wrapper of a function, after its first use.
_DISABLED = "__dynamo_disable"


class _Asked(NamedTuple):
    function: Callable[..., object]
    recursive: bool


class _Compiler(ModuleType):
    """The proxy of `torch._dynamo` while nothing is compiled.

    Args:
        package: spec of the real module, which `importlib.util.find_spec` reads.
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
        """Register the proxies."""
        sys.modules[NAME] = self
        vars(torch)["_dynamo"] = self
        sys.meta_path.insert(0, self._parts)

    def graph_break(self, msg: str = "") -> None:
        """Do nothing: there is no graph to break."""

    def disable(self, *args: object, **kwargs: object) -> object:
        """Return the function itself, and record that it must not be compiled."""
        match args, kwargs:
            case (function, bool(recursive)), {"wrapping": False} if callable(function):
                self._asked.append(_Asked(function, recursive))
                return function
        return self.real().disable(*args, **kwargs)  # other uses

    def real(self) -> ModuleType:
        """Return the compiler, and register it instead of the proxy."""
        if self._makes_room():
            compiler = importlib.import_module(NAME)
            for function, recursive in self._asked:
                setattr(function, _DISABLED, compiler.disable(function, recursive, wrapping=False))
        return importlib.import_module(NAME)

    def _makes_room(self) -> bool:
        # Not locked during the import: importers hold Python's import lock, and would deadlock.
        with self._lock:
            if sys.modules.get(NAME) is not self:
                return False
            sys.meta_path.remove(self._parts)
            vars(torch).pop("_dynamo", None)
            del sys.modules[NAME]
            return True

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # read by code that inspects all modules
            raise AttributeError(name)
        return getattr(self.real(), name)


class _Utils:
    """The proxy of `torch._dynamo.utils`.

    Args:
        compiler: proxy of the package.
    """

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler

    def get_optimize_ddp_mode(self) -> str:
        """Return the value of unchanged compiler settings."""
        return "ddp_optimizer"

    def __getattr__(self, name: str) -> object:
        return getattr(self._compiler.real().utils, name)


class _Parts(MetaPathFinder, Loader):
    """Makes `import torch._dynamo.config` import the package first, and no module twice.

    Args:
        compiler: proxy of the package.
    """

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler
        self._there: dict[str, ModuleSpec | None] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a submodule; most are loaded together with the package."""
        del path, target
        if not fullname.startswith(f"{NAME}."):
            return None
        self._compiler.real()
        if fullname not in sys.modules:
            return find_spec(fullname)
        # For a loaded submodule Python would use its own spec, and load it again.
        part, spec = vars(sys.modules[fullname]), spec_from_loader(fullname, self)
        self._there[fullname], part["__spec__"] = part["__spec__"], spec
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the loaded submodule."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing."""
        vars(module)["__spec__"] = self._there.pop(module.__name__)


def leave_out() -> None:
    """Import PyTorch's compiler in this process only when something needs it."""
    if NAME in sys.modules:
        return
    package = find_spec(NAME)
    assert package is not None
    _Compiler(package).stand()
