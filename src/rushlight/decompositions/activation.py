"""Softmax in its public forms, and activations in terms of simpler operators."""

from __future__ import annotations

from typing import Any

from ..core.data_sizes import is_data
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.errors import check
from ..core.promotion import Promotion
from ..core.registry import FUNCTION, INPLACE, INTERNAL, METHOD, OUT, Api, composite
from ..core.shapes import wrap_dim
from ..core.tensor import Tensor
from ..ops.activation_elementwise import SELU_ALPHA, SELU_SCALE


@composite(
    "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return run_name("_softmax", self if dtype is None else self.to(dtype), dim, False)


@composite(
    "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION | METHOD | OUT | Api.EXACT,
)
def log_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return run_name("_log_softmax", self if dtype is None else self.to(dtype), dim, False)


@composite(
    "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION,
    namespace="special",
    public_name="softmax",
)
def special_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return self.softmax(dim, dtype)


@composite(
    "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    api=FUNCTION,
    namespace="special",
    public_name="log_softmax",
)
def special_log_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    return self.log_softmax(dim, dtype)


@composite("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", api=FUNCTION)
def safe_softmax(self: Tensor, dim: int, dtype: DType | None) -> Tensor:
    """Softmax that gives zeros, not NaN, for a row of which every element is masked by -inf."""
    if self.numel() == 0:  # there is no maximum of nothing
        return self.softmax(dim, dtype)
    if self.ndim and is_data(self.shape[dim]):  # which a run may find to be 0
        masked = self.eq(float("-inf")).all(dim, keepdim=True)
    else:
        masked = self.amax(dim, keepdim=True).eq(float("-inf"))
    return self.softmax(dim, dtype).masked_fill(masked, 0.0)


@composite(
    "_masked_softmax(Tensor self, Tensor mask, int? dim=None, int? mask_type=None) -> Tensor", api=FUNCTION
)
def masked_softmax(self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None) -> Tensor:
    """Softmax of the elements where `mask` is False, zero for the others.

    The mask of an input (B, H, L, L) may be (L, L), the same for all rows of the batch, if mask_type is 0, or
    (B, L), the same for all heads and queries, if it is 1.
    """
    check(
        mask.dtype is DTYPES["bool"],
        f"_masked_softmax: mask should be a boolean tensor, but is {mask.dtype.torch_name}",
    )
    full = self.masked_fill(_full_mask(self, mask, mask_type), float("-inf"))
    return run_name("_softmax", full, -1 if dim is None else dim, False)


def _full_mask(self: Tensor, mask: Tensor, mask_type: int | None) -> Tensor:
    shape, given = tuple(self.shape), tuple(mask.shape)
    if given == shape:
        return mask
    check(
        mask_type in (0, 1, 2),
        "_masked_softmax: a mask that has not the input's shape needs a mask_type, "
        f"0 for (L, L) or 1 for (B, L): it is {given}, the input is {shape}, mask_type is {mask_type}",
    )
    wanted = shape
    if self.ndim == 4 and mask_type != 2:
        wanted = shape[2:] if mask_type == 0 else (shape[0], shape[2])
    check(
        given == wanted,
        f"_masked_softmax: for mask_type {mask_type} and an input of shape {shape} the "
        f"mask should be {wanted}, but is {given}",
    )
    return mask if mask_type == 0 else mask.reshape((shape[0], 1, 1, shape[2]))


# Elementwise activations.


@composite("relu6(Tensor self) -> Tensor", api=INTERNAL)
def relu6(self: Tensor) -> Tensor:
    return run_name("hardtanh", self, 0, 6)


@composite("celu(Tensor self, Scalar alpha=1.0) -> Tensor", api=FUNCTION | INPLACE)
def celu(self: Tensor, alpha: Any) -> Tensor:
    check(alpha != 0, "celu: ZeroDivisionError: alpha cannot be 0")
    return run_name("elu", self, alpha, 1.0, 1.0 / alpha)


@composite("selu(Tensor self) -> Tensor", api=FUNCTION | INPLACE)
def selu(self: Tensor) -> Tensor:
    return run_name("elu", self, SELU_ALPHA, SELU_SCALE, 1.0)


@composite("log_sigmoid(Tensor self) -> Tensor", api=INTERNAL)
def log_sigmoid(self: Tensor) -> Tensor:
    return run_name("log_sigmoid_forward", self)[0]


@composite("prelu(Tensor self, Tensor weight) -> Tensor", api=FUNCTION | METHOD)
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """One slope for all elements, or one for each channel, which is dimension 1."""
    check(
        weight.dtype is self.dtype,
        f"prelu: Type promoting not supported. Got {self.dtype.torch_name} and {weight.dtype.torch_name}",
    )
    check(
        weight.ndim <= 1,
        f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}",
    )
    if weight.numel() != 1:
        check(self.ndim > 0, "prelu: Not allow zero-dim input tensor.")
        channels = self.shape[1] if self.ndim >= 2 else 1
        check(
            weight.numel() == channels,
            "prelu: Mismatch of parameter numbers and input channel size. "
            f"Found parameter numbers = {weight.numel()} and channel size = {channels}.",
        )
    if weight.ndim != self.ndim:
        shape = [1] * self.ndim
        if self.ndim > 1:
            shape[1] = weight.numel()
        weight = weight.reshape(shape) if weight.ndim == 1 else weight
    return run_name("_prelu_kernel", self, weight)


_RRELU = (
    "Tensor noise, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
    "Generator? generator=None"
)


@composite(
    f"rrelu_with_noise_functional(Tensor self, {_RRELU}) -> (Tensor, Tensor noise_out)",
    random=True,
    api=INTERNAL,
)
def rrelu_with_noise_functional(
    self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, generator: Any
) -> tuple[Tensor, Tensor]:
    """Leaky relu with a random slope for each negative element, and the slopes.

    Outside of training the slope is the mean, and the noise stays as it is.
    """
    check(
        self.dtype.is_floating_point,
        f"rrelu_with_noise: expected a floating-point input, not {self.dtype.name}",
        NotImplementedError,
    )
    check(
        lower <= upper,
        "rrelu_with_noise: Lower bound should be less than or equal to the upper bound, "
        f"but found lower bound = {lower} and upper bound = {upper}.",
    )
    if not training:
        return run_name("leaky_relu", self, (lower + upper) / 2), noise
    blank = run_name("empty_like", self, None, None, None, None, None)
    slopes = run_name("where.ScalarOther", self <= 0, run_name("uniform", blank, lower, upper, generator), 1)
    return self * slopes, slopes


@composite(
    f"rrelu_with_noise(Tensor self, {_RRELU.replace('Tensor', 'Tensor(b!)', 1)}) -> Tensor",
    random=True,
    api=INTERNAL,
)
def rrelu_with_noise(
    self: Tensor, noise: Tensor, lower: Any, upper: Any, training: bool, generator: Any
) -> Tensor:
    check(
        tuple(noise.shape) == tuple(self.shape),
        "rrelu_with_noise: noise tensor shape must match self "
        f"tensor shape. Got self.shape = {list(self.shape)}, noise.shape = {list(noise.shape)}",
    )
    result, slopes = run_name("rrelu_with_noise_functional", self, noise, lower, upper, training, generator)
    if training:
        noise.copy_(slopes)
    return result


@composite(
    "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
    "Generator? generator=None) -> Tensor",
    random=True,
    api=FUNCTION | INPLACE,
)
def rrelu(self: Tensor, lower: Any, upper: Any, training: bool, generator: Any) -> Tensor:
    return run_name("rrelu_with_noise_functional", self, self, lower, upper, training, generator)[0]


# The gated linear unit: the first half of a dimension times the sigmoid of the second half.


def halves(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    check(self.ndim > 0, "glu does not support 0-dimensional tensors")
    at = wrap_dim(dim, self.ndim, name="glu")
    size = self.shape[at]
    check(size % 2 == 0, f"Halving dimension must be even, but dimension {at} is size {size}")
    return self.narrow(at, 0, size // 2), self.narrow(at, size // 2, size // 2)


@composite("glu(Tensor self, int dim=-1) -> Tensor", promote=Promotion.DEFAULT, api=INTERNAL)
def glu(self: Tensor, dim: int) -> Tensor:
    check(
        self.dtype.is_floating_point,
        f"glu: expected floating-point numbers, not {self.dtype.name}",
        NotImplementedError,
    )
    value, gate = halves(self, dim)
    return value * gate.sigmoid()


@composite(
    "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
    promote=Promotion.DEFAULT,
    api=INTERNAL,
)
def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    value, gate = halves(self, dim)
    open_ = gate.sigmoid()
    return run_name(
        "cat", (grad_output * open_, run_name("sigmoid_backward", grad_output * value, open_)), dim
    )


@composite("glu_jvp(Tensor glu, Tensor x, Tensor dx, int dim) -> Tensor", api=INTERNAL)
def glu_jvp(glu: Tensor, x: Tensor, dx: Tensor, dim: int) -> Tensor:
    gate = halves(x, dim)[1].sigmoid()
    value_t, gate_t = halves(dx, dim)
    return value_t * gate + glu * (gate_t * (1 - gate))


@composite(
    "glu_backward_jvp(Tensor grad_x, Tensor grad_glu, Tensor x, Tensor dgrad_glu, Tensor dx, int dim) "
    "-> Tensor",
    api=INTERNAL,
)
def glu_backward_jvp(grad_glu: Tensor, x: Tensor, dgrad_glu: Tensor, dx: Tensor, dim: int) -> Tensor:
    """How glu_backward(grad_glu, x) changes with both of its arguments."""
    value, gate = halves(x, dim)
    value_t, gate_t = halves(dx, dim)
    open_ = gate.sigmoid()
    slope = open_ * (1 - open_)
    first = dgrad_glu * open_ + grad_glu * slope * gate_t
    second = slope * (dgrad_glu * value + grad_glu * (value_t + value * gate_t * (1 - open_ * 2)))
    return run_name("cat", (first, second), dim)
