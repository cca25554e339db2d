"""Are two outcomes the same? Structure, dtype and shape exactly; values within the dtype's tolerance.

The closeness rule is torch.testing.assert_close's: |actual - expected| <= atol + rtol * |expected|, equal
infinities, and NaN where NaN is expected. Tolerances are its defaults per dtype unless the caller knows
better (see `tables`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .outcome import Items, TensorOutcome, Token


class Mismatch(AssertionError):
    """The two sides differ; the message says where and how."""


@dataclass(frozen=True)
class Tolerance:
    rtol: float
    atol: float

    def at_least(self, other: Tolerance | None) -> Tolerance:
        """The looser of the two, in each part."""
        if other is None:
            return self
        return Tolerance(max(self.rtol, other.rtol), max(self.atol, other.atol))


EXACT = Tolerance(0.0, 0.0)
# torch.testing.assert_close's defaults
DEFAULT_TOLERANCES = {
    "float16": Tolerance(1e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
    "float32": Tolerance(1.3e-6, 1e-5),
    "float64": Tolerance(1e-7, 1e-7),
    "complex32": Tolerance(1e-3, 1e-5),
    "complex64": Tolerance(1.3e-6, 1e-5),
    "complex128": Tolerance(1e-7, 1e-7),
}


@dataclass(frozen=True)
class Comparison:
    """How to compare: the loosening per dtype, and whether values count at all."""

    overrides: dict[str, Tolerance]
    values: bool = True
    device: str | None = None  # the device the actual tensors must be on, if that is checked

    def tolerance(self, dtype: str) -> Tolerance:
        return DEFAULT_TOLERANCES.get(dtype, EXACT).at_least(self.overrides.get(dtype))


STRICT = Comparison({})


def compare(actual: Any, expected: Any, how: Comparison = STRICT, where: str = "result") -> None:
    """Raise Mismatch unless `actual` is what was `expected`."""
    if isinstance(expected, TensorOutcome):
        _compare_tensors(actual, expected, how, where)
    elif isinstance(expected, Items):
        _compare_items(actual, expected, how, where)
    elif isinstance(expected, dict):
        if not isinstance(actual, dict) or actual.keys() != expected.keys():
            raise Mismatch(f"{where}: expected a dict with keys {sorted(expected)}, got {_kind(actual)}")
        for key, item in expected.items():
            compare(actual[key], item, how, f"{where}[{key!r}]")
    else:
        _compare_python(actual, expected, how, where)


def stride_differences(actual: Any, expected: Any) -> int:
    """How many tensors have other strides than expected, counting only dimensions where a stride matters."""
    if isinstance(expected, TensorOutcome) and isinstance(actual, TensorOutcome):
        if None in (actual.stride, expected.stride) or 0 in expected.shape or actual.shape != expected.shape:
            return 0
        pairs = zip(actual.stride or (), expected.stride or (), expected.shape, strict=True)
        return int(any(a != e for a, e, extent in pairs if extent > 1))
    if isinstance(expected, Items) and isinstance(actual, Items):
        return sum(stride_differences(a, e) for a, e in zip(actual.items, expected.items, strict=False))
    return 0


def _compare_tensors(actual: Any, expected: TensorOutcome, how: Comparison, where: str) -> None:
    if not isinstance(actual, TensorOutcome):
        raise Mismatch(f"{where}: expected a tensor {_brief(expected)}, got {_kind(actual)}")
    if actual.dtype != expected.dtype:
        raise Mismatch(f"{where}: dtype is {actual.dtype}, expected {expected.dtype}")
    if actual.shape != expected.shape:
        raise Mismatch(f"{where}: shape is {actual.shape}, expected {expected.shape}")
    if actual.layout != expected.layout:
        raise Mismatch(f"{where}: layout is {actual.layout}, expected {expected.layout}")
    if how.device is not None and actual.device != how.device:
        raise Mismatch(f"{where}: device is {actual.device}, expected {how.device}")
    if how.values and actual.array is not None and expected.array is not None:
        _compare_arrays(actual.array, expected.array, how.tolerance(expected.dtype), where)


def _compare_items(actual: Any, expected: Items, how: Comparison, where: str) -> None:
    if not isinstance(actual, Items):
        raise Mismatch(f"{where}: expected a {expected.kind} of {len(expected.items)}, got {_kind(actual)}")
    if actual.kind != expected.kind or actual.fields != expected.fields:
        raise Mismatch(f"{where}: expected {_items_kind(expected)}, got {_items_kind(actual)}")
    if len(actual.items) != len(expected.items):
        raise Mismatch(f"{where}: expected {len(expected.items)} items, got {len(actual.items)}")
    for i, (a, e) in enumerate(zip(actual.items, expected.items, strict=True)):
        compare(a, e, how, f"{where}.{expected.fields[i]}" if expected.fields else f"{where}[{i}]")


def _compare_python(actual: Any, expected: Any, how: Comparison, where: str) -> None:
    if type(actual) is not type(expected):
        raise Mismatch(
            f"{where}: expected {_kind(expected)} {_text(expected)}, got {_kind(actual)} {_text(actual)}"
        )
    if not how.values and not isinstance(expected, Token):
        return
    if isinstance(expected, float | complex):
        dtype = "float64" if isinstance(expected, float) else "complex128"
        _compare_arrays(np.asarray(actual), np.asarray(expected), how.tolerance(dtype), where)
    elif actual != expected:
        raise Mismatch(f"{where}: is {_text(actual)}, expected {_text(expected)}")


def _compare_arrays(actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance, where: str) -> None:
    if expected.dtype.kind in "biu":
        if np.array_equal(actual, expected):
            return
        close = actual == expected
    else:
        if actual.dtype == expected.dtype and actual.tobytes() == expected.tobytes():
            return
        actual, expected = _widen(actual), _widen(expected)
        close = _close(actual, expected, tolerance)
        if close.all():
            return
    raise Mismatch(f"{where}: {_worst(actual, expected, close, tolerance)}")


def _widen(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _close(actual: np.ndarray, expected: np.ndarray, tolerance: Tolerance) -> np.ndarray:
    with np.errstate(all="ignore"):
        distance = np.abs(actual - expected)
        near = distance <= tolerance.atol + tolerance.rtol * np.abs(expected)
        finite = np.isfinite(actual) & np.isfinite(expected)
        return (actual == expected) | (near & finite) | (np.isnan(actual) & np.isnan(expected))


def _worst(actual: np.ndarray, expected: np.ndarray, close: np.ndarray, tolerance: Tolerance) -> str:
    """One line: how many elements differ, and the one that differs most."""
    wrong = np.argwhere(~np.atleast_1d(close))
    flat_a, flat_e = np.atleast_1d(actual), np.atleast_1d(expected)
    with np.errstate(all="ignore"):
        if actual.dtype.kind == "b":
            gaps = np.ones(len(wrong))
        else:
            gaps = np.array(
                [abs(complex(flat_a[tuple(i)]) - complex(flat_e[tuple(i)])) for i in wrong[:1000]]
            )
    gaps = np.where(np.isnan(gaps), np.inf, gaps)
    at = tuple(int(i) for i in wrong[int(np.argmax(gaps))])
    index = list(at) if actual.ndim else "()"
    bound = "" if tolerance == EXACT else f" (rtol {tolerance.rtol:g}, atol {tolerance.atol:g})"
    return (
        f"{len(wrong)} of {flat_e.size} values differ{bound}; the worst, at {index}, is {flat_a[at]}, "
        f"expected {flat_e[at]}"
    )


def _brief(tensor: TensorOutcome) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def _items_kind(items: Items) -> str:
    return (
        f"named tuple ({', '.join(items.fields)})" if items.fields else f"{items.kind} of {len(items.items)}"
    )


def _kind(value: Any) -> str:
    if isinstance(value, TensorOutcome):
        return f"tensor {_brief(value)}"
    if isinstance(value, Items):
        return _items_kind(value)
    return "None" if value is None else type(value).__name__


def _text(value: Any) -> str:
    if isinstance(value, TensorOutcome | Items) or value is None:
        return ""
    text = value.name if isinstance(value, Token) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
