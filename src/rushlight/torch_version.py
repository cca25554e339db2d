"""`torch.torch_version`: versions that compare by their numbers."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]


class TorchVersion(str):
    """A version that is a string, and compares with strings, tuples and versions of `packaging` by its numbers:
    what follows a `+` does not count unless all else is equal.

    >>> TorchVersion("2.13.0+rushlight") >= "2.4", TorchVersion("2.13.0") < (2, 14)
    (True, True)
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return _numbers(self) == _numbers(other)

    def __ne__(self, other: object) -> bool:
        return _numbers(self) != _numbers(other)

    def __lt__(self, other: object) -> bool:
        return _numbers(self) < _numbers(other)

    def __le__(self, other: object) -> bool:
        return _numbers(self) <= _numbers(other)

    def __gt__(self, other: object) -> bool:
        return _numbers(self) > _numbers(other)

    def __ge__(self, other: object) -> bool:
        return _numbers(self) >= _numbers(other)

    __hash__ = str.__hash__


def _numbers(version: Any) -> tuple[tuple[int, ...], str]:
    """The numbers of a version without zeros at their end, and its local part."""
    if isinstance(version, tuple | list):
        version = ".".join(map(str, version))
    public, _, local = str(version).partition("+")
    numbers = [int(number) for number in re.findall(r"\d+", public)]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), local
