"""What becomes of the values that processes hold: one value, combined in the order of ranks.

The order never depends on the size of a message, its neighbours in a bucket or the number of bytes that MPI likes
to send at once, so that one sum has the same bits in every collective and in compiled code. Floats of 8 and 16
bits are combined in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.dtypes import BY_NUMPY, DType


class Reduction(NamedTuple):
    """`kind` as in `ReduceOp`; `factor` is what PREMUL_SUM multiplies by first."""

    kind: str
    factor: Any = None


_COMBINE: dict[str, Callable[..., Any]] = {
    "SUM": np.add,
    "AVG": np.add,
    "PREMUL_SUM": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}
_BITS = ("BAND", "BOR", "BXOR")


def check_reduction(name: str, kind: str, dtype: DType) -> None:
    """Whether values of `dtype` can be combined so; nothing has been sent yet."""
    if dtype.is_complex and kind not in ("SUM", "AVG", "PREMUL_SUM"):
        raise ValueError(f"{name} does not support ReduceOp.{kind} on complex tensors")
    if kind in _BITS and dtype.is_differentiable:
        raise RuntimeError(f"Cannot use ReduceOp.{kind} with non-integral dtype")
    if kind in ("AVG", "PREMUL_SUM") and dtype.name == "bool":
        raise RuntimeError(f"Cannot use ReduceOp.{kind} with bool tensors")


def premultiplied(values: np.ndarray, reduction: Reduction) -> np.ndarray:
    """What a process sends: its values, or for PREMUL_SUM their products with its factor."""
    if reduction.kind != "PREMUL_SUM":
        return values
    dtype = BY_NUMPY[values.dtype]
    factor = np.asarray(reduction.factor).astype(dtype.opmath.numpy)
    return (values.astype(dtype.opmath.numpy) * factor).astype(values.dtype)


def combine(parts: Sequence[np.ndarray], out: np.ndarray, reduction: Reduction, own: int = 0) -> None:
    """Write the combination of `parts`, in their order, to `out`, which may be the memory of part `own`.

    That part is not written otherwise; the others are scratch, of which the first may hold intermediate results.
    """
    dtype, count = BY_NUMPY[out.dtype], len(parts)
    with np.errstate(all="ignore"):
        if dtype.opmath is not dtype:
            wide = dtype.opmath.numpy
            total = parts[0].astype(wide)
            for part in parts[1:]:
                _COMBINE[reduction.kind](total, part.astype(wide), out=total)
            out[...] = _divided(total, count) if reduction.kind == "AVG" else total
            return
        if count == 1:
            if not np.may_share_memory(out, parts[0]):
                out[...] = parts[0]
            return
        function, total, scratch = _COMBINE[reduction.kind], parts[0], out if own == 0 else parts[0]
        for part in parts[1:-1]:
            total = function(total, part, out=scratch)
        function(total, parts[-1], out=out)
        if reduction.kind == "AVG":
            out[...] = _divided(out, count)


def _divided(total: np.ndarray, count: int) -> np.ndarray:
    if total.dtype.kind in "iu":  # towards zero
        quotient = total // count
        return quotient + ((total % count != 0) & (total < 0))
    return total / total.dtype.type(count)
