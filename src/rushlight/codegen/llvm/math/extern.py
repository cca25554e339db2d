"""Functions without vector code: SciPy's compiled ones, called lane by lane in double.

A module that uses one has an undefined symbol; `imports` gives the addresses to link it with. The functions
are those that scipy.special.cython_special exports for use from C: they hold no lock and touch no Python
object.
"""

from __future__ import annotations

import ctypes
import importlib
import math
from dataclasses import dataclass
from typing import Any

from ....core.lazy import LazyModule
from ..emitter import Emitter
from ..types import lanes_of
from .registry import function, in_double
from .trigonometric import sin

ir = LazyModule("llvmlite.ir")


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A C function of doubles: its result is returned, or is the first of several written to pointers."""

    name: str  # the instruction
    export: str  # its name among cython_special's exports
    signature: bytes  # as Cython writes it; checked before the address is used
    written: int = 0  # how many results are written to pointers

    @property
    def symbol(self) -> str:
        return f"rushlight_special_{self.name}"


_RETURNS = b"double (double, double, int __pyx_skip_dispatch)"
_WRITES = b"void (double, double *, double *, double *, double *)"
EXTERN: dict[str, LibraryFunction] = {
    extern.name: extern
    for extern in (
        LibraryFunction("igamma", "gammainc", _RETURNS),
        LibraryFunction("igammac", "gammaincc", _RETURNS),
        LibraryFunction("airy_ai", "__pyx_fuse_1airy", _WRITES, written=4),
    )
}


def _call(e: Emitter, extern: LibraryFunction, values: list[Any]) -> Any:
    if not extern.written:
        values = [*values, e.i32(0)]
        return e.call(e.declare(extern.symbol, e.double, [v.type for v in values]), values)
    slots = [e.local(e.double) for _ in range(extern.written)]
    arguments = [*values, *slots]
    e.call(e.declare(extern.symbol, ir.VoidType(), [v.type for v in arguments]), arguments)
    return e.load(slots[0], e.double)


def _lane_by_lane(extern: LibraryFunction) -> Any:
    def emit(e: Emitter, *values: Any) -> Any:
        lanes = range(lanes_of(values[0].type))
        return e.concatenate([_call(e, extern, [e.extract(v, lane) for v in values]) for lane in lanes])

    return emit


def _airy_ai(e: Emitter, x: Any) -> Any:
    """SciPy gives up beyond a million: 0 on the right, the leading oscillation on the left, as eager code has
    it."""
    distance = e.abs(x)
    far = e.and_(e.compare(">", distance, 1e6), e.compare("<", distance, float("inf")))
    phase = e.add(e.mul(e.mul(distance, 2 / 3), e.sqrt(distance)), math.pi / 4)
    wave = e.div(sin(e, phase), e.sqrt(e.mul(e.sqrt(distance), math.pi)))
    near = _lane_by_lane(EXTERN["airy_ai"])(e, e.select(far, 0.0, x))
    return e.select(far, e.select(e.compare(">", x, 0.0), 0.0, wave), near)


for _name in ("igamma", "igammac"):
    function(_name)(in_double(_lane_by_lane(EXTERN[_name])))
function("airy_ai")(in_double(_airy_ai))


def imports(module: Any) -> dict[str, int]:
    """Symbol and address of every extern function that an LLVM module (llvmlite.ir.Module) declares."""
    used = [extern for extern in EXTERN.values() if extern.symbol in module.globals]
    return {extern.symbol: _address(extern) for extern in used}


def import_address(symbol: str) -> int | None:
    """The address of an extern function by its symbol; None for any other symbol."""
    extern = next((e for e in EXTERN.values() if e.symbol == symbol), None)
    return None if extern is None else _address(extern)


def _address(extern: LibraryFunction) -> int:
    exports = importlib.import_module("scipy.special.cython_special").__pyx_capi__
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = exports[extern.export]
    address = api.PyCapsule_GetPointer(capsule, extern.signature)  # raises if the signature differs
    return int(address or 0)
