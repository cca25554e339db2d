"""Running reductions as scans.

Floats are summed and multiplied in double and rounded once an element, as eager kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DTYPES, Category, DType
from ..core.index import as_index, dot
from ..core.registry import REGISTRY
from ..core.shapes import Spec, memory_order, strides_in_order, wrap_dim
from ..loops.expr import Access, Expr, Recorder
from ..loops.kernels import Fold, Scan, fold
from ..loops.nest import Combine, Nest, Phase, Reduce, Statement, Store
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer

INT64 = DTYPES["int64"]


@dataclass(frozen=True)
class Running:
    """One running value of a scan.

    `value(index, running)` is what is folded at a point, given the running values named before this one.
    """

    value: Callable[[Indices, Sequence[Expr]], Expr]
    step: Callable[[Recorder, Expr, Expr], Expr]
    neutral: Any
    out: Spec
    associative: bool = True


def scan(low: Lowerer, dim: int, values: Sequence[Running]) -> tuple[Lowered, ...]:
    """The running values along `dim`, all in one pass over the rows."""
    ops = low.recorder
    spec = values[0].out
    shape = spec.known_shape()
    if 0 in shape or not shape:
        return tuple(_without_rows(low, values))
    order = memory_order(shape, spec.known_strides())
    strides = strides_in_order(shape, order)
    variables = low.variables([shape[d] for d in order])
    index = tuple(as_index(variables[order.index(d)]) for d in range(len(shape)))
    along = variables[order.index(wrap_dim(dim, len(shape)))]
    name = f"scan{len(low.definitions)}"
    statements: list[Statement] = []
    folds: dict[str, Fold] = {}
    results = []
    for number, running in enumerate(values):
        value = running.value(index, [f.running for f in folds.values()])
        part = f"{name}_{number}"
        step = fold(ops, part, value.dtype, running.step, running.neutral, running.associative)
        for expr in (value, step.step):
            low.check(expr)
        folds[part] = step
        buffer = low.fresh_buffer(running.out.dtype, shape)
        statements.append(Reduce(part, Combine.SUM, value))
        statements.append(
            Store(Access(buffer, dot(index, strides)), ops.cast(step.running, running.out.dtype))
        )
        results.append(low.stored(buffer, shape, strides))
    nest = Nest(name, tuple(v for v in variables if v is not along), (Phase((along,), tuple(statements)),))
    low.definitions.append(Scan(nest, folds))
    return tuple(results)


def _without_rows(low: Lowerer, values: Sequence[Running]) -> list[Lowered]:
    """Of a number, or of no elements: what is folded is the result."""
    found: list[Lowered] = []
    for running in values:

        def element(
            index: Indices, running: Running = running, before: Sequence[Lowered] = tuple(found)
        ) -> Expr:
            value = running.value(index, [b.load(index) for b in before])
            return low.recorder.cast(value, running.out.dtype)

        found.append(low.generated(running.out.known_shape(), running.out.dtype, element))
    return found


def _accumulating(name: str, instruction: str, neutral: int, associative: bool) -> None:
    """cumsum and cumprod. Products overflow, and infinity times 0 is NaN, in the order of the row only."""

    @lowering(name)
    def rule(self: Lowered, dim: int, dtype: DType | None, low: Lowerer, out: Spec) -> Lowered:
        compute = DTYPES["float64"] if out.dtype.is_floating_point else out.dtype
        if out.dtype.is_complex:
            compute = DTYPES["complex128"]
        source = (self if dtype is None else self.cast(dtype)).cast(compute)
        return scan(
            low,
            dim,
            [
                Running(
                    lambda index, _: source.load(index),
                    lambda ops, a, b: getattr(ops, instruction)(a, b),
                    neutral,
                    out,
                    associative,
                )
            ],
        )[0]


_accumulating("cumsum", "add", 0, True)
_accumulating("cumprod", "mul", 1, False)


def _extreme(name: str, instruction: str, sign: int) -> None:
    """The running extreme and its position: that of the last of equals, of the latest NaN if there is one."""

    @lowering(name)
    def rule(self: Lowered, dim: int, low: Lowerer, out: tuple[Spec, Spec]) -> tuple[Lowered, ...]:
        source = self.shared(2).cast(self.dtype.opmath)
        ops, at = low.recorder, wrap_dim(dim, self.ndim)

        def position(index: Indices, running: Sequence[Expr]) -> Expr:
            value = source.load(index)
            renewed = ops.eq(value, running[0])
            if value.dtype.is_floating_point:
                renewed = ops.logical_or(renewed, ops.isnan(value))
            place = ops.index(index[at] if index else as_index(0), INT64)
            return ops.where(renewed, place, ops.number(0, INT64))

        return scan(
            low,
            dim,
            [
                Running(
                    lambda index, _: source.load(index),
                    lambda o, a, b: getattr(o, instruction)(a, b),
                    extreme_value(source.dtype, -sign),
                    out[0],
                ),
                Running(position, lambda o, a, b: o.maximum(a, b), 0, out[1]),
            ],
        )


def extreme_value(dtype: DType, sign: int) -> Any:
    """The greatest value of a dtype, or the least."""
    if dtype.is_floating_point:
        return sign * float("inf")
    if dtype.category is Category.BOOL:
        return sign > 0
    bits = 8 * dtype.itemsize
    if dtype.is_signed:
        return (1 << (bits - 1)) - 1 if sign > 0 else -(1 << (bits - 1))
    return (1 << bits) - 1 if sign > 0 else 0


_extreme("cummax", "maximum", 1)
_extreme("cummin", "minimum", -1)


@lowering("logcumsumexp")
def logcumsumexp(self: Lowered, dim: int, low: Lowerer, out: Spec) -> Lowered:
    compute = DTYPES["complex128"] if out.dtype.is_complex else DTYPES["float64"]
    source, log_of_sum = self.cast(compute), REGISTRY["logaddexp"].body
    assert log_of_sum is not None
    return scan(low, dim, [Running(lambda index, _: source.load(index), log_of_sum, -float("inf"), out)])[0]
