"""Random numbers: operators in terms of simpler ones.

Where a decomposition stands beside a kernel, it draws the same words and gives the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import bool_ as BOOL
from ..core.dtypes import uint8 as BYTE
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE, INTERNAL, composite, decomposition
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor
from ..ops.random_distributions import check_probability

# -alpha * scale of SELU, the value it saturates at, is what alpha dropout puts for a dropped unit.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805
_ALPHA = _SELU_ALPHA * _SELU_SCALE


# Scaled draws.


@decomposition("uniform")
def uniform(self: Tensor, from_: float, to: float, generator: Any) -> Tensor:
    if self.dtype.is_complex:
        parts = run_name("view_as_real", self)
        return run_name("view_as_complex", uniform(parts, from_, to, generator))
    draw = run_name("rand_like.generator", self, generator, None, None, None, None, None)
    compute = self.dtype.opmath
    rounded = (draw.to(compute) * (to - from_) + from_).to(self.dtype)
    return rounded.where(rounded.to(compute) < to, from_)


def scaled_normal(like: Tensor, mean: Any, std: Any, generator: Any) -> Tensor:
    """mean + std * randn of the shape and dtype of `like`, rounded once."""
    draw = run_name("randn_like.generator", like, generator, like.dtype.opmath, None, None, None, None)
    std, mean = (t.to(t.dtype.opmath) if isinstance(t, Tensor) else t for t in (std, mean))
    return (draw * std + mean).to(like.dtype)


@decomposition("normal_functional")
def normal_functional(self: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    return scaled_normal(self, mean, std, generator)


@decomposition("normal.Tensor_float")
def normal_mean(mean: Tensor, std: float, generator: Any) -> Tensor:
    return scaled_normal(mean, mean, std, generator)


@decomposition("normal.float_Tensor")
def normal_std(mean: float, std: Tensor, generator: Any) -> Tensor:
    return scaled_normal(std, mean, std, generator)


@decomposition("normal.Tensor_Tensor")
def normal_both(mean: Tensor, std: Tensor, generator: Any) -> Tensor:
    shape = broadcast_shapes(mean.shape, std.shape, name="normal")
    return scaled_normal(mean.new_empty(shape), mean, std, generator)


@decomposition("normal.float_float")
def normal_size(
    mean: float,
    std: float,
    size: Sequence[int],
    generator: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
) -> Tensor:
    return scaled_normal(
        run_name("empty.memory_format", size, dtype, layout, device, pin_memory, None), mean, std, generator
    )


# Dropout.


@composite("dropout(Tensor input, float p, bool train) -> Tensor", random=True, api=FUNCTION | INPLACE)
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    check_probability(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    return run_name("native_dropout", input, p, train)[0]


@composite(
    "feature_dropout(Tensor input, float p, bool train) -> Tensor", random=True, api=FUNCTION | INPLACE
)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Drops whole channels."""
    check_probability(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input * 0
    return input * run_name("native_dropout", input.new_ones(channels(input)), p, train)[0]


@composite("alpha_dropout(Tensor input, float p, bool train) -> Tensor", random=True, api=FUNCTION | INPLACE)
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    return alpha_dropped(input, p, train, input.shape)


@composite(
    "feature_alpha_dropout(Tensor input, float p, bool train) -> Tensor", random=True, api=FUNCTION | INPLACE
)
def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Alpha dropout of whole channels."""
    return alpha_dropped(input, p, train, None)


def channels(input: Tensor) -> list[int]:
    """The shape of one number per sample and channel."""
    check(
        input.ndim >= 2,
        f"feature dropout requires at least 2 dimensions in the input, but its shape is {tuple(input.shape)}",
    )
    return [*input.shape[:2], *(1 for _ in input.shape[2:])]


def alpha_dropped(input: Tensor, p: float, train: bool, shape: Sequence[int] | None) -> Tensor:
    """Dropped units become -_ALPHA; then a scale and a shift that keep mean 0 and variance 1."""
    check_probability(p)
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input * 0
    shape = channels(input) if shape is None else shape
    check(
        input.dtype.is_floating_point,
        "alpha_dropout: the result is floating-point and can't be cast to "
        f"the input's dtype {input.dtype.name}",
    )
    scale = 1 / math.sqrt((_ALPHA**2 * p + 1) * (1 - p))
    kept = run_name("bernoulli.p", input.new_empty(shape), 1 - p, None)
    return input * (kept * scale) + ((kept - 1) * (_ALPHA * scale) + _ALPHA * scale * p)


@composite("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", api=INTERNAL)
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    check(mask.dtype.name == "bool", f"native_dropout_backward: mask should be bool, not {mask.dtype.name}")
    return grad_output * mask * scale


@decomposition("native_dropout")
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if train is False:
        return input.clone(), run_name("ones_like", input, BOOL, None, None, None, None)
    blank = run_name("empty_like", input, BOOL, None, None, None, None)
    mask = run_name("bernoulli.p", blank, 1 - p, None)
    return input * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


@composite(
    "_fused_dropout(Tensor self, float p, Generator? generator=None) -> (Tensor, Tensor)",
    random=True,
    api=FUNCTION,
)
def fused_dropout(self: Tensor, p: float, generator: Any) -> tuple[Tensor, Tensor]:
    """Here `p` is the probability to keep an element, and the mask is made of bytes."""
    mask = run_name("bernoulli.p", run_name("empty_like", self, BYTE, None, None, None, None), p, generator)
    return self * mask * (1 / p), mask


@composite("_masked_scale(Tensor self, Tensor mask, float scale) -> Tensor", api=FUNCTION)
def masked_scale(self: Tensor, mask: Tensor, scale: float) -> Tensor:
    return self * mask * scale


decomposition("bernoulli")(lambda self, generator: run_name("bernoulli.Tensor", self, self, generator))
