"""Derivatives of the Fourier transforms. All are linear; the adjoint of a transform is the one in the other
direction with the same scale."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dispatch import run_name
from ..core.shapes import Shape
from ..core.tensor import Tensor
from .declare import AUTO_LINEAR, derivative


def r2c_backward(
    grad: Tensor, self_shape: Shape, dim: Sequence[int], normalization: int, onesided: bool
) -> Tensor:
    """The half that a one-sided transform leaves out has no gradient."""
    if onesided:
        last = dim[-1] % grad.ndim
        missing = self_shape[last] - grad.shape[last]
        grad = padded(grad, last, missing)
    return run_name("_fft_c2c", grad, dim, normalization, False).real


def padded(x: Tensor, dim: int, count: int) -> Tensor:
    """`count` zeros more at the end of `dim`, or as many elements less."""
    return run_name("constant_pad_nd", x, (0, 0) * (x.ndim - 1 - dim) + (0, count), 0) if count else x


def c2r_backward(grad: Tensor, self_shape: Shape, dim: Sequence[int], normalization: int) -> Tensor:
    """What stands for two conjugate entries of the full spectrum counts twice."""
    last = dim[-1] % grad.ndim
    result = run_name("_fft_r2c", grad, dim, normalization, True)
    kept = result.shape[last]
    twice = grad.shape[last] - kept
    if twice:
        place = run_name("arange", kept, None, None, None, None)
        weight = run_name("where.Scalar", (place >= 1).logical_and(place <= twice), 2.0, 1.0).to(grad.dtype)
        result = result * weight.reshape((kept,) + (1,) * (grad.ndim - 1 - last))
    return padded(result, last, self_shape[last] - kept)


derivative("_fft_r2c", self=r2c_backward, result=AUTO_LINEAR)
derivative("_fft_c2r", self=c2r_backward, result=AUTO_LINEAR)
derivative(
    "_fft_c2c",
    self=lambda grad, dim, normalization, forward: run_name(
        "_fft_c2c", grad, dim, normalization, not forward
    ),
    result=AUTO_LINEAR,
)
