"""Assertions that programs make with PyTorch's underscored functions, and its question about overlap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dtypes import bool_
from ..core.errors import check
from ..core.modes import MODES
from ..core.overlap import has_internal_overlap
from ..core.overrides import ask, overriding_types
from ..core.shapes import is_dense
from ..core.symbols import SizeTruth
from ..core.tensor import Tensor

__all__: list[str] = []

_Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: Any, message: _Message = None) -> None:
    """Raise `error_type` with what `message` returns, unless `cond`, a bool, is True. Of sizes that are data, a
    compiled program does so, and what it computes afterwards may rely on it."""
    if type(cond) is SizeTruth:
        text = "Expected cond to be True, but got False" if message is None else str(message())
        cond.expect(text, error_type)
        return
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False; give a function that returns a message")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: bool, message: _Message = None) -> None:
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: _Message = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: _Message = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: _Message = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: _Message = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all_with(error_type: type[Exception], cond: Tensor, message: _Message = None) -> None:
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype is not bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all().item()), message)


def _check_tensor_all(cond: Tensor, message: _Message = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _check_is_size(i: int, message: _Message = None, *, max: int | None = None) -> None:
    """That a number can be the size of a dimension."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _assert(condition: Any, message: str) -> Any:
    if type(condition) not in (bool, Tensor) and not MODES.plain:
        types = overriding_types((condition,))
        if types:  # what stands for a value that is not known yet
            return ask(_assert, types, (condition, message), {})
    if isinstance(condition, Tensor):
        condition = bool(condition.item())
    check(condition, message, AssertionError)
    return None


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError if a tensor of one element is zero."""
    count = input.numel()
    check(count > 0, "Boolean value of Tensor with no values is ambiguous")
    check(count == 1, "Boolean value of Tensor with more than one value is ambiguous")
    check(bool(input.item()), assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _debug_has_internal_overlap(self: Tensor) -> int:
    """Whether elements of a tensor share memory: 0 no, 1 yes, 2 if that is not looked into."""
    if has_internal_overlap(self):
        return 1
    return 0 if is_dense(tuple(self.shape), self.strides()) else 2
