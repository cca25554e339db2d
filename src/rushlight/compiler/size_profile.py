"""Which sizes of a function's arguments changed in earlier processes, in the object cache.

A process that starts again would compile its functions for the first sizes that come, only to find out once
more which of them change. What one process found out is kept under the name and code of the function and the
kind of call: ranks and dtypes of the tensors, modes. It decides what is a symbol from the first call on,
never a result. `RUSHLIGHT_SIZE_PROFILE=0` turns it off.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from ..runtime.cache import key_of
from ..runtime.engine import engine
from .call_key import CallKey


class _Switch:
    on = os.environ.get("RUSHLIGHT_SIZE_PROFILE", "1") != "0"


SIZE_PROFILE = _Switch()


class ChangedSizes(NamedTuple):
    """Dimensions and strides by argument, and arguments that are ints, that had other values in another call."""

    sizes: dict[int, set[int]]
    strides: dict[int, set[int]]
    numbers: set[int]


class SizeProfile:
    """What is kept of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = _identity(function)

    def load(self, kind: CallKey) -> ChangedSizes | None:
        """What changed between calls of this kind before."""
        key = self._key(kind)
        data = None if key is None else engine().cache.load(key, stays=False)
        return None if data is None else _read(data)

    def store(self, kind: CallKey, changed: ChangedSizes) -> None:
        key = self._key(kind)
        if key is not None:
            engine().cache.store(key, _written(changed), stays=False)

    def _key(self, kind: CallKey) -> str | None:
        """None where an argument, or the function, has no text that another process would give it."""
        text = repr(kind)
        if not SIZE_PROFILE.on or self._function is None or " at 0x" in text:
            return None
        return key_of(("sizes 1", *self._function, text))


def _identity(function: Any) -> tuple[str, ...] | None:
    """Texts that tell a function from others, and from what it was before it was edited."""
    found = getattr(function, "__func__", function)
    if not hasattr(found, "__code__"):
        found = getattr(type(function), "forward", None)  # a module
    code = getattr(found, "__code__", None)
    if code is None:
        return None
    place = (code.co_filename, str(code.co_firstlineno), str(found.__module__), found.__qualname__)
    return (*place, code.co_code.hex(), repr(code.co_names))


def _written(changed: ChangedSizes) -> bytes:
    dims = [{str(i): sorted(found) for i, found in part.items()} for part in changed[:2]]
    return json.dumps([*dims, sorted(changed.numbers)]).encode()


def _read(data: bytes) -> ChangedSizes:
    sizes, strides, numbers = json.loads(data)
    dims = [{int(i): set(found) for i, found in part.items()} for part in (sizes, strides)]
    return ChangedSizes(dims[0], dims[1], set(numbers))
