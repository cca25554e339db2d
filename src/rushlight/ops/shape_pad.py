"""Padding by a constant, by reflection and by replication. Amounts are given last dimension first."""

from __future__ import annotations

from typing import Any

from ..core.data_sizes import least, surely_alike
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Shape, Spec, contiguous_strides, preserved_strides, suggested_strides
from ..core.symbols import is_size
from ..core.tensor import Tensor
from .creation import check_representable


def constant_pad_nd(self: Tensor, pad: Shape, value: Any) -> Spec:
    check(len(pad) % 2 == 0, f"constant_pad_nd: Length of pad must be even but instead it equals {len(pad)}")
    check(
        len(pad) <= 2 * self.ndim,
        "constant_pad_nd: Length of pad should be no more than twice the number "
        f"of dimensions of the input. Pad length is {len(pad)} while the input has {self.ndim} dimensions.",
    )
    shape = list(self.shape)
    for i in range(len(pad) // 2):
        dim = self.ndim - 1 - i
        before, after = pad[2 * i], pad[2 * i + 1]
        check(
            shape[dim] + least(before, 0) + least(after, 0) >= 0,
            "constant_pad_nd: negative padding "
            f"({before}, {after}) takes more than there is in dimension {dim} of size {shape[dim]}",
        )
        shape[dim] += before + after
    check_representable(value, self.dtype, "constant_pad_nd")
    strides = suggested_strides(shape, [(self.shape, self.strides())])
    # What is contiguous remains so: amounts that change need not say whether all of them are 0.
    plain = strides is None and any(is_size(n) for n in pad)
    plain = plain and surely_alike(self.strides(), contiguous_strides(self.shape))
    if not plain and all(n <= 0 for n in pad):
        strides = preserved_strides(shape, self.strides())
    return Spec(tuple(shape), self.dtype, strides)


define(
    "constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor",
    shape=constant_pad_nd,
    api=FUNCTION,
    moves=True,
)


def border_padded(name: str, dims: int, self: Tensor, padding: Shape) -> Spec:
    """The output of reflection_pad{dims}d or replication_pad{dims}d."""
    check(
        len(padding) == 2 * dims,
        f"{name}: padding size is expected to be {2 * dims}, but got: {len(padding)}",
    )
    check(
        self.ndim in (dims + 1, dims + 2) and 0 not in self.shape[-dims - 1 :],
        f"{name}: Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with possibly 0 batch size and "
        f"other non-zero dimensions for input, but got: {list(self.shape)}",
    )
    if self.dtype.name == "bool":
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
    shape = list(self.shape)
    for i in range(dims):
        dim = self.ndim - 1 - i
        before, after = padding[2 * i], padding[2 * i + 1]
        check(
            name.startswith("replication") or max(before, after) < shape[dim],
            f"{name}: Padding size "
            f"should be less than the corresponding input dimension, but got: padding ({before}, {after}) "
            f"at dimension {dim} of input {list(self.shape)}",
        )
        shape[dim] += before + after
        check(
            shape[dim] >= 1,
            f"{name}: input (size {self.shape[dim]} at dimension {dim}) is too small. "
            f"Calculated output size: {shape[dim]}",
        )
    return Spec(tuple(shape), self.dtype, suggested_strides(shape, [(self.shape, self.strides())]))


def border_padding(name: str, dims: int) -> None:
    """Declare `name` and its backward operator."""

    def backward(grad_output: Tensor, self: Tensor, padding: Shape) -> Spec:
        expected = border_padded(name, dims, self, padding)
        check(
            tuple(grad_output.shape) == expected.shape,
            f"{name}_backward: grad_output has shape "
            f"{list(grad_output.shape)}, expected {list(expected.known_shape())}",
        )
        return Spec(tuple(self.shape), grad_output.dtype)

    define(
        f"{name}(Tensor self, SymInt[{2 * dims}] padding) -> Tensor",
        api=INTERNAL,
        moves=True,
        shape=lambda self, padding: border_padded(name, dims, self, padding),
    )
    define(
        f"{name}_backward(Tensor grad_output, Tensor self, SymInt[{2 * dims}] padding) -> Tensor",
        api=INTERNAL,
        shape=backward,
    )


for _dims in (1, 2, 3):
    border_padding(f"reflection_pad{_dims}d", _dims)
    border_padding(f"replication_pad{_dims}d", _dims)
