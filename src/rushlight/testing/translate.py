"""From torch's objects to another backend's: functions by name, tokens by value, lambdas by rebuilding.

In:  anything that PyTorch's OpInfo database passes to, or uses as, an operator.
Out: its counterpart under a namespace that spells torch's API (rushlight, or torch in the self-test).

A public function is found by the name under which torch publishes it. A Python function of torch's own test
suite (`lambda x: x.bool()`, `wrapper_set_seed(torch.Tensor.cauchy_, ...)`) is rebuilt with every global,
closure cell and default that refers to torch replaced, so that the same code runs on the backend's tensors.

Invariant: what has no counterpart becomes a `Missing`, which raises AttributeError only when it is used.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import types
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch.testing import _utils as torch_test_utils
from torch.testing._internal import common_utils

from .snapshot import dtype_name

# Where torch publishes functions, the preferred place first: an object published twice is named by the first.
# fmt: off
_PUBLIC = (
    "", "nn.functional", "linalg", "special", "fft", "signal.windows", "masked", "sparse", "autograd", "nn",
    "Tensor", "_C._nn", "_C._linalg", "_C._special", "_C._fft", "_C._sparse",
)
# fmt: on
_TEST_SUITE = "torch.testing"
_OVERLOADS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


class Missing:
    """Stands for what the backend lacks; any use raises."""

    def __init__(self, path: str) -> None:
        self.__dict__["path"] = path

    def _fail(self) -> NoReturn:
        raise AttributeError(f"{self.__dict__['path']} is not available")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._fail()

    def __getattr__(self, name: str) -> NoReturn:
        self._fail()


class Translator:
    """Maps torch's objects into `namespace`, the module that plays torch."""

    def __init__(self, namespace: Any) -> None:
        self.namespace = namespace
        self.rebuilt: dict[int, tuple[Any, Any]] = {}  # id -> (original, kept alive; rebuilt)

    def resolve(self, path: str) -> Any:
        """The object at a dotted path below the namespace, or Missing."""
        found = self.namespace
        for name in path.split(".") if path else ():
            try:
                found = getattr(found, name)
            except AttributeError:
                return Missing(f"{self.namespace.__name__}.{path}")
        return found

    def __call__(self, value: Any) -> Any:
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return self.resolve(dtype_name(value))
        if isinstance(value, torch.device):
            return self.resolve("device")(str(value))
        if isinstance(value, torch.Size):
            return self.resolve("Size")(tuple(value))
        if isinstance(value, torch.Generator):
            return self._generator(value)
        if isinstance(value, torch.nn.Module):
            return self._nn_module(value)
        if isinstance(value, functools.partial):
            return functools.partial(
                self(value.func), *map(self, value.args), **{k: self(v) for k, v in value.keywords.items()}
            )
        if isinstance(value, _OVERLOADS):
            return self._overload(value)
        if callable(value):
            return self._callable(value)
        return value

    def named(self, value: Any, name: str) -> Any:
        """The counterpart of `value`, looked up as `name` where torch publishes it under that name."""
        name = name.removeprefix("torch.")
        return self.resolve(name) if _torch_at(name) is value else self(value)

    def _callable(self, value: Any) -> Any:
        if any(value is keeper for keeper in _RNG_KEEPERS):
            return self._keep_rng_state
        if id(value) in _paths():
            return self.resolve(_paths()[id(value)][1])
        if isinstance(value, types.FunctionType) and value.__module__.startswith(_TEST_SUITE):
            return self._rebuild(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(self(value.__func__), self(value.__self__))
        if isinstance(value, type) and value.__module__.partition(".")[0] == "torch":
            return self.resolve(f"{value.__module__}.{value.__qualname__}".removeprefix("torch."))
        return value

    def _module(self, module: types.ModuleType) -> Any:
        name = module.__name__
        if name == "torch":
            return self.namespace
        return self.resolve(name.removeprefix("torch.")) if name.startswith("torch.") else module

    def _overload(self, overload: Any) -> Any:
        if isinstance(overload, torch._ops.OpOverloadPacket):
            namespace, _, name = overload._qualified_op_name.partition("::")
        else:
            namespace, _, name = overload.name().partition("::")
            name = name if "." in name else f"{name}.default"
        return self.resolve(f"ops.{namespace}.{name}")

    def _generator(self, generator: torch.Generator) -> Any:
        made = self.resolve("Generator")()
        made.manual_seed(generator.initial_seed())
        return made

    def _nn_module(self, module: torch.nn.Module) -> Any:
        """A parameterless module: the same class, with the attributes that its class calls constants."""
        made = self.resolve(f"nn.{type(module).__name__}")()
        for name in module.__constants__:
            setattr(made, name, getattr(module, name))
        return made

    def _rebuild(self, function: types.FunctionType) -> Any:
        known = self.rebuilt.get(id(function))
        if known is not None:
            return known[1]
        cells = tuple(types.CellType() for _ in function.__closure__ or ())
        scope: dict[str, Any] = {"__builtins__": __builtins__, "__name__": function.__module__}
        made = types.FunctionType(function.__code__, scope, function.__name__, None, cells)
        self.rebuilt[id(function)] = (function, made)  # before the parts: functions may refer to themselves
        made.__defaults__ = function.__defaults__ and tuple(map(self, function.__defaults__))
        made.__kwdefaults__ = function.__kwdefaults__ and {
            k: self(v) for k, v in function.__kwdefaults__.items()
        }
        for cell, original in zip(cells, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell stays empty
                cell.cell_contents = self(original.cell_contents)
        for name in _globals_of(function.__code__):
            if name in function.__globals__:
                scope[name] = self(function.__globals__[name])
        return made

    @contextlib.contextmanager
    def _keep_rng_state(self) -> Iterator[None]:
        state = self.namespace.get_rng_state()
        try:
            yield
        finally:
            self.namespace.set_rng_state(state)


# torch's helper reaches into its dispatcher; its meaning is all that is needed.
_RNG_KEEPERS = (torch_test_utils.freeze_rng_state, common_utils.freeze_rng_state)


def _globals_of(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield str(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _globals_of(constant)


def _torch_at(path: str) -> Any:
    found: Any = torch
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


@functools.cache
def _paths() -> dict[int, tuple[Any, str]]:
    """Every function and class that torch publishes, with its public path, by identity (kept alive)."""
    paths: dict[int, tuple[Any, str]] = {}
    for place in _PUBLIC:
        owner = _torch_at(place) if place else torch
        for name in dir(owner):
            value = getattr(owner, name, None)
            if callable(value) and _is_torchs(value) and getattr(object, name, None) is not value:
                paths.setdefault(id(value), (value, f"{place}.{name}" if place else name))
    return paths


def _is_torchs(value: Any) -> bool:
    module = getattr(value, "__module__", None)  # None: a method of a C class
    return module is None or module.partition(".")[0] == "torch"
