"""An update of tensors that belong together, as native code that writes to them.

In: a function that takes one row of tensors (a parameter, its gradient, the state that an optimizer keeps for it)
and numbers, and changes some of the tensors element by element. Out: a `RowProgram`, which does the same with
arrays of any size that lie in memory without gaps: one program serves all parameters of a model. The compiler
makes it (eager/compiling.py), or an earlier process has left it on disk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.dtypes import get_default_dtype
from ..runtime.engine import engine
from ..runtime.executable import Executable
from ..runtime.keys import NoText, exact_text, key_under
from ..runtime.known_programs import stored_program
from ..runtime.sized import SizedExecutable
from .kernel_records import KernelRecord, unpack
from .layouts import Operand

USUAL = 1 << 16  # elements of the row that the program is compiled with
MOST_SIZES = 1024  # whose programs are kept


@dataclass(frozen=True)
class RowLayout:
    """What rows look like: the dtypes of their tensors, and which of these have elements, all as many, and are no
    single numbers. `single`: they have one element each. `numbers` are such as the update takes."""

    dtypes: Sequence[Any]
    flat: Sequence[bool]
    single: bool
    numbers: Sequence[int | float]

    def leaves(self, size: int, numbers: Sequence[int | float]) -> list[Any]:
        """The operands of rows of so many elements, and numbers."""
        operands = [
            Operand(dtype, (size,), (1,)) if wide else Operand(dtype, (), ())
            for dtype, wide in zip(self.dtypes, self.flat, strict=True)
        ]
        return [*operands, *numbers]

    @property
    def usual(self) -> int:
        return 1 if self.single else USUAL


class RowRecord(NamedTuple):
    """What a row program needs besides its code: what a kernel needs, which outputs are to be written to which
    tensors, and how many changes of which tensors count."""

    kernel: KernelRecord
    writes: Sequence[tuple[int, int]]
    versions: Sequence[tuple[int, int]]


def row_key(name: Sequence[Any], layout: RowLayout) -> str | None:
    """The key of the record of a program; `name` tells its update from all others. None if it has no text."""
    try:
        text = exact_text([*name, *layout.dtypes, *layout.flat, layout.single])
        kinds = " ".join(type(number).__name__ for number in layout.numbers)
        return key_under("row", text, kinds, get_default_dtype().name)
    except NoText:
        return None


def stored_row_program(key: str, layout: RowLayout) -> RowProgram | None:
    """The program with this key, if an earlier process has left one that takes such numbers."""
    data = engine().cache.load(key)
    if data is None:
        return None
    packed, writes, versions = json.loads(data)
    program, kernel = unpack(packed.encode())
    if not kernel.numbers.holds(kernel.numbers.read(layout.leaves(layout.usual, layout.numbers))):
        return None
    executable = stored_program(program)
    return None if executable is None else RowProgram(layout, RowRecord(kernel, writes, versions), executable)


class RowProgram:
    """The program of an update."""

    def __init__(
        self, layout: RowLayout, record: RowRecord, executable: Executable | SizedExecutable
    ) -> None:
        self._layout, self._executable, self._writes = layout, executable, record.writes
        self._live, self._inputs = record.kernel.numbers, record.kernel.inputs
        self._kinds = [kind for kind in self._inputs if isinstance(kind, type)]
        self._numbers = self._live.at(self._live.read(layout.leaves(layout.usual, layout.numbers)))
        self._blank = [None] * len(layout.dtypes)
        self._last: tuple[Sequence[Any], list[np.ndarray] | None] | None = None
        self.versions = record.versions
        self._by_size: dict[int, Executable | None] = {}

    def numbers(self, given: Sequence[int | float]) -> list[np.ndarray] | None:
        """What the program needs of the numbers of this step; None if it is not made for such as they are."""
        last = self._last
        if last is None or last[0] is not given:
            values = self._numbers.read([*self._blank, *given])
            held = not self._numbers.guarded or self._numbers.holds(values)
            filled = [self._numbers.fill(kind, values) for kind in self._kinds] if held else None
            last = self._last = given, filled
        return last[1]

    def serves(self, size: int) -> bool:
        """Whether there is native code for rows of so many elements."""
        return self._at(size) is not None

    def _at(self, size: int) -> Executable | None:
        if size not in self._by_size:
            if len(self._by_size) >= MOST_SIZES:
                self._by_size.clear()
            self._by_size[size] = self._made(size)
        return self._by_size[size]

    def _made(self, size: int) -> Executable | None:
        values = self._live.read(self._layout.leaves(size, self._layout.numbers))
        if not self._live.holds(values):
            return None
        executable = self._executable
        if isinstance(executable, SizedExecutable):
            executable = executable.at(list(self._live.sizes_of(values).values()))
        executable.call_natively()
        return executable if executable.native else None

    def run(self, size: int, arrays: Sequence[np.ndarray], numbers: Sequence[np.ndarray]) -> None:
        """Update one row of `size` elements."""
        executable = self._at(size)
        assert executable is not None
        given = iter(numbers)
        inputs = [arrays[i] if isinstance(i, int) else next(given) for i in self._inputs]
        found = executable.run(inputs)
        for source, output in self._writes:
            if output not in executable.updates:
                np.copyto(inputs[source], found[output].reshape(inputs[source].shape))
