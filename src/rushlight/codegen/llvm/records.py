"""Records in memory, laid out as C lays them out, by the names of their fields.

    class Source(Record):
        which: I64
        constant: Ptr

declares one. In generated code `Source(e, pointer)` stands for one at an
address: `source.which` loads a field, `source.address_of("which")` is where it lies, `source.put(which=x)`
stores.
Python, which fills tables of such records, says `Source.words(which=0, constant=id(x))`: every field must be
named, and the order is that of the declaration. (Arguments of functions, which are values, are structs of
struct.py.)
"""

from __future__ import annotations

from typing import Any, ClassVar

from .emitter import Emitter
from .memory import CACHE_LINE

I64 = Any  # in annotations of a Record: an integer of 64 bits,
I32 = Any  # of 32 bits,
Ptr = Any  # an address;
I64Line = Any  # and the same at the beginning of a cache line
I32Line = Any
PtrLine = Any
_BYTES = {"I64": 8, "I32": 4, "Ptr": 8}


class Record:
    """A record at an address. A subclass has its fields as annotations: I64, I32, Ptr, or these with Line."""

    _fields: ClassVar[dict[str, tuple[int, str]]] = {}  # by name: the offset in bytes, and the type
    _bytes: ClassVar[int] = 0

    def __init_subclass__(cls) -> None:
        offset, alignment = 0, 8
        cls._fields = {}
        for name, annotation in cls.__annotations__.items():
            kind = annotation.removesuffix("Line")
            if kind not in _BYTES or hasattr(Record, name):
                raise TypeError(f"{cls.__name__}.{name}: {annotation} is no field of a Record")
            step = _BYTES[kind] if kind == annotation else CACHE_LINE
            alignment = max(alignment, step)
            offset += -offset % step
            cls._fields[name] = offset, kind
            offset += _BYTES[kind]
        cls._bytes = offset + -offset % alignment

    def __init__(self, e: Emitter, pointer: Any) -> None:
        self._e, self._pointer = e, pointer

    def __getattr__(self, name: str) -> Any:
        if name not in self._fields:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        return self._e.load(self.address_of(name), self._kind(name))

    def address_of(self, name: str) -> Any:
        """Where a field lies."""
        e = self._e
        return e.builder.gep(self._pointer, [e.i64(self._fields[name][0])], source_etype=e.i8)

    def put(self, **values: Any) -> None:
        for name, value in values.items():
            self._e.store(value, self.address_of(name))

    def as_pointer(self, name: str) -> Any:
        """A field that is an integer, as an address."""
        return self._e.load(self.address_of(name), self._e.pointer)

    def _kind(self, name: str) -> Any:
        e = self._e
        return {"I64": e.i64, "I32": e.i32, "Ptr": e.pointer}[self._fields[name][1]]

    @classmethod
    def offset_of(cls, name: str) -> int:
        """Of a field, in bytes."""
        return cls._fields[name][0]

    @classmethod
    def byte_count(cls) -> int:
        return cls._bytes

    @classmethod
    def word_count(cls) -> int:
        """How many words of 64 bits it has."""
        return cls._bytes // 8

    @classmethod
    def words(cls, **values: int) -> list[int]:
        """The words of a record, all of whose fields are of 64 bits."""
        if values.keys() != cls._fields.keys():
            different = sorted(values.keys() ^ cls._fields.keys())
            raise TypeError(f"{cls.__name__}: fields that are missing or unknown: {', '.join(different)}")
        return [int(values[name]) for name in cls._fields]
