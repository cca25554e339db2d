"""Objects that a program makes and returns, with tensors in their attributes: every call makes them anew."""

from __future__ import annotations

import functools
import types
from typing import Any

from ..core.pytree import flatten, register_record
from ..core.symbols import SymInt
from ..core.tensor import Tensor
from .deferred import DeferredNumber
from .errors import CaptureError, Problem
from .locations import PLAIN
from .numbers import LiveNumber
from .object_kinds import slots
from .trace import Capture


class _Instance:
    """An object of the program's making, taken apart: its class, and its attributes by name."""

    def __init__(self, kind: type, names: tuple[str, ...], values: list[Any]) -> None:
        self.kind, self.names, self.values = kind, names, values

    @staticmethod
    def built(context: Any, values: list[Any]) -> Any:
        kind, names = context
        made = kind.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)
        return made


register_record(_Instance, lambda i: ((i.kind, i.names), i.values), _Instance.built)


def taken_apart(result: Any, capture: Capture) -> Any:
    """`result` with objects that hold new tensors taken apart, so that every call can make them anew."""
    leaves, structure = flatten(result, records=True)
    found = [_apart(leaf, capture) for leaf in leaves]
    same = all(a is b for a, b in zip(found, leaves, strict=True))
    return result if same else structure.unflatten(found)


def _apart(leaf: Any, capture: Capture) -> Any:
    if isinstance(leaf, (*PLAIN, Tensor, type)) or type(leaf) in (LiveNumber, SymInt, DeferredNumber):
        return leaf
    if hasattr(leaf, "__next__"):
        raise CaptureError(
            f"it returns something to iterate over once ({type(leaf).__name__})", "", Problem.RETURNED_OBJECT
        )
    if isinstance(leaf, types.FunctionType | types.MethodType | functools.partial):
        if holds_new(leaf, capture):
            raise CaptureError(
                "it returns a function that holds on to tensors of the program", "", Problem.RETURNED_OBJECT
            )
        return leaf
    if not holds_new(leaf, capture):
        return leaf
    fields = _fields(leaf)
    return _Instance(type(leaf), tuple(fields), [taken_apart(value, capture) for value in fields.values()])


def _fields(thing: Any) -> dict[str, Any]:
    """The attributes of an object, those in slots included."""
    kind: Any = type(thing)
    held = {name: getattr(thing, name) for name in slots(kind) if hasattr(thing, name)}
    return {**held, **getattr(thing, "__dict__", {})}


def holds_new(thing: Any, capture: Capture, depth: int = 6) -> bool:
    """Whether tensors of the capture are in an object or in what a function refers to."""
    if isinstance(thing, Tensor):
        return thing._trace is capture
    if isinstance(thing, (*PLAIN, type, types.ModuleType)) or depth == 0 or hasattr(thing, "_parameters"):
        return False
    if isinstance(thing, types.FunctionType):
        held: list[Any] = [c.cell_contents for c in thing.__closure__ or () if c != _EMPTY]
        held += list(thing.__defaults__ or ())
    elif isinstance(thing, types.MethodType):
        held = [thing.__self__]
    elif isinstance(thing, functools.partial):
        held = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, dict | list | tuple | set):
        held = list(thing.values() if isinstance(thing, dict) else thing)
    else:
        held = list(_fields(thing).values())
    return any(holds_new(value, capture, depth - 1) for value in held)


_EMPTY = types.CellType()
