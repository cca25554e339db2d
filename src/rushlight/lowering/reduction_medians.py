"""Medians by sorting: the lower of two middle elements.

Of a row with NaN it is the first NaN, unless NaNs are left out.
"""

from __future__ import annotations

from typing import Any

from ..core.shapes import Spec, numel
from ..loops.expr import Expr, NotRecordable
from ..loops.nest import Combine
from .declare import lowering
from .lowered import Indices, Lowered, Lowerer
from .sorting import INT64, Pair, element_at, rows_along, sorted_rows, without_elements


def _medians(rows: Lowered, at: int, ignore_nan: bool) -> Pair:
    """Along `at`, whose extent becomes 1."""
    ops, n = rows.owner.recorder, rows.shape[at]
    source = rows.cheap()
    shape = (*rows.shape[:at], 1, *rows.shape[at + 1 :])
    if not rows.dtype.is_floating_point:
        values, positions = sorted_rows(source, at, (n - 1) // 2 + 1, False)
        return element_at(values, at, (n - 1) // 2), element_at(positions, at, (n - 1) // 2)
    found = sorted_rows(source, at, n, False)
    nans = source.map(lambda o, x: o.cast(o.isnan(x), INT64), INT64).reduce((at,), Combine.SUM, True)

    def number(value: int) -> Expr:
        return ops.number(value, INT64)

    def middle(index: Indices) -> list[Any]:
        missing = nans.load(index)
        present = ops.sub(number(n), missing)
        if ignore_nan:
            last = ops.maximum(ops.sub(present, number(1)), number(0))
            wanted = ops.floor_div(last, number(2))
        else:
            wanted = ops.where(ops.gt(missing, number(0)), present, number((n - 1) // 2))
        return [*index[:at], ops.indirect(wanted, n, None), *index[at + 1 :]]

    return found[0].reindex(shape, middle), found[1].reindex(shape, middle)


def _declare_median(name: str, ignore_nan: bool) -> None:
    @lowering(name)
    def of_all(self: Lowered, low: Lowerer, out: Spec) -> Lowered:
        if 0 in self.shape:
            missing = float("nan") if out.dtype.is_floating_point else 0
            if not out.dtype.is_floating_point:
                raise NotRecordable("NaN as an integer")
            return low.full((), missing, out.dtype)
        return _medians(self.reshape((numel(self.shape),)), 0, ignore_nan)[0].reshape(())

    @lowering(f"{name}.dim")
    def along(self: Lowered, dim: int, out: tuple[Spec, Spec]) -> Pair:
        rows, at = rows_along(self, dim)
        if 0 in rows.shape:
            return without_elements(self, out)
        shape = out[0].known_shape()
        values, positions = _medians(rows, at, ignore_nan)
        return values.reshape(shape), positions.reshape(shape)


_declare_median("median", False)
_declare_median("nanmedian", True)
