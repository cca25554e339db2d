"""What `rushlight.compile` makes of a module: a module with the original inside.

Everything but the call is the original's: parameters and buffers (under the prefix `_orig_mod.`, as PyTorch
names them), its mode, and every attribute that is read, set or deleted.
"""

from __future__ import annotations

from typing import Any

from ..._api.compile import compile as compile_function
from .module import Module

_OWN = frozenset({"_orig_mod", "training", "_compiled", "_options", "_compiled_call_impl"})
_OF_THE_COMPILER = frozenset({"entries", "reasons", "eager", "function", "fullgraph"})


class OptimizedModule(Module):
    """A module whose call is compiled."""

    _orig_mod: Any

    def __init__(self, module: Module, options: dict[str, Any]) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["training"] = module.training
        self.__dict__["_options"] = options
        self.__dict__["_compiled"] = compile_function(module._call_impl, **options)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_compiled"](*args, **kwargs)

    def train(self, mode: bool = True) -> OptimizedModule:
        self._orig_mod.train(mode)
        self.__dict__["training"] = self._orig_mod.training
        return self

    def __getattr__(self, name: str) -> Any:
        original = self.__dict__.get("_modules", {}).get("_orig_mod")
        if original is None or name == "_orig_mod":
            return super().__getattr__(name)
        if name in _OF_THE_COMPILER and not hasattr(original, name):
            return getattr(self.__dict__["_compiled"], name)
        return getattr(original, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_modules" not in self.__dict__ or name in self.__dict__:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if name in _OWN or name in self.__dict__:
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        return OptimizedModule, (self._orig_mod, self.__dict__["_options"])

    # Containers: Python looks these up in the class.

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __len__(self) -> int:
        return len(self._orig_mod)

    def __iter__(self) -> Any:
        return iter(self._orig_mod)

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._orig_mod
