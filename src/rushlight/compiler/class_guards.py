"""Guards on attributes of classes: libraries have thousands of them, and calls of compiled code are short."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from ..capture.locations import MISSING, Attributes, equal


class ClassAttributes:
    """Guards on attributes that classes have, which are looked at all at once."""

    def __init__(self) -> None:
        self._kinds: list[type] = []
        self._names: list[str] = []
        self._values: list[Any] = []
        self._own: list[dict[str, Any]] = []  # of objects that have none of that name of their own
        self._own_names: list[str] = []

    def take(self, container: Any, name: Any, expected: Any) -> bool:
        """Whether such a guard is one of these: the class gives the attribute as it has it."""
        if type(container) is not Attributes:
            return False
        of = container.of
        kind = of if isinstance(of, type) else type(of)
        own = {} if kind is of else getattr(of, "__dict__", {})
        if type(kind).__getattribute__ is not type.__getattribute__ or type(own) is not dict or name in own:
            return False
        if getattr(kind, name, MISSING) is not expected:
            return False
        self._kinds.append(kind)
        self._names.append(name)
        self._values.append(expected)
        if kind is not of:
            self._own.append(own)
            self._own_names.append(name)
        return True

    def hold(self) -> bool:
        if any(map(operator.contains, self._own, self._own_names)):
            return False
        if all(map(operator.is_, self._found(), self._values)):
            return True
        return all(f is v or equal(f, v) for f, v in zip(self._found(), self._values, strict=True))

    def _found(self) -> Iterator[Any]:
        return map(getattr, self._kinds, self._names, repeat(MISSING))
