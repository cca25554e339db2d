"""Whether two results are close: `assert_close`.

For programs and their tests; nothing here needs the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import rushlight

__all__ = ["assert_close"]

# dtype -> (rtol, atol); exact dtypes are compared exactly
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class _Options:
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool
    allow_subclasses: bool


class _Mismatch(AssertionError):
    pass


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless tensors, numbers, or containers of them are equal up to tolerances.

    |actual - expected| <= atol + rtol * |expected|; the tolerances depend on the dtype if they are not given.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"rtol and atol are given together or not at all, but only "
            f"{'rtol' if atol is None else 'atol'} was"
        )
    options = _Options(
        rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses
    )
    try:
        _compare(actual, expected, options, "")
    except _Mismatch as error:
        text = str(error) if msg is None else msg(str(error)) if callable(msg) else msg
        raise AssertionError(text) from None


def _compare(actual: Any, expected: Any, options: _Options, where: str) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, extra = [k for k in expected if k not in actual], [k for k in actual if k not in expected]
        if missing or extra:
            raise _Mismatch(
                f"The keys of the mappings do not match: missing in the actual one {missing}, "
                f"additional in the actual one {extra}{_place(where)}"
            )
        for key in expected:
            _compare(actual[key], expected[key], options, f"{where}[{key!r}]")
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _Mismatch(
                f"The lengths of the sequences do not match: {len(actual)} != {len(expected)}{_place(where)}"
            )
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            _compare(one, other, options, f"{where}[{i}]")
    elif actual is None and expected is None:
        return
    else:
        _compare_values(*_as_tensors(actual, expected, options, where), options, where)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _place(where: str) -> str:
    return f"\n\nThe failure occurred for item {where}" if where else ""


def _as_tensors(actual: Any, expected: Any, options: _Options, where: str) -> tuple[Any, Any]:
    """Both as tensors, if they are a pair that can be compared."""
    Tensor = rushlight.Tensor
    if isinstance(actual, Tensor) and isinstance(expected, Tensor):
        if options.allow_subclasses or type(actual) is type(expected):
            return actual, expected
    elif isinstance(actual, np.ndarray) and isinstance(expected, np.ndarray):
        return rushlight.as_tensor(actual), rushlight.as_tensor(expected)
    elif _is_number(actual) and _is_number(expected):
        if options.check_dtype and type(actual) is not type(expected):
            raise _Mismatch(f"The types do not match: {type(actual)} != {type(expected)}{_place(where)}")
        common = np.result_type(*[np.asarray(v) for v in (actual, expected)])
        return tuple(rushlight.from_numpy(np.asarray(v, common)) for v in (actual, expected))  # type: ignore[return-value]
    raise TypeError(
        f"assert_close cannot compare a {type(actual).__name__} with a {type(expected).__name__}"
        f"{_place(where)}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | np.number | np.bool_)


def _compare_values(actual: Any, expected: Any, options: _Options, where: str) -> None:
    _compare_attribute("shape", tuple(actual.shape), tuple(expected.shape), where)
    if options.check_device:
        _compare_attribute("device", actual.device, expected.device, where)
    if options.check_layout:
        _compare_attribute("layout", actual.layout, expected.layout, where)
    if options.check_dtype:
        _compare_attribute("dtype", actual.dtype, expected.dtype, where)
    if options.check_stride:
        _compare_attribute("stride()", actual.stride(), expected.stride(), where)
    if actual.is_meta or expected.is_meta:
        return
    rtol, atol = _tolerances(actual.dtype, expected.dtype, options)
    ours, theirs = _array(actual), _array(expected)
    close = _close(ours, theirs, rtol, atol, options.equal_nan)
    if not np.all(close):
        raise _Mismatch(_report(ours, theirs, close, rtol, atol) + _place(where))


def _compare_attribute(name: str, actual: Any, expected: Any, where: str) -> None:
    if actual != expected:
        raise _Mismatch(
            f"The values for attribute {name!r} do not match: {actual} != {expected}{_place(where)}"
        )


def _tolerances(first: Any, second: Any, options: _Options) -> tuple[float, float]:
    if options.rtol is not None and options.atol is not None:
        return options.rtol, options.atol
    pairs = [TOLERANCES.get(dtype.name, (0.0, 0.0)) for dtype in (first, second)]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _array(tensor: Any) -> np.ndarray:
    dense = tensor.detach() if tensor.layout is rushlight.strided else tensor.detach().to_dense()
    array = np.asarray(dense.resolve_conj().resolve_neg().numpy_array())
    if dense.is_complex():
        return array.astype(np.complex128)
    if array.dtype.kind == "f" or dense.is_floating_point():
        return array.astype(np.float64)
    return array


def _close(actual: np.ndarray, expected: np.ndarray, rtol: float, atol: float, equal_nan: bool) -> np.ndarray:
    if rtol == atol == 0.0 and not equal_nan:
        return np.asarray(actual == expected)
    return np.asarray(np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _report(actual: np.ndarray, expected: np.ndarray, close: np.ndarray, rtol: float, atol: float) -> str:
    kind = "equal" if rtol == atol == 0.0 else "close"
    wide = np.complex128 if "c" in (actual.dtype.kind, expected.dtype.kind) else np.float64
    with np.errstate(all="ignore"):
        absolute = np.abs(actual.astype(wide) - expected.astype(wide))
        relative = absolute / np.abs(expected.astype(wide))
    absolute, relative = (np.where(close, 0.0, difference) for difference in (absolute, relative))
    allowed = {"absolute": atol, "relative": rtol}
    lines = []
    for name, difference in (("absolute", absolute), ("relative", relative)):
        place = np.unravel_index(int(np.argmax(difference)), difference.shape)
        limit = f" (up to {allowed[name]} allowed)" if kind == "close" else ""
        where = f" at index {tuple(map(int, place))}" if close.ndim else ""
        lines.append(f"Greatest {name} difference: {difference[place]}{where}{limit}")
    if close.ndim == 0:
        return f"Scalars are not {kind}!\n\nExpected {expected} but got {actual}.\n" + "\n".join(lines)
    wrong = int(close.size - np.count_nonzero(close))
    return (
        f"Tensor-likes are not {kind}!\n\nMismatched elements: {wrong} / {close.size} "
        f"({wrong / close.size:.1%})\n" + "\n".join(lines)
    )
