"""Elementwise operators in terms of simpler ones, and their second names."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, Category, DType, get_default_dtype
from ..core.errors import check
from ..core.promotion import common
from ..core.registry import EXACT_OUT, FUNCTION, INPLACE, INPLACE_METHOD, INTERNAL, METHOD, OUT, composite
from ..core.tensor import Tensor
from .aliases import alias

BINARY = FUNCTION | METHOD | INPLACE_METHOD | OUT

for _target, _name in {
    "abs": "absolute",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "clamp": "clip",
    "div": "divide",
    "mul": "multiply",
    "neg": "negative",
    "sub": "subtract",
    "trunc": "fix",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}.items():
    alias(_target, _name, api=BINARY if _name == "absolute" else None)
alias("div", "true_divide", overloads={"Tensor": "Tensor", "Scalar": "Scalar"})
alias("maximum", "max", overloads={"": "other"})
alias("minimum", "min", overloads={"": "other"})
for _name in ("and", "or", "xor"):
    alias(
        f"bitwise_{_name}", f"__{_name}__", api=INTERNAL, overloads={"Tensor": "Tensor", "Scalar": "Scalar"}
    )
alias(
    "bitwise_left_shift",
    "__lshift__",
    api=INTERNAL,
    overloads={"Tensor": "Tensor", "Tensor_Scalar": "Scalar"},
)
alias(
    "bitwise_right_shift",
    "__rshift__",
    api=INTERNAL,
    overloads={"Tensor": "Tensor", "Tensor_Scalar": "Scalar"},
)


@composite("square(Tensor self) -> Tensor", api=FUNCTION | METHOD | INPLACE | OUT)
def square(self: Tensor) -> Tensor:
    return run_name("pow.Tensor_Scalar", self, 2)


@composite("positive(Tensor(a) self) -> Tensor(a)")
def positive(self: Tensor) -> Tensor:
    check(self.dtype.category is not Category.BOOL, "The `+` operator, on a bool tensor is not supported.")
    return self


@composite("conj_physical(Tensor self) -> Tensor", api=FUNCTION | METHOD | INPLACE | OUT)
def conj_physical(self: Tensor) -> Tensor:
    return run_name("_conj_physical", self) if self.dtype.is_complex else self


@composite("ldexp.Tensor(Tensor self, Tensor other) -> Tensor", api=FUNCTION | METHOD | INPLACE | OUT)
def ldexp(self: Tensor, other: Tensor) -> Tensor:
    return self * run_name("pow.Scalar", 2.0, other)


# float_power computes in double precision whatever it is given.

POWER = FUNCTION | METHOD | INPLACE_METHOD | EXACT_OUT


def _double(*operands: Any) -> DType:
    complex_ = any(o.dtype.is_complex if isinstance(o, Tensor) else isinstance(o, complex) for o in operands)
    return DTYPES["complex128" if complex_ else "float64"]


def _inexact(number: Any) -> Any:
    return number if isinstance(number, complex) else float(number)


@composite("float_power.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", api=POWER)
def float_power(self: Tensor, exponent: Tensor) -> Tensor:
    dtype = _double(self, exponent)
    return run_name("pow.Tensor_Tensor", self.to(dtype), exponent.to(dtype))


@composite("float_power.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", api=POWER)
def float_power_scalar(self: Tensor, exponent: Any) -> Tensor:
    dtype = _double(self, exponent)
    return run_name("pow.Tensor_Scalar", self.to(dtype), _inexact(exponent))


@composite("float_power.Scalar(Scalar self, Tensor exponent) -> Tensor", api=FUNCTION | EXACT_OUT)
def float_power_of_number(self: Any, exponent: Tensor) -> Tensor:
    dtype = _double(self, exponent)
    return run_name("pow.Scalar", _inexact(self), exponent.to(dtype))


# Numbers in the place of the first tensor: add(1, x). ATen has no such overloads; PyTorch's Python front end
# wraps the number.


def _number_first(name: str, *settings: str) -> None:
    schema = ", ".join(["Scalar self, Tensor other", *(["*", *settings] if settings else [])])
    target = "floor_divide" if name == "floor_divide" else f"{name}.Tensor"

    if settings:

        @composite(f"{name}.Scalar_Tensor({schema}) -> Tensor", api=FUNCTION | OUT)
        def with_alpha(self: Any, other: Tensor, alpha: Any) -> Tensor:
            return run_name(target, _as_tensor(self, other), other, alpha)
    else:

        @composite(f"{name}.Scalar_Tensor({schema}) -> Tensor", api=FUNCTION | OUT)
        def plain(self: Any, other: Tensor) -> Tensor:
            return run_name(target, _as_tensor(self, other), other)


def _as_tensor(number: Any, other: Tensor) -> Tensor:
    """A 0-d tensor of the dtype in which `number` meets `other`."""
    dtype = common([(other.dtype, other.ndim == 0), number])
    return run_name("scalar_tensor", number, dtype, None, other.device, None)


_number_first("add", "Scalar alpha=1")
_number_first("sub", "Scalar alpha=1")
_number_first("subtract", "Scalar alpha=1")
for _name in ("mul", "multiply", "div", "divide", "true_divide", "floor_divide"):
    _number_first(_name)


# Questions about whole tensors.


@composite("where(Tensor condition) -> Tensor[]", api=FUNCTION)
def where(condition: Tensor) -> tuple[Tensor, ...]:
    return run_name("nonzero_numpy", condition)


TOLERANCES = "float rtol=1e-05, float atol=1e-08, bool equal_nan=False"


@composite(f"isclose(Tensor self, Tensor other, {TOLERANCES}) -> Tensor")
def isclose(self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> Tensor:
    check(
        self.dtype is other.dtype,
        f"isclose: the tensors must have one dtype, but {self.dtype.name} did not match {other.dtype.name}",
    )
    check(rtol >= 0, f"isclose: rtol must be greater than or equal to zero, but got {rtol}")
    check(atol >= 0, f"isclose: atol must be greater than or equal to zero, but got {atol}")
    close = self == other
    if equal_nan and self.dtype.category >= Category.FLOATING:
        close = close | (self.isnan() & other.isnan())
    if rtol == 0 and atol == 0:
        return close
    if self.dtype.category <= Category.INTEGRAL:
        self, other = self.to(get_default_dtype()), other.to(get_default_dtype())
    allowed = (other * rtol).abs() + atol
    error = (self - other).abs()
    return close | (error.isfinite() & (error <= allowed))


@composite(f"allclose(Tensor self, Tensor other, {TOLERANCES}) -> bool")
def allclose(self: Tensor, other: Tensor, rtol: float, atol: float, equal_nan: bool) -> bool:
    close: bool = run_name("isclose", self, other, rtol, atol, equal_nan).all().item()
    return close


@composite("equal(Tensor self, Tensor other) -> bool")
def equal(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape and (self == other).all().item()


@composite("is_nonzero(Tensor self) -> bool")
def is_nonzero(self: Tensor) -> bool:
    count = self.numel()
    values = "no values" if count == 0 else "more than one value"
    check(count == 1, f"Boolean value of Tensor with {values} is ambiguous")
    return bool(self.item() != 0)


composite("item(Tensor self) -> Scalar", "_local_scalar_dense(Tensor self) -> Scalar", api=INTERNAL)(
    lambda self: self.item()
)
composite("is_complex(Tensor self) -> bool", api=INTERNAL)(lambda self: self.dtype.is_complex)


@composite("is_same_size(Tensor self, Tensor other) -> bool")
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape
