"""Structs: numbers and addresses by name, instead of by position.

    class Source(Struct):
        '''Where an argument is found.'''
        which: I64
        constant: Ptr

A struct is a layout: fields in the order they are written down, where C would put them. It is used in four ways:

- as values: the parameters of a function (`function_type`, `of` its arguments, `values` for a call), or loaded
  from memory all at once (`load`);
- in memory: `Source.at(e, pointer)` stands for the one at an address: `source.which` loads a field,
  `source.address_of("which")` is where it lies, `source.put(which=x)` stores;
- as words of a table that Python fills: `Source.words(which=0, constant=id(x))`;
- as numbers of bytes: `offset_of`, `byte_count`, `word_count`.

Where all fields are given they are given by name, and one that is missing or unknown raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

from ...core.errors import InternalError
from ...core.lazy import LazyModule
from .emitter import Emitter
from .memory import CACHE_LINE

ir = LazyModule("llvmlite.ir")

# In annotations of a Struct:
I64 = Any  # an integer of 64 bits,
I32 = Any  # of 32 bits,
Ptr = Any  # an address;
I64Line = Any  # and the same at the beginning of a cache line
I32Line = Any
PtrLine = Any
_BYTES = {"I64": 8, "I32": 4, "Ptr": 8}


class Field(NamedTuple):
    """A field of a struct: where it lies, in bytes, and its type, "I64", "I32" or "Ptr"."""

    offset: int
    kind: str

    def type(self, e: Emitter) -> Any:
        return {"I64": e.i64, "I32": e.i32, "Ptr": e.pointer}[self.kind]


class Struct:
    """A value for each field that a subclass annotates with I64, I32, Ptr, or these with Line."""

    FIELDS: ClassVar[dict[str, Field]] = {}
    _bytes: ClassVar[int] = 0
    _alignment: ClassVar[int] = 8

    def __init_subclass__(cls) -> None:
        offset = max((f.offset + _BYTES[f.kind] for f in cls.FIELDS.values()), default=0)
        fields = dict(cls.FIELDS)
        for name, annotation in cls.__annotations__.items():
            kind = annotation.removesuffix("Line")
            if kind not in _BYTES or hasattr(StructInMemory, name):
                raise InternalError(f"{cls.__name__}.{name}: {annotation} is no field of a Struct")
            step = _BYTES[kind] if kind == annotation else CACHE_LINE
            cls._alignment = max(cls._alignment, step)
            offset += -offset % step
            fields[name] = Field(offset, kind)
            offset += _BYTES[kind]
        cls.FIELDS = fields
        cls._bytes = offset + -offset % cls._alignment

    @classmethod
    def _check(cls, values: dict[str, Any]) -> None:
        if cls.FIELDS.keys() != values.keys():
            wrong = sorted(cls.FIELDS.keys() ^ values.keys())
            raise InternalError(f"{cls.__name__}: fields that are missing or unknown: {', '.join(wrong)}")

    # Values.

    def __init__(self, **values: Any) -> None:
        self._check(values)
        self.__dict__.update(values)

    def values(self) -> list[Any]:
        """The values in the order of the fields."""
        own = self.__dict__
        return [own[name] for name in self.FIELDS]

    def changed(self, **values: Any) -> Self:
        """With other values for some fields."""
        return type(self)(**{**self.__dict__, **values})

    @classmethod
    def of(cls, values: Sequence[Any]) -> Self:
        """From values in the order of the fields, such as the arguments of a function."""
        return cls(**dict(zip(cls.FIELDS, values, strict=True)))

    @classmethod
    def function_type(cls) -> Any:
        """A function of the fields, without a result."""
        kinds = {"Ptr": ir.PointerType(), "I64": ir.IntType(64), "I32": ir.IntType(32)}
        return ir.FunctionType(ir.VoidType(), [kinds[field.kind] for field in cls.FIELDS.values()])

    @classmethod
    def load(cls, e: Emitter, pointer: Any) -> Self:
        """All fields of the one at an address; all of them have 64 bits."""
        return cls.of(
            [
                e.load(e.address(pointer, i, e.i64), field.type(e))
                for i, field in enumerate(cls.FIELDS.values())
            ]
        )

    # Memory.

    @classmethod
    def at(cls, e: Emitter, pointer: Any) -> StructInMemory:
        """The one at an address."""
        return StructInMemory(cls, e, pointer)

    @classmethod
    def offset_of(cls, name: str) -> int:
        """Of a field, in bytes."""
        return cls.FIELDS[name].offset

    @classmethod
    def byte_count(cls) -> int:
        return cls._bytes

    @classmethod
    def word_count(cls) -> int:
        """How many words of 64 bits it has."""
        return cls._bytes // 8

    @classmethod
    def words(cls, **values: int) -> list[int]:
        """The words of one all of whose fields have 64 bits."""
        cls._check(values)
        return [int(values[name]) for name in cls.FIELDS]


class StructInMemory:
    """A struct at an address, in generated code: its fields are loaded as they are asked for."""

    def __init__(self, layout: type[Struct], e: Emitter, pointer: Any) -> None:
        self._layout, self._e, self._pointer = layout, e, pointer

    def __getattr__(self, name: str) -> Any:
        return self._e.load(self.address_of(name), self._field(name).type(self._e))

    def _field(self, name: str) -> Field:
        if name not in self._layout.FIELDS:
            raise AttributeError(f"{self._layout.__name__} has no field {name}")
        return self._layout.FIELDS[name]

    def address_of(self, name: str) -> Any:
        """Where a field lies."""
        e = self._e
        return e.builder.gep(self._pointer, [e.i64(self._field(name).offset)], source_etype=e.i8)

    def put(self, **values: Any) -> None:
        for name, value in values.items():
            self._e.store(value, self.address_of(name))

    def as_pointer(self, name: str) -> Any:
        """A field that is an integer, as an address."""
        return self._e.load(self.address_of(name), self._e.pointer)
