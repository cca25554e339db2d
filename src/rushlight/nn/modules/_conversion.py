"""Modules in another dtype, memory format or place: `to`, `float`, `half`, ..."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar, overload

from ... import __future__ as settings
from ..._api.link import API
from ...autograd.grad_mode import no_grad
from ...core import dtypes
from ...core.conversions import _parse_to
from ...core.dtypes import DType
from ...core.errors import check
from ...core.tensor import Tensor
from ...utils.swapping import exchange
from ..parameter import Parameter

Self = TypeVar("Self", bound="Convertible")


class Convertible:
    """The part of Module that converts its tensors."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    children: Callable[[], Iterator[Any]]

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every tensor by `fn` of it; a parameter stays the same object where it can."""
        for module in self.children() if recurse else ():
            module._apply(fn)
        for name, param in self._parameters.items():
            if param is not None:
                where = f"{type(self).__name__}.{name}"
                with no_grad():
                    self._parameters[name] = _converted(param, fn, where)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    @overload
    def to(self: Self, device: Any = ..., dtype: DType | None = ..., non_blocking: bool = ...) -> Self: ...
    @overload
    def to(self: Self, dtype: DType, non_blocking: bool = ...) -> Self: ...
    @overload
    def to(self: Self, tensor: Tensor, non_blocking: bool = ...) -> Self: ...
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Convert the tensors in place: floating point ones to `dtype`, all to `device` and
        `memory_format`."""
        if "tensor" in kwargs:
            kwargs["other"] = kwargs.pop("tensor")
        dtype, place, _, memory_format = _parse_to(args, kwargs)
        check(
            dtype is None or dtype.is_floating_point or dtype.is_complex,
            f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}",
            TypeError,
        )

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            options = (
                {} if memory_format is None or tensor.ndim not in (4, 5) else {"memory_format": memory_format}
            )
            return tensor.to(device=place, dtype=wanted, **options)

        return self._apply(convert)

    def type(self: Self, dst_type: Any) -> Self:
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _to_floating(self: Self, dtype: DType) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self: Self) -> Self:
        return self._to_floating(dtypes.float32)

    def double(self: Self) -> Self:
        return self._to_floating(dtypes.float64)

    def half(self: Self) -> Self:
        return self._to_floating(dtypes.float16)

    def bfloat16(self: Self) -> Self:
        return self._to_floating(dtypes.bfloat16)

    def cpu(self: Self) -> Self:
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        return self._apply(lambda tensor: tensor.cuda(device))

    def xpu(self: Self, device: Any = None) -> Self:
        return self._apply(lambda tensor: tensor.xpu(device))

    mtia = ipu = xpu

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to `device` without copying the values."""
        return self._apply(lambda tensor: API.functions[""]["empty_like"](tensor, device=device), recurse)

    def share_memory(self: Self) -> Self:
        """Move parameters and buffers to memory that other processes can reach."""
        return self._apply(lambda tensor: tensor.share_memory_())


def _converted(param: Parameter, fn: Callable[[Tensor], Tensor], where: str) -> Parameter:
    """`fn` of a parameter, and of its gradient: the same object with other data, if nothing asks for more."""
    value, grad = fn(param), param.grad
    if settings.get_swap_module_params_on_conversion() or hasattr(value, "__tensor_flatten__"):
        return _swapped(param, value, fn, where)
    if not _takes_data(param, value):
        result = Parameter(value, param.requires_grad)
        if grad is not None:
            result.grad = fn(grad).requires_grad_(grad.requires_grad)
        return result
    if value is not param:
        param.data = value
    if grad is not None:
        new = fn(grad)
        if _takes_data(grad, new):
            grad.data = new
        else:
            param.grad = new.requires_grad_(grad.requires_grad)
    return param


def _takes_data(tensor: Tensor, value: Tensor) -> bool:
    """Whether a conversion is an assignment to `.data`: the layout and the device stay, nobody objects."""
    same = value.device == tensor.device and value.layout is tensor.layout
    return same and not settings.get_overwrite_module_params_on_conversion()


def _swapped(param: Parameter, value: Tensor, fn: Callable[[Tensor], Tensor], where: str) -> Parameter:
    grad = param.grad
    param.grad = None
    try:
        exchange(param, Parameter(value, param.requires_grad))
    except RuntimeError as error:
        param.grad = grad
        raise RuntimeError(f"_apply(): Couldn't swap {where}") from error
    if grad is not None:
        new = fn(grad)
        if new is not grad:
            try:
                exchange(grad, new.requires_grad_(grad.requires_grad))
            except RuntimeError as error:
                raise RuntimeError(f"_apply(): Couldn't swap {where}.grad") from error
        param.grad = grad
    return param
