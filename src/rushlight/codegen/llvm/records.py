"""Records: what tasks, stages and launches are told as data, so that equal ones share their code.

A record is a run of words in one constant array of the module: numbers, slots of the block, addresses of
functions and of other records. A program of many equal layers has a record for each kernel of each layer, and
the code of one. A number that changes with the sizes of a call is in the table of sizes (sizes.py), and its word
says where: at position p, the word is -1 - p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .constants import literal
from .emitter import Emitter
from .routines import declared
from .sizes import load_size
from .struct import I64, Ptr, Struct
from .types import Callee

ir = LazyModule("llvmlite.ir")

NAME = "records"
POOL_SLOT, ERROR_SLOT, SIZES_SLOT = range(3)  # of every block; the last one where there is a table of sizes

Word = int | str  # a number, or a constant expression


@dataclass(frozen=True)
class Position:
    """A place in the table of sizes, of a number that is not negative."""

    at: int


Number = int | Position


def word_of(number: Number) -> int:
    """A number as a word."""
    return -1 - number.at if isinstance(number, Position) else number


class RecordArgs(Struct):
    """What a task is given."""

    block: Ptr  # the addresses of the buffers
    number: I64
    record: Ptr


def task_function(module: Any, name: str, target: Target) -> tuple[Any, Emitter]:
    function = ir.Function(module, RecordArgs.function_type(), name)
    function.linkage = "internal"
    function.attributes.add("nounwind")
    return function, Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)


class Records:
    """The records of one module, and the functions that read them. `sized`: there is a table of sizes."""

    def __init__(self, module: Any, target: Target, *, sized: bool) -> None:
        self.module, self.target, self.sized = module, target, sized
        self._words: list[str] = []

    def record(self, words: Sequence[Word]) -> int:
        """Add a record; gives its place."""
        at = len(self._words)
        self._words.extend(map(str, words))
        return at

    def word(self, at: int | None) -> Word:
        """The address of the record at a place, as a word of another; 0 for none."""
        return 0 if at is None else f"ptrtoint (ptr {self._address(at)} to i64)"

    def function(self, name: str) -> Word:
        """The address of a function of the module, as a word."""
        return f'ptrtoint (ptr @"{name}" to i64)'

    def pointer(self, e: Emitter, at: int | None) -> Any:
        """The address of the record at a place, in code; null for none."""
        return e.zero(e.pointer) if at is None else literal(e.pointer, self._address(at))

    def _address(self, at: int) -> str:
        return f'getelementptr (i64, ptr @"{NAME}", i64 {at})'

    def shared(self, name: str, emit: Callable[[Emitter, Any, Reader], None]) -> str:
        """The name of a task, which `emit(emitter, number, record)` gives a body where there is none. One that
        calls nothing of the module by name is a routine instead (routines.py)."""
        if name not in self.module.globals:
            function, e = task_function(self.module, name, self.target)
            block, number, record = function.args
            emit(e, number, Reader(e, block, record, sized=self.sized))
            e.builder.ret_void()
        return name

    def routine(self, kind: str, *details: Any) -> Any:
        """A routine that reads records of this module."""
        return declared(self.module, self.target, kind, *details, int(self.sized))

    def finish(self) -> None:
        """Define the array, once all records are known."""
        if self._words:
            kind = ir.ArrayType(ir.IntType(64), len(self._words))
            table = ir.GlobalVariable(self.module, kind, NAME)
            table.linkage, table.global_constant = "internal", True
            table.initializer = literal(kind, f"[i64 {', i64 '.join(self._words)}]")


class Reader:
    """Reads the words of a record, in a function that takes the block."""

    def __init__(self, e: Emitter, block: Any, address: Any, *, sized: bool, sizes: Any = None) -> None:
        self.e, self.block, self.address, self.sized = e, block, address, sized
        if sizes is None and sized:
            sizes = e.load(e.address(block, SIZES_SLOT, e.i64), e.pointer)
        self._sizes = sizes

    def at(self, place: Any) -> Reader:
        """Of the words from a place on."""
        address = self.e.address(self.address, place, self.e.i64)
        return Reader(self.e, self.block, address, sized=self.sized, sizes=self._sizes)

    def word(self, place: Any) -> Any:
        """A word as it is."""
        return load_size(self.e, self.address, place)

    def pointer(self, place: Any) -> Any:
        """An address."""
        return self.e.load(self.e.address(self.address, place, self.e.i64), self.e.pointer)

    def buffer(self, place: Any) -> Any:
        """The address of a buffer, of which the record has the slot."""
        return self.e.load(self.e.address(self.block, self.word(place), self.e.i64), self.e.pointer)

    def number(self, place: Any) -> Any:
        """A number, from the table of sizes if the word says so."""
        e, word = self.e, self.word(place)
        if self._sizes is None:
            return word
        changing = e.address(self._sizes, e.sub(e.i64(-1), word), e.i64)
        own = e.address(self.address, place, e.i64)
        return e.load(e.select(e.compare("<", word, 0), changing, own), e.i64)

    def sizes_from(self, place: Any) -> Any:
        """The address in the table of sizes of the position that a word is."""
        return self.e.address(self._sizes, self.word(place), self.e.i64)

    def run(self, place: Any, number: Any) -> None:
        """Run the task whose function and record are at a place."""
        call_task(self.e, self.pointer(place), self.block, number, self.at(place).pointer(1))


def call_task(e: Emitter, function: Any, block: Any, number: Any, record: Any) -> None:
    """Call a task by its address."""
    e.call(Callee(function, RecordArgs.function_type()), [block, number, record])
