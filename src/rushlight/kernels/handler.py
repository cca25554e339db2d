"""The NumPy handler: runs a pointwise operator's scalar body on whole arrays.

A body asks its handler for every operation by name (`ops.add(x, y)`, `ops.exp(x)`). This class is therefore
also the list of scalar instructions that the compiler must be able to emit. All operands of one instruction
have the same dtype, except where its group says otherwise; a value is an ndarray or, for 0-d operands and
constants, a NumPy scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import BY_NUMPY, DType
from ..core.errors import check
from ..core.pointwise import install_handler, number
from ..core.powers import power_by_number
from .handler_special import SpecialInstructions


class NumpyHandler(SpecialInstructions):
    """Scalar instructions on ndarrays: ufuncs where NumPy has them, small functions otherwise."""

    # Constants and types. `dtype` is known when the body runs, so bodies may branch on it.

    @staticmethod
    def constant(value: Any, like: Any) -> Any:
        """The Python number `value` in the dtype of `like`."""
        return number(value, like.dtype)

    @staticmethod
    def cast(x: Any, dtype: DType) -> Any:
        """`x` converted to a rushlight dtype; floats are truncated to integers."""
        return x.astype(dtype.numpy)

    @staticmethod
    def dtype(x: Any) -> DType:
        return BY_NUMPY[x.dtype]

    # Arithmetic of integers (wrapping), floats and complex numbers; `add` and `mul` of bools are or and and.

    add, sub, mul, neg, abs = np.add, np.subtract, np.multiply, np.negative, np.abs
    div = np.true_divide  # of floats or complex numbers
    maximum, minimum = np.maximum, np.minimum  # NaN if either operand is
    fmax, fmin = np.fmax, np.fmin  # the operand that is not NaN
    gcd = np.gcd

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> Any:
        """x * y + z for floats, rounded once where a wider type makes that possible."""
        if x.dtype == np.float32:
            return (np.multiply(x, y, dtype=np.float64) + z).astype(np.float32)
        return x * y + z

    @staticmethod
    def floor_div(x: Any, y: Any) -> Any:
        """The quotient of integers or floats rounded down."""
        check_divisor(y)
        return np.floor_divide(x, y)

    @staticmethod
    def trunc_div(x: Any, y: Any) -> Any:
        """The quotient of integers or floats rounded towards zero."""
        if x.dtype.kind == "f":
            return np.trunc(np.true_divide(x, y))
        check_divisor(y)
        return np.floor_divide(np.subtract(x, np.fmod(x, y)), y)

    @staticmethod
    def remainder(x: Any, y: Any) -> Any:
        """x - y * floor_div(x, y): has the sign of y, or is a zero with that of x."""
        check_divisor(y)
        rest = np.remainder(x, y)
        if x.dtype.kind == "f" and (zero := np.equal(rest, 0)).any():  # where NumPy's has the sign of y
            return np.where(zero, np.copysign(rest, x), rest)
        return rest

    @staticmethod
    def fmod(x: Any, y: Any) -> Any:
        """x - y * trunc_div(x, y): has the sign of x."""
        check_divisor(y)
        return np.fmod(x, y)

    # Comparison gives bool, with any NaN unequal; logic takes any dtype and asks whether it is not zero.

    eq, ne, lt, le, gt, ge = np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal
    logical_and, logical_or = np.logical_and, np.logical_or
    logical_xor, logical_not = np.logical_xor, np.logical_not
    where = np.where  # a bool and two values of one dtype

    # Bits of integers and bools; a shift by the width or more, or by a negative number, shifts all out.

    bitwise_and, bitwise_or, bitwise_xor = np.bitwise_and, np.bitwise_or, np.bitwise_xor
    bitwise_not, bitwise_left_shift, bitwise_right_shift = np.invert, np.left_shift, np.right_shift

    # Rounding of floats; round takes ties to even.

    floor, ceil, trunc, round = np.floor, np.ceil, np.trunc, np.rint

    # The format of floats. frexp gives a mantissa and an int32 exponent.

    isnan, isinf, isfinite, signbit = np.isnan, np.isinf, np.isfinite, np.signbit
    copysign, nextafter, frexp = np.copysign, np.nextafter, np.frexp

    # Functions of floats and complex numbers, on their principal branch; atan2 and hypot of floats only.

    exp, expm1, log, log2, log10, log1p = np.exp, np.expm1, np.log, np.log2, np.log10, np.log1p
    sin, cos, tan, asin, acos, atan = np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan
    sinh, cosh, tanh, asinh, acosh, atanh = np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh
    sqrt, atan2, hypot = np.sqrt, np.arctan2, np.hypot

    @staticmethod
    def exp2(x: Any) -> Any:
        if x.dtype.kind != "c":
            return np.exp2(x)
        log2 = number(np.log(2), x.real.dtype)
        return np.exp(NumpyHandler.complex(x.real * log2, x.imag * log2))

    @staticmethod
    def pow(x: Any, y: Any) -> Any:
        """x to the power y; integers to a negative power are truncated: 0 unless x is 1 or -1."""
        if y.ndim == 0 and (x.dtype.kind != "c" or y == 2):
            simple = power_by_number(NumpyHandler, x, y.item(), floating=x.dtype.kind == "f")
            if simple is not None:
                return simple
        if y.dtype.kind == "i" and np.any(y < 0):
            truncated = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
            return np.where(y < 0, truncated, np.power(x, np.maximum(y, 0)))
        return np.power(x, y)

    # Complex numbers and their parts.

    real, imag, conj = np.real, np.imag, np.conjugate

    @staticmethod
    def complex(real: Any, imag: Any) -> Any:
        """The complex number of two floats."""
        result = np.empty(np.broadcast(real, imag).shape, np.result_type(real.dtype, np.complex64))
        result.real, result.imag = real, imag
        return result

    # Control.

    @staticmethod
    def iterate(count: Any, state: tuple[Any, ...], step: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        """`state` after `count` (an integer value) steps; `step(k, *state)` gets k in state[0]'s dtype."""
        kind = state[0].dtype.type
        for k in range(int(np.max(count, initial=0))):
            going_on = count > k
            after = step(kind(k), *state)
            state = tuple([np.where(going_on, new, old) for new, old in zip(after, state, strict=True)])
        return state


def check_divisor(y: Any) -> None:
    check(y.dtype.kind == "f" or np.all(y), "ZeroDivisionError: integer division or modulo by zero")


install_handler(NumpyHandler)
