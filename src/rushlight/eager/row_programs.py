"""An update of tensors that belong together, as native code that writes to them.

In: a function that takes one row of tensors (a parameter, its gradient, the state that an optimizer keeps for it)
and changes some of them element by element. Out: a `RowProgram`, which does the same with arrays of any size that
lie in memory without gaps: one program serves all parameters of a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.grad_mode import set_grad_enabled
from ..capture.program import capture_own
from ..capture.references import Argument
from ..capture.sizes import Changing
from ..compiler.build import build_specialization
from ..compiler.pipeline import compile_captured
from ..core.tensor import Tensor
from ..runtime import profile
from ..runtime.executable import Executable
from ..runtime.sized import SizedExecutable
from .kernels import Unsuitable, example_of
from .layouts import Operand

USUAL = 1 << 16  # elements of the row that the program is compiled with
MOST_SIZES = 1024  # whose programs are kept


class RowProgram:
    """The program of an update. `dtypes` are those of the tensors of a row; `flat` says which have elements, all
    as many, and are not single numbers. `single`: they have one element each."""

    def __init__(
        self,
        update: Callable[[Sequence[Tensor]], None],
        dtypes: Sequence[Any],
        flat: Sequence[bool],
        single: bool,
    ) -> None:
        self._dtypes, self._flat = list(dtypes), list(flat)
        leaves = [example_of(operand) for operand in self._operands(1 if single else USUAL)]

        def program(*row: Tensor) -> None:
            with set_grad_enabled(False):
                update(row)

        dims = {} if single else {i: frozenset((0,)) for i, wide in enumerate(flat) if wide}
        captured = capture_own(program, tuple(leaves), Changing(dims))
        others = (captured.gradients, captured.draws, captured.changes, captured.replaced, captured.flags)
        if any((*others, captured.deferred, captured.kinds, captured.stores, captured.differentiable)):
            raise Unsuitable("it does more than to write to its row")
        with profile.plain():
            compiled = compile_captured(captured)
        spec = build_specialization(compiled, leaves)
        executable = compiled.forward.executable
        if not isinstance(executable, Executable | SizedExecutable):
            raise Unsuitable("its sizes are data")
        self._executable, self._live, self._writes = executable, spec.live, spec.call.writes
        self._inputs: list[int | type] = []
        for ref in spec.inputs:
            if isinstance(ref, Argument):
                self._inputs.append(ref.index)
            elif ref is float or ref is int:
                self._inputs.append(ref)
            else:
                raise Unsuitable("it takes more than its row and numbers")
        self._kinds = [kind for kind in self._inputs if isinstance(kind, type)]
        self._numbers = self._live.at(self._read(1 if single else USUAL))
        self.versions = [(ref.index, count) for ref, count in spec.call.versions if isinstance(ref, Argument)]
        self._by_size: dict[int, Executable | None] = {}

    def _operands(self, size: int) -> list[Operand]:
        return [
            Operand(dtype, (size,), (1,)) if wide else Operand(dtype, (), ())
            for dtype, wide in zip(self._dtypes, self._flat, strict=True)
        ]

    def _read(self, size: int) -> list[Any]:
        return self._live.read(self._operands(size))

    def numbers(self) -> list[np.ndarray] | None:
        """What the program needs of hyperparameters in this step; None if it is not made for such as they are."""
        return self._numbers.filled(self._kinds)

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
        values = self._read(size)
        if not self._live.holds(values):
            return None
        executable = self._executable
        if isinstance(executable, SizedExecutable):
            executable = executable.at(self._live.sizes_of(values))
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
