"""How many elements are in which bin: numbers written where the elements say."""

from __future__ import annotations

import math
from typing import Any

from ..core.dtypes import DTYPES
from ..core.index import Index
from ..core.shapes import Spec, numel
from ..loops.expr import Expr, NotRecordable
from ..loops.nest import Combine
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer
from .scatter import Points, scattered

INT64 = DTYPES["int64"]
_DTYPES = (DTYPES["float32"], DTYPES["float64"])


@lowering("histc")
def histc(self: Lowered, bins: int, min: Any, max: Any, low: Lowerer, out: Spec) -> Lowered:
    """Every step is rounded as the kernel does it, to decide the bin of values near an edge."""
    if self.dtype not in _DTYPES:
        raise NotRecordable(f"a histogram of {self.dtype.name}")
    number = self.dtype.numpy.type
    first, last = number(min), number(max)
    if first == last or not (math.isfinite(first) and math.isfinite(last)):
        raise NotRecordable("a histogram over the range of the data")
    if 0 in self.shape:
        return low.full((bins,), 0, out.dtype)
    ops, values = low.recorder, self.reshape((numel(self.shape),)).cheap()

    def constant(value: Any) -> Expr:
        return ops.number(float(value), self.dtype)

    def kept(index: Indices) -> Expr:
        x = values.load(index)
        return ops.logical_and(ops.ge(x, constant(first)), ops.le(x, constant(last)))

    def place(index: Indices) -> list[Index]:
        away = ops.mul(ops.sub(values.load(index), constant(first)), constant(bins))
        at = ops.cast(ops.div(away, constant(last - first)), INT64)
        at = ops.where(kept(index), ops.minimum(at, ops.number(bins - 1, INT64)), ops.number(0, INT64))
        return [ops.indirect(at, bins, None)]

    points = Points(values.shape, place, kept)
    counts = scattered(low.full((bins,), 0, INT64), points, (lambda _: ops.number(1, INT64), Combine.SUM))
    return counts.cast(out.dtype)
