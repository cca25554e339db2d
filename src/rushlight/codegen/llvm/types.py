"""LLVM types as the emitter sees them: an element type and a number of lanes, where one lane is a scalar.

Integer types have no sign in LLVM; where it matters, an operation takes `signed`. A bool is an i1 in
registers and an i8 in memory; a bfloat16 is an i16 in memory and a float in registers.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule

ir = LazyModule("llvmlite.ir")

_FLOAT_BITS = {"half": 16, "float": 32, "double": 64}
MANTISSA_BITS = {16: 10, 32: 23, 64: 52}
_vectors: dict[tuple[str, int], Any] = {}
EXPONENT_BIAS = {16: 15, 32: 127, 64: 1023}


def lanes_of(kind: Any) -> int:
    return kind.count if isinstance(kind, ir.VectorType) else 1


def element_of(kind: Any) -> Any:
    return kind.element if isinstance(kind, ir.VectorType) else kind


def vector(element: Any, lanes: int) -> Any:
    """The type of `lanes` values of `element`."""
    if lanes == 1:
        return element
    key = (str(element), lanes)
    found = _vectors.get(key)
    if found is None:  # one of each, which remembers its text
        found = _vectors[key] = ir.VectorType(element, lanes)
    return found


def like(kind: Any, element: Any) -> Any:
    """The type with the lanes of `kind` and another element."""
    return vector(element, lanes_of(kind))


def is_float(kind: Any) -> bool:
    return str(element_of(kind)) in _FLOAT_BITS


def is_bool(kind: Any) -> bool:
    element = element_of(kind)
    return isinstance(element, ir.IntType) and element.width == 1


def is_pointer(kind: Any) -> bool:
    return isinstance(element_of(kind), ir.PointerType)


def bits_of(kind: Any) -> int:
    """The width of one element in bits; pointers count as 64."""
    element = element_of(kind)
    if isinstance(element, ir.IntType):
        return int(element.width)
    return _FLOAT_BITS.get(str(element), 64)


def integer_like(kind: Any) -> Any:
    """Integers of the width and lanes of `kind`."""
    return like(kind, ir.IntType(bits_of(kind)))


def bool_like(kind: Any) -> Any:
    return like(kind, ir.IntType(1))


def mangle(kind: Any) -> str:
    """How an overloaded intrinsic's name spells a type: v8f32, i64, p0."""
    element = element_of(kind)
    if is_pointer(kind):
        text = f"p{element.addrspace}"
    else:
        text = f"{'f' if is_float(kind) else 'i'}{bits_of(kind)}"
    return f"v{kind.count}{text}" if isinstance(kind, ir.VectorType) else text


class Callee:
    """A function pointer with its type, in the form that llvmlite's `call` wants."""

    def __init__(self, pointer: Any, function_type: Any) -> None:
        self._pointer = pointer
        self.function_type = self.ftype = function_type
        self.type = pointer.type
        self.attributes = ()
        self.args = ()
        self.name = pointer.name

    def get_reference(self) -> str:
        return str(self._pointer.get_reference())
