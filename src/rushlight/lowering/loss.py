"""Losses of classes as loops: the class is an index that is data, and backward a comparison with it."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DTYPES
from ..core.shapes import Spec
from ..loops.expr import Expr, IndexCheck, NotRecordable
from ..loops.nest import Combine
from ..ops.loss import MEAN, NONE
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer

INT64 = DTYPES["int64"]
CHECK = IndexCheck("nll_loss", negative=False)


def _aligned(self: Lowered, target: Lowered) -> tuple[Lowered, Lowered]:
    """A batch of one for the form without batch; targets as int64."""
    if 0 in self.shape or 0 in target.shape:
        raise NotRecordable("a loss of no elements")
    if self.ndim == 1:
        return self.reshape((1, *self.shape)), target.reshape((1,)).cast(INT64)
    return self, target.cast(INT64)


@lowering("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(
    self: Lowered,
    target: Lowered,
    weight: Lowered | None,
    reduction: int,
    ignore_index: int,
    low: Lowerer,
    out: Any,
) -> tuple[Lowered, Lowered]:
    scalar = self.ndim == 1 or reduction != NONE
    source, chosen = _aligned(self, target)
    compute = out[0].dtype.opmath
    source, chosen = source.cast(compute).cheap(), chosen.cheap()
    per_class = None if weight is None else weight.cast(compute).cheap()
    ops = low.recorder

    def parts(index: Indices) -> tuple[Expr, Any, Expr]:
        t = chosen.load(index)
        ignored = ops.eq(t, ops.number(ignore_index, INT64))
        place = ops.indirect(ops.where(ignored, ops.number(0, INT64), t), source.shape[1], CHECK)
        one = ops.number(1.0, compute) if per_class is None else per_class.load((place,))
        return ignored, place, one

    def loss(index: Indices) -> Expr:
        ignored, place, each = parts(index)
        picked = ops.keep_checks(source.load((index[0], place, *index[1:])), (place,))
        return ops.where(ignored, ops.number(0.0, compute), ops.neg(ops.mul(picked, each)))

    def counted(index: Indices) -> Expr:
        ignored, _, each = parts(index)
        return ops.where(ignored, ops.number(0.0, compute), each)

    losses = low.generated(chosen.shape, compute, loss)
    if not scalar:
        return losses.cast(out[0].dtype), low.full((), 0.0, out[1].dtype)
    every = tuple(range(chosen.ndim))
    total = losses.reduce(every, Combine.SUM, False)
    weight_sum = low.generated(chosen.shape, compute, counted).reduce(every, Combine.SUM, False)
    if reduction == MEAN:
        total = total.map(lambda ops, a, b: ops.div(a, b), compute, weight_sum)
    return total.cast(out[0].dtype), weight_sum.cast(out[1].dtype)


@lowering("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad_output: Lowered,
    self: Lowered,
    target: Lowered,
    weight: Lowered | None,
    reduction: int,
    ignore_index: int,
    total_weight: Lowered,
    low: Lowerer,
    out: Spec,
) -> Lowered:
    each = reduction == NONE and self.ndim > 1
    compute = out.dtype.opmath
    source, chosen = _aligned(self, target)
    grad = (grad_output if each else grad_output.reshape(())).cast(compute)
    if reduction == MEAN:
        weight_sum = total_weight.reshape(()).cast(compute)
        grad = grad.map(lambda ops, g, w: ops.div(g, w), compute, weight_sum)
    grad, chosen = grad.cheap(), chosen.cheap()
    per_class = None if weight is None else weight.cast(compute).cheap()
    ops = low.recorder

    def element(index: Indices) -> Expr:
        at = (index[0], *index[2:])
        t, label = chosen.load(at), ops.index(index[1], INT64)
        hit = ops.logical_and(ops.eq(t, label), ops.ne(t, ops.number(ignore_index, INT64)))
        value = ops.neg(grad.load(at if each else ()))
        if per_class is not None:
            value = ops.mul(value, per_class.load((index[1],)))
        return ops.where(hit, value, ops.number(0.0, compute))

    result = low.generated(source.shape, compute, element).cast(out.dtype)
    return result.reshape(out.known_shape()) if self.ndim == 1 else result


@lowering("_functional_assert_async.msg")
def functional_assert(self: Lowered, assert_msg: str, dep_token: Lowered) -> Lowered:
    allowed = self.expand(dep_token.shape)
    return dep_token.map(lambda ops, x, ok: ops.checked(x, ok, assert_msg), dep_token.dtype, allowed)


extern(
    "how long sequences and targets are is data",
    "_ctc_loss",
    "_ctc_loss_backward",
    "_ctc_loss_backward_backward",
    "_ctc_loss.Tensor",
    "_ctc_loss_backward.Tensor",
    "_ctc_loss_backward_backward.Tensor",
)
