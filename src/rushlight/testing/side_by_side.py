"""One program, two libraries: run it on torch and on Rushlight and compare everything that can be observed.

A program is a function of a namespace (`torch` or `rushlight`) that returns what it wants compared: tensors,
numbers, or nested tuples of them. Of a tensor, shape, strides, storage offset, dtype, version and values are
compared; of a program that fails, the type of the exception.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

Program = Callable[[Any], Any]


@dataclass(frozen=True)
class Seen:
    """What can be seen of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: str
    version: int
    lazy: tuple[bool, bool]
    values: tuple[Any, ...]

    def as_new(self) -> Seen:
        """Without what tells only how a new tensor came about.

        That is: the writes that filled it, its place in its storage, and strides that are never stepped.
        """
        stepped = zip(self.shape, self.strides, strict=True) if 0 not in self.shape else ()
        strides = tuple(stride for size, stride in stepped if size > 1)
        return replace(self, version=0, offset=0, strides=strides)


def seen(value: Any, namespace: Any) -> Any:
    """`value` with its tensors replaced by what can be seen of them."""
    if isinstance(value, namespace.Tensor):
        flags = (value.is_conj(), value.is_neg())
        plain = value.detach().resolve_conj().resolve_neg()
        if value.dtype == namespace.bfloat16:
            plain = plain.float()
        return Seen(
            tuple(value.shape),
            tuple(value.stride()),
            value.storage_offset(),
            str(value.dtype).rpartition(".")[2],
            value._version,
            flags,
            tuple(_value(v) for v in np.asarray(plain.numpy()).ravel().tolist()),
        )
    if isinstance(value, tuple | list):
        return tuple(seen(item, namespace) for item in value)
    return value


def _value(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def outcome(program: Program, namespace: Any) -> Any:
    """What `program` returns, as plain data, or the exception it raises."""
    try:
        result = program(namespace)
    except Exception as error:
        return error
    return seen(result, namespace)


def _as_new(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_as_new(item) for item in value)
    return value.as_new() if isinstance(value, Seen) else value


def assert_same(program: Program, *, fresh: bool = False) -> None:
    """Fail unless the program has the same outcome on both sides; `fresh`: its results are new tensors."""
    expected = outcome(program, torch)
    actual = outcome(program, importlib.import_module("rushlight"))
    if fresh:
        expected, actual = _as_new(expected), _as_new(actual)
    if isinstance(expected, Exception):
        assert isinstance(actual, Exception), f"torch raises {expected!r}, Rushlight gives {actual}"
        assert type(actual) is type(expected), f"torch raises {expected!r}, Rushlight {actual!r}"
        return
    if isinstance(actual, Exception):
        raise AssertionError(f"Rushlight raises {actual!r}, torch gives {expected}") from actual
    assert actual == expected, f"Rushlight: {actual}\ntorch:     {expected}"
