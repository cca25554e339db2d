"""Element types, type promotion and the default dtype.

In:  dtype names, NumPy dtypes, Python scalars.
Out: `DType` singletons and the dtype that an operation on a mix of them computes in.

Invariants
- There is exactly one `DType` object per name; `is` and `==` mean the same, and pickling or copying returns
  the same object.
- `promote_types` is symmetric, idempotent and a lookup in a table built once at import.
- The only state of this module is the process-wide default dtype (float32 at start), as in PyTorch.

Python's own `bool`, `int` and `float` keep their meaning inside this module; the attributes `dtypes.bool`,
`dtypes.int`, `dtypes.float`, `dtypes.half`, ... are served by the module's `__getattr__`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

from .shown_name import SHOWN


class Category(enum.IntEnum):
    """Promotion categories, from weakest to strongest."""

    BOOL = 0
    INTEGRAL = 1
    FLOATING = 2
    COMPLEX = 3
    QUANTIZED = 4  # takes no part in promotion


class DType:
    """An element type. Immutable, one object per type, compared by identity.

    name                `float32`; the attribute of the package under which it is found
    torch_name          `Float`; the spelling PyTorch uses in error messages
    numpy               the np.dtype of arrays that hold it
    category            its `Category`
    itemsize            bytes per element
    is_floating_point   True for real floating types only
    is_complex          True for complex types
    is_differentiable   True for floating and complex types: those that can require grad
    is_signed           True where negative values exist
    is_quantized        True for qint8, quint8 and qint32: integers that stand for points of a grid
    opmath              the dtype arithmetic runs in: float32 for the 8 and 16 bit floats, complex64 for
                        complex32, else itself

    >>> rl.tensor([1, 2]).dtype.itemsize
    8
    """

    __slots__ = (
        "category",
        "is_complex",
        "is_differentiable",
        "is_floating_point",
        "is_quantized",
        "is_signed",
        "itemsize",
        "name",
        "numpy",
        "opmath",
        "torch_name",
    )

    name: str
    torch_name: str
    numpy: np.dtype[Any]
    category: Category
    itemsize: int
    is_floating_point: bool
    is_complex: bool
    is_differentiable: bool
    is_signed: bool
    is_quantized: bool
    opmath: DType

    def __init__(
        self,
        name: str,
        torch_name: str,
        numpy: np.dtype[Any],
        category: Category,
        signed: bool,
        opmath: DType | None = None,
    ) -> None:
        def put(field: str, value: object) -> None:
            object.__setattr__(self, field, value)

        put("name", name)
        put("torch_name", torch_name)
        put("numpy", numpy)
        put("category", category)
        put("itemsize", numpy.itemsize)
        put("is_floating_point", category is Category.FLOATING)
        put("is_complex", category is Category.COMPLEX)
        put("is_differentiable", category in (Category.FLOATING, Category.COMPLEX))
        put("is_signed", signed)
        put("is_quantized", category is Category.QUANTIZED)
        put("opmath", self if opmath is None else opmath)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable; cannot delete {name!r}")

    def to_real(self) -> DType:
        """The real type of the same precision; itself unless complex."""
        return _REAL.get(self, self)

    def to_complex(self) -> DType:
        """The complex type whose parts hold this type; RuntimeError for bool, integers and float8."""
        result = _COMPLEX.get(self)
        if result is None:
            raise RuntimeError(
                f"to_complex: {self.name} has no complex counterpart; convert to float32 or float64 first"
            )
        return result

    def __repr__(self) -> str:
        return f"{SHOWN.package}.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (dtype_named, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self


class QuantizedDType(DType):
    """Integers that stand for points of a grid: whether they have a sign is a question to the grid."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name == "is_signed":
            raise RuntimeError(
                f"is_signed: not supported for quantized types, such as {self.name}; "
                "int_repr() has integers of a plain dtype"
            )
        return object.__getattribute__(self, name)


def _float(name: str, torch_name: str, scalar: Any, opmath: DType | None = None) -> DType:
    return DType(name, torch_name, np.dtype(scalar), Category.FLOATING, True, opmath)


def _float8(kind: str, signed: bool = True) -> DType:
    return DType(
        f"float8_{kind}",
        f"Float8_{kind}",
        np.dtype(getattr(ml_dtypes, f"float8_{kind}")),
        Category.FLOATING,
        signed,
        float32,
    )


def _integer(name: str, torch_name: str) -> DType:
    return DType(name, torch_name, np.dtype(name), Category.INTEGRAL, not name.startswith("u"))


bool_ = DType("bool", "Bool", np.dtype(np.bool_), Category.BOOL, False)
uint8 = _integer("uint8", "Byte")
uint16 = _integer("uint16", "UInt16")
uint32 = _integer("uint32", "UInt32")
uint64 = _integer("uint64", "UInt64")
int8 = _integer("int8", "Char")
int16 = _integer("int16", "Short")
int32 = _integer("int32", "Int")
int64 = _integer("int64", "Long")
float32 = _float("float32", "Float", np.float32)
float64 = _float("float64", "Double", np.float64)
float16 = _float("float16", "Half", np.float16, float32)
bfloat16 = _float("bfloat16", "BFloat16", ml_dtypes.bfloat16, float32)
float8_e4m3fn = _float8("e4m3fn")
float8_e5m2 = _float8("e5m2")
float8_e4m3fnuz = _float8("e4m3fnuz")
float8_e5m2fnuz = _float8("e5m2fnuz")
float8_e8m0fnu = _float8("e8m0fnu", signed=False)  # powers of two
complex64 = DType("complex64", "ComplexFloat", np.dtype(np.complex64), Category.COMPLEX, True)
complex128 = DType("complex128", "ComplexDouble", np.dtype(np.complex128), Category.COMPLEX, True)
complex32 = DType(
    "complex32", "ComplexHalf", np.dtype(ml_dtypes.complex32), Category.COMPLEX, True, complex64
)

# Not among DTYPES: arrays of their integers are those of int8, uint8 and int32, and no operator computes in
# them (core/quantized.py).
qint8 = QuantizedDType("qint8", "QInt8", np.dtype(np.int8), Category.QUANTIZED, True)
quint8 = QuantizedDType("quint8", "QUInt8", np.dtype(np.uint8), Category.QUANTIZED, False)
qint32 = QuantizedDType("qint32", "QInt32", np.dtype(np.int32), Category.QUANTIZED, True)
# Several numbers in a byte: names of storages and files; no tensor is made of them.
quint4x2 = QuantizedDType("quint4x2", "QUInt4x2", np.dtype(np.uint8), Category.QUANTIZED, False)
quint2x4 = QuantizedDType("quint2x4", "QUInt2x4", np.dtype(np.uint8), Category.QUANTIZED, False)
QUANTIZED: dict[str, DType] = {dtype.name: dtype for dtype in (qint8, quint8, qint32, quint4x2, quint2x4)}

_REAL = {complex32: float16, complex64: float32, complex128: float64}
_COMPLEX = {
    float16: complex32,
    bfloat16: complex64,
    float32: complex64,
    float64: complex128,
    complex32: complex32,
    complex64: complex64,
    complex128: complex128,
}

DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        bool_,
        uint8,
        uint16,
        uint32,
        uint64,
        int8,
        int16,
        int32,
        int64,
        float16,
        bfloat16,
        float32,
        float64,
        complex32,
        complex64,
        complex128,
        float8_e4m3fn,
        float8_e5m2,
        float8_e4m3fnuz,
        float8_e5m2fnuz,
        float8_e8m0fnu,
    )
}

ALIASES: dict[str, DType] = {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "chalf": complex32,
    "cfloat": complex64,
    "cdouble": complex128,
}

BY_NUMPY: dict[np.dtype[Any], DType] = {dtype.numpy: dtype for dtype in DTYPES.values()}


def __getattr__(name: str) -> DType:
    found = bool_ if name == "bool" else ALIASES.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found


def dtype_named(name: str) -> DType:
    """The dtype called `name`, aliases included; KeyError for an unknown name."""
    found = DTYPES.get(name) or QUANTIZED.get(name)
    return ALIASES[name] if found is None else found


def from_numpy(dtype: Any) -> DType:
    """The dtype of arrays of NumPy dtype `dtype` (anything np.dtype accepts).

    TypeError where there is none (object, str, datetime64, ...); ValueError for a foreign byte order.
    """
    if not isinstance(dtype, np.dtype):
        dtype = np.dtype(dtype)
    found = BY_NUMPY.get(dtype)
    if found is not None:
        return found
    if not dtype.isnative and dtype.newbyteorder("=") in BY_NUMPY:
        raise ValueError(
            f"cannot use an array of dtype {dtype.str}: its byte order is not the machine's; "
            "convert it with array.astype(array.dtype.newbyteorder('='))"
        )
    raise TypeError(f"cannot use an array of NumPy dtype {dtype}; supported are {', '.join(DTYPES)}")


# --- promotion ------------------------------------------------------------------------------------

_FLOAT8 = frozenset(dtype for dtype in DTYPES.values() if dtype.is_floating_point and dtype.itemsize == 1)


def scalar_dtype(value: object) -> DType:
    """The dtype a Python (or NumPy) scalar takes part in promotion with.

    bool -> bool, int -> int64, float -> the default dtype, complex -> the complex type of the default dtype.
    """
    found = _SCALARS.get(type(value))
    return _scalar_dtype_of_subclass(value) if found is None else found


def _scalar_dtype_of_subclass(value: object) -> DType:
    if isinstance(value, np.generic):
        category = from_numpy(value.dtype).category
        return _SCALARS[(bool, int, float, complex)[category]]
    for kind in (bool, int, float, complex):
        if isinstance(value, kind):
            return _SCALARS[kind]
    raise TypeError(f"expected a number (bool, int, float or complex), got {type(value).__name__}")


# --- default dtype --------------------------------------------------------------------------------

_default: DType = float32
_SCALARS: dict[type, DType] = {bool: bool_, int: int64, float: float32, complex: complex64}
_on_default_change: list[Callable[[], None]] = []


def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats.

    >>> rl.get_default_dtype()
    rushlight.float32
    """
    return _default


def set_default_dtype(d: DType) -> None:
    """Makes `d` (float16, bfloat16, float32 or float64) the default; TypeError for anything else.

    >>> rl.set_default_dtype(rl.float64)
    >>> rl.tensor(1.0).dtype
    rushlight.float64
    >>> rl.set_default_dtype(rl.float32)
    """
    global _default
    if not isinstance(d, DType) or not d.is_floating_point or d in _FLOAT8:
        raise TypeError(
            "set_default_dtype: only float16, bfloat16, float32 and float64 can be the default "
            f"dtype, got {d!r}"
        )
    _default = d
    _SCALARS[float] = d
    _SCALARS[complex] = d.to_complex()
    for listener in _on_default_change:
        listener()


def on_default_change(listener: Callable[[], None]) -> None:
    """Call `listener` whenever the default dtype changes, to drop what was derived from the old one."""
    _on_default_change.append(listener)


# --- limits ---------------------------------------------------------------------------------------

# Explicit mantissa bits, exponent of the smallest normal number, largest finite number.
_FLOAT_FORMATS: dict[DType, tuple[int, int, float]] = {
    float8_e4m3fn: (3, -6, 448.0),
    float8_e5m2: (2, -14, 57344.0),
    float8_e4m3fnuz: (3, -7, 240.0),
    float8_e5m2fnuz: (2, -15, 57344.0),
    float8_e8m0fnu: (0, -127, 2.0**127),
    float16: (10, -14, 65504.0),
    bfloat16: (7, -126, (2 - 2.0**-7) * 2.0**127),
    float32: (23, -126, (2 - 2.0**-23) * 2.0**127),
    float64: (52, -1022, (2 - 2.0**-52) * 2.0**1023),
}


class _Info:
    __slots__ = ("bits", "dtype")

    bits: int
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Info) and type(self) is type(other) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.dtype))


class finfo(_Info):
    """Limits of a floating type, or of the parts of a complex one; of the default dtype if none is given.

    >>> rl.finfo(rl.float16).max
    65504.0
    """

    __slots__ = ("eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: DType | None = None) -> None:
        real = (_default if type is None else type).to_real()
        if real not in _FLOAT_FORMATS:
            raise TypeError(
                f"finfo: requires a floating point or complex dtype, got {type!r}; use iinfo for integers"
            )
        mantissa, exponent, largest = _FLOAT_FORMATS[real]
        self.bits = real.itemsize * 8
        self.dtype = real.name
        self.eps = 2.0**-mantissa if real is not float8_e5m2fnuz else 0.125  # as PyTorch tells it
        self.max = largest
        self.min = -largest if real.is_signed else 2.0**exponent
        self.smallest_normal = self.tiny = 2.0**exponent
        self.resolution = float(f"1e-{math.floor(mantissa * math.log10(2))}")

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo(_Info):
    """Limits of an integer type.

    >>> rl.iinfo(rl.int8).min
    -128
    """

    __slots__ = ("max", "min")

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType) or not (type.category is Category.INTEGRAL or type.is_quantized):
            raise TypeError(f"iinfo: requires an integer dtype, got {type!r}; use finfo for floating point")
        self.bits = type.itemsize * 8
        self.dtype = type.name
        signed = type.numpy.kind == "i"
        self.min = -(1 << (self.bits - 1)) if signed else 0
        self.max = (1 << (self.bits - signed)) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
