"""The emitter: typed helpers over llvmlite's builder, for any number of lanes; one lane is a scalar.

In:  an IRBuilder and the Target that is compiled for. Values are llvmlite values (float, double, half, iN,
     i1, ptr, or vectors of these); where an operand may be a Python number, it takes the type of the value
     beside it.
Out: instructions at the builder's position.

Nothing here has fast-math flags unless the caller passes them (`REDUCTION_FLAGS`), and no method depends on
the order of lanes except those that say so. The parts are in constants.py, arithmetic.py, conversion.py,
memory.py and control.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.lazy import LazyModule
from .arithmetic import REDUCTION_FLAGS
from .constants import literal
from .control import Control
from .memory import Memory

ir = LazyModule("llvmlite.ir")

__all__ = ["REDUCTION_FLAGS", "Emitter"]


class Emitter(Control, Memory):
    """Everything that a code generator says to LLVM."""

    def function(self, name: str, result: Any, arguments: Sequence[Any], body: Callable[..., Any]) -> Any:
        """An internal function that is never inlined, defined once a module: for paths that are rarely taken.

        `body(emitter, *arguments)` gives the result.
        """
        found = self.module.globals.get(name)
        if found is None:
            found = ir.Function(self.module, ir.FunctionType(result, list(arguments)), name)
            found.linkage = "internal"
            for attribute in ("noinline", "nounwind", "cold", "optnone"):  # quick to compile, not to run
                found.attributes.add(attribute)
            inner = Emitter(ir.IRBuilder(found.append_basic_block("entry")), self.target)
            inner.builder.ret(body(inner, *found.args))
        return found

    def call(self, function: Any, arguments: Sequence[Any]) -> Any:
        return self.builder.call(function, arguments)

    def table(self, name: str, data: bytes) -> Any:
        """The address of constant bytes, defined once a module."""
        found = self.module.globals.get(name)
        if found is None:
            kind = ir.ArrayType(self.i8, len(data))
            found = ir.GlobalVariable(self.module, kind, name)
            found.linkage = "internal"
            found.global_constant = True
            found.initializer = ir.Constant(kind, bytearray(data))
            found.align = 16
        return literal(self.pointer, found.get_reference())
