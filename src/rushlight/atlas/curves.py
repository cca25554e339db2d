"""Functions of one real argument: which operators are, and their values and derivatives."""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

import rushlight
from rushlight.core.dispatch import call
from rushlight.core.registry import REGISTRY, Kind, OpDef
from rushlight.core.schema import REQUIRED

POINTS = 241
# Where a function is worth looking at; elsewhere it is this range.
RANGES = {
    "erfinv": (-1, 1), "special_ndtri": (0, 1), "logit": (0, 1), "special_logit": (0, 1), "acosh": (0.5, 5),
    "arccosh": (0.5, 5), "asin": (-1, 1), "acos": (-1, 1), "arcsin": (-1, 1), "arccos": (-1, 1), "atanh": (-1, 1),
    "arctanh": (-1, 1), "exp": (-4, 3), "exp2": (-4, 3), "expm1": (-4, 3), "special_bessel_j0": (-20, 20),
    "special_bessel_j1": (-20, 20), "special_bessel_y0": (0, 20), "special_bessel_y1": (0, 20), "sqrt": (-1, 5),
    "special_airy_ai": (-12, 4), "special_spherical_bessel_j0": (-20, 20), "deg2rad": (-180, 180),
    "special_entr": (-0.2, 2), "sin": (-7, 7), "cos": (-7, 7),
}  # fmt: skip
RANGE = (-5, 5)
FAMILIES = ("pointwise", "activation", "special")  # in which an operator may be elementwise and not pointwise


def function_of(op: OpDef) -> Any:
    """The operator as a function of one tensor, with its other arguments at their defaults."""
    defaults = [argument.default for argument in op.schema.arguments[1:]]
    return lambda x: call(op, (x, *defaults))


def _could_be(op: OpDef) -> bool:
    arguments = op.schema.arguments
    return (
        bool(arguments)
        and arguments[0].type.is_tensor
        and all(argument.default is not REQUIRED for argument in arguments[1:])
        and (op.kind is Kind.POINTWISE or (op.kind is not Kind.VIEW and op.family in FAMILIES))
        and not op.random
        and not op.data_dependent
    )


@functools.cache
def curve_of(name: str) -> OpDef | None:
    """The overload of an operator that is a function of one real number, element by element; None if none is."""
    probe = np.array([0.7, -0.3, 0.2, 0.9])
    for op in REGISTRY:
        if op.schema.name == name and _could_be(op):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    there = function_of(op)(rushlight.tensor(probe))
                    back = function_of(op)(rushlight.tensor(probe[::-1].copy()))
            except Exception:
                continue
            if not isinstance(there, rushlight.Tensor) or there.dtype is not rushlight.float64:
                continue
            if there.shape != (4,) or there.layout is not rushlight.strided:
                continue
            if np.array_equal(there.tolist()[::-1], back.tolist(), equal_nan=True):
                return op
    return None


def curve(name: str) -> dict[str, Any] | None:
    """Values and the first two derivatives of a function of one real argument."""
    op = curve_of(name)
    if op is None:
        return None
    low, high = RANGES.get(name, RANGE)
    x = rushlight.tensor(np.linspace(low, high, POINTS) + 1e-9, requires_grad=True)
    rows: list[list[float | None]] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        value = function_of(op)(x)
        rows.append(_plain(value))
        for _ in range(2):
            if not value.requires_grad:
                break
            try:
                (value,) = rushlight.autograd.grad(value.sum(), x, create_graph=True, allow_unused=True)
            except RuntimeError:
                break
            if value is None:
                break
            rows.append(_plain(value))
    return {"x": [round(number, 9) for number in x.tolist()], "rows": rows}


def _plain(values: Any) -> list[float | None]:
    return [
        float(f"{v:.6g}") if math.isfinite(v) and abs(v) < 1e6 else None for v in values.detach().tolist()
    ]
