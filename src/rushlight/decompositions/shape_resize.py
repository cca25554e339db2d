"""Functional forms of resize_ and resize_as_, and checks of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor


@composite("resize(Tensor self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor", api=INTERNAL)
def resize(self: Tensor, size: Sequence[int], memory_format: Any) -> Tensor:
    """The first elements in a new shape; elements that there were not are 0."""
    flat, wanted = self.reshape((-1,)), math.prod(size)
    missing = wanted - flat.shape[0]
    flat = run_name("constant_pad_nd", flat, (0, missing), 0) if missing > 0 else flat.narrow(0, 0, wanted)
    result: Tensor = run_name("clone", flat.reshape(size), memory_format)
    return result


@composite(
    "resize_as(Tensor self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor", api=INTERNAL
)
def resize_as(self: Tensor, the_template: Tensor, memory_format: Any) -> Tensor:
    return resize(self, the_template.shape, memory_format)


@composite(
    "_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, "
    "*, "
    "Device? device=None, Layout? layout=None) -> ()",
    api=INTERNAL,
)
def assert_tensor_metadata(a: Tensor, size: Any, stride: Any, dtype: Any, device: Any, layout: Any) -> None:
    found = {
        "sizes": tuple(a.shape),
        "strides": tuple(a.stride()),
        "dtype": a.dtype,
        "device": a.device,
        "layout": a.layout,
    }
    wanted = {"sizes": size, "strides": stride, "dtype": dtype, "device": device, "layout": layout}
    for what, value in wanted.items():
        expected = tuple(value) if isinstance(value, list) else value
        check(
            value is None or found[what] == expected,
            f"Tensor {what} mismatch! Expected: {expected}, Got: {found[what]}",
        )


@composite("_assert_async(Tensor self) -> ()", api=INTERNAL)
def assert_async(self: Tensor) -> None:
    assert_async_with(self, "Expected Tensor with single nonzero value, but got zero")


@composite("_assert_async.msg(Tensor self, str assert_msg) -> ()", api=INTERNAL)
def assert_async_with(self: Tensor, assert_msg: str) -> None:
    """In a capture the check is made when its program runs."""
    holds = self.all()
    token = run_name("_functional_assert_async.msg", holds, assert_msg, holds)
    if AMBIENT.trace is not None:
        AMBIENT.trace.keep(token)
