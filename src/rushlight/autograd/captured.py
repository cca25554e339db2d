"""Tensors that a function that is being transformed did not get as arguments but has all the same.

They are looked for only when the function writes something that depends on its arguments to a tensor that
does not: the tensors of its closure, of the globals it names, of the object it is a method of and of the modules
among these and among its arguments. Tensors that are arguments are given to it as objects of the transform
(`levels.held`), so that they are not found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.tensor import Tensor


def is_captured(target: Tensor, watched: Any) -> bool:
    """Whether `target`, or what it is a view of, was there before a function was called; `watched` are the
    function and the arguments it was called with."""
    owner = target if target._base is None else target._base
    return any(found is owner or found is target or found._base is owner for found in _tensors(watched))


def _tensors(root: Any) -> Iterator[Tensor]:
    seen: set[int] = set()
    stack = [(root, 0)]
    while stack:
        value, depth = stack.pop()
        if isinstance(value, Tensor):
            yield value
        elif id(value) not in seen and depth < 5:
            seen.add(id(value))
            stack.extend((part, depth + 1) for part in _parts(value))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | set):
        return list(value)
    code = getattr(value, "__code__", None)
    if code is None:
        if hasattr(value, "_parameters") and hasattr(value, "_buffers"):
            return [value._parameters, value._buffers, value._modules]
        inner = getattr(value, "func", None) or getattr(value, "__wrapped__", None)
        return [inner, getattr(value, "args", ())] if inner is not None else []
    cells = []
    for cell in getattr(value, "__closure__", None) or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # a variable that has no value yet
            continue
    names = getattr(value, "__globals__", {})
    return [
        *cells,
        *[names[name] for name in code.co_names if name in names and not callable(names[name])],
        getattr(value, "__self__", None),
        getattr(value, "__wrapped__", None),
        value.__defaults__,
    ]
