"""Softmax and its relatives as loops over rows."""

from __future__ import annotations

from ..core.shapes import Spec, wrap_dims
from ..loops.expr import NotRecordable
from ..loops.nest import Combine
from .declare import lowering
from .lowered import Lowered


@lowering("_softmax")
def softmax(self: Lowered, dim: int, out: Spec) -> Lowered:
    x, dims = _stable(self, dim, out)
    total = x.reduce(dims, Combine.SUM, True, x.dtype)
    # The total is at least 1, so its inverse is a normal number: one division a row, one product an element.
    inverse = total.map(lambda ops, s: ops.div(ops.constant(1, like=s), s), x.dtype).expand(x.shape)
    return x.map(lambda ops, e, i: ops.mul(e, i), x.dtype, inverse).cast(out.dtype)


def _stable(self: Lowered, dim: int, out: Spec) -> tuple[Lowered, tuple[int, ...]]:
    """exp(self - its maximum along dim), stored."""
    if 0 in self.shape or self.ndim == 0:
        raise NotRecordable("softmax of no elements")
    dims = wrap_dims(dim, self.ndim)
    x = self.cast(out.dtype.opmath)
    top = x.reduce(dims, Combine.MAXIMUM, True).expand(x.shape)
    return x.map(lambda ops, v, m: ops.exp(ops.sub(v, m)), x.dtype, top).realize(), dims


@lowering("_log_softmax")
def log_softmax(self: Lowered, dim: int, out: Spec) -> Lowered:
    if 0 in self.shape or self.ndim == 0:
        raise NotRecordable("log_softmax of no elements")
    dims = wrap_dims(dim, self.ndim)
    x = self.cast(out.dtype.opmath)
    top = x.reduce(dims, Combine.MAXIMUM, True)
    shifted = x.map(lambda ops, v, m: ops.sub(v, m), x.dtype, top.expand(x.shape))
    total = shifted.map(lambda ops, v: ops.exp(v), x.dtype).reduce(dims, Combine.SUM, True)
    log_total = total.map(lambda ops, s: ops.log(s), x.dtype).realize().expand(x.shape)
    return shifted.map(lambda ops, v, s: ops.sub(v, s), x.dtype, log_total).cast(out.dtype)


@lowering("_softmax_backward_data")
def softmax_backward(grad_output: Lowered, output: Lowered, dim: int, out: Spec) -> Lowered:
    grad, result, dims = _backward_operands(grad_output, output, dim)
    weighted = grad.map(lambda ops, g, y: ops.mul(g, y), grad.dtype, result)
    total = weighted.reduce(dims, Combine.SUM, True).expand(grad.shape)
    return grad.map(lambda ops, g, y, s: ops.mul(y, ops.sub(g, s)), grad.dtype, result, total).cast(out.dtype)


@lowering("_log_softmax_backward_data")
def log_softmax_backward(grad_output: Lowered, output: Lowered, dim: int, out: Spec) -> Lowered:
    grad, result, dims = _backward_operands(grad_output, output, dim)
    total = grad.reduce(dims, Combine.SUM, True).expand(grad.shape)
    return grad.map(lambda ops, g, y, s: ops.sub(g, ops.mul(ops.exp(y), s)), grad.dtype, result, total).cast(
        out.dtype
    )


def _backward_operands(grad: Lowered, output: Lowered, dim: int) -> tuple[Lowered, Lowered, tuple[int, ...]]:
    if 0 in output.shape or output.ndim == 0:
        raise NotRecordable("softmax of no elements")
    compute = output.dtype.opmath
    return grad.cast(compute), output.cast(compute), wrap_dims(dim, output.ndim)
