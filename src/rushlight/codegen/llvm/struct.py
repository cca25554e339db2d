"""Structs: numbers and addresses by name, instead of by position.

    class MoveArgs(Struct):
        '''Copy rows of words.'''
        source: Ptr
        rows: I64

A struct is a layout, fields of 8 bytes each in the order they are written down. It is used in three ways: as the
parameters of a function (`function_type`, `of` its arguments, `values` for a call), as an array in memory
(`load`), and as an array of constants (`constant`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from ...core.errors import InternalError
from ...core.lazy import LazyModule
from .constants import literal
from .emitter import Emitter

ir = LazyModule("llvmlite.ir")

Ptr = Any  # an address
I64 = Any  # a number


class Struct:
    """A value for each field that a subclass annotates with `Ptr` or `I64`."""

    FIELDS: ClassVar[dict[str, str]] = {}  # the kind of each, "Ptr" or "I64", in order

    def __init_subclass__(cls) -> None:
        own: dict[str, str] = cls.__annotations__
        unknown = set(own.values()) - {"Ptr", "I64"}
        if unknown:
            raise InternalError(f"{cls.__name__}: a field is a Ptr or an I64, not {sorted(unknown)}")
        cls.FIELDS = {**cls.FIELDS, **own}

    def __init__(self, **values: Any) -> None:
        if values.keys() != self.FIELDS.keys():
            wrong = sorted(values.keys() ^ self.FIELDS.keys())
            raise InternalError(f"{type(self).__name__}: fields that are missing or unknown: {wrong}")
        self.__dict__.update(values)

    def values(self) -> list[Any]:
        """The values in the order of the fields."""
        return [getattr(self, name) for name in self.FIELDS]

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        """From values in the order of the fields, such as the arguments of a function."""
        return cls(**dict(zip(cls.FIELDS, values, strict=True)))

    @classmethod
    def function_type(cls) -> Any:
        """A function of the fields, without a result."""
        kinds = {"Ptr": ir.PointerType(), "I64": ir.IntType(64)}
        return ir.FunctionType(ir.VoidType(), [kinds[kind] for kind in cls.FIELDS.values()])

    @classmethod
    def load(cls, e: Emitter, pointer: Any) -> Self:
        """From an array in memory."""
        return cls.of(
            [
                e.load(e.address(pointer, i, e.i64), e.pointer if kind == "Ptr" else e.i64)
                for i, kind in enumerate(cls.FIELDS.values())
            ]
        )

    def constant(self, e: Emitter, name: str) -> Any:
        """The address of an array of constants in the module; all fields are numbers."""
        kind = ir.ArrayType(e.i64, len(self.FIELDS))
        table = ir.GlobalVariable(e.module, kind, name)
        table.linkage, table.global_constant = "internal", True
        table.initializer = ir.Constant(kind, self.values())
        return literal(e.pointer, table.get_reference())
