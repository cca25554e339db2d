"""Names of nodes and of what code refers to: each is there once, and none is a word of Python's."""

from __future__ import annotations

import builtins
import keyword
import re
from typing import Any

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)")
# what generated code refers to besides builtins
RESERVED = ("inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree")


class Namespace:
    def __init__(self) -> None:
        self._by_object: dict[int, tuple[Any, str]] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any = None) -> str:
        """A name like `candidate` that nothing else has; of an object that has one, that."""
        if obj is not None and id(obj) in self._by_object:
            return self._by_object[id(obj)][1]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        numbered = _NUMBERED.fullmatch(candidate)
        base, number = (candidate, 0) if numbered is None else (numbered[1], int(numbered[2]))
        number = number or self._counts.get(base, 0)
        while candidate in self._used or is_reserved(candidate):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._by_object[id(obj)] = (obj, candidate)
        return candidate

    def take(self, name: str) -> None:
        """The name is given to nothing else."""
        self._used.add(name)


def is_reserved(name: str) -> bool:
    return keyword.iskeyword(name) or hasattr(builtins, name) or name in RESERVED


def snake_case(name: str) -> str:
    """`LayerNorm` as `layer_norm`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])|(?<=[A-Z])([A-Z])(?=[a-z])", r"_\1\2", name).lower()
