"""The open transforms as rules of higher-order operators are given them."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from ..core.interpreters import below
from ..core.modes import MODES
from ..core.transforms import TransformType, level_of

__all__ = [
    "FuncTorchInterpreter",
    "VmapInterpreter",
    "interpreter_of",
    "retrieve_current_functorch_interpreter",
]


class FuncTorchInterpreter:
    """One open transform."""

    def __init__(self, transform: Any) -> None:
        self._transform = transform

    def level(self) -> int:
        """Its number, the outermost being 1."""
        return level_of(self._transform)

    def key(self) -> TransformType:
        kind: TransformType = self._transform.kind
        return kind

    def lower(self) -> AbstractContextManager[None]:
        """A context in which only the transforms outside of this one are open."""
        return below(self._transform)


class VmapInterpreter(FuncTorchInterpreter):
    """An open vmap."""

    def batch_size(self) -> int:
        return int(self._transform.size)

    def randomness(self) -> str:
        return str(self._transform.randomness)


def interpreter_of(transform: Any) -> FuncTorchInterpreter:
    return (VmapInterpreter if transform.kind is TransformType.Vmap else FuncTorchInterpreter)(transform)


def retrieve_current_functorch_interpreter() -> FuncTorchInterpreter:
    """The innermost open transform."""
    return interpreter_of(MODES.transforms[-1])
