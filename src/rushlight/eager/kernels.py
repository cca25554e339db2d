"""A kernel: an operator compiled as a program of its own, for all sizes, and bound to those of a call.

`Kernel.bind` fills in the sizes of a call: what is left is a native callable that takes arrays
(runtime/invoke.py). Kernels come from the compiler (eager/compiling.py), or from disk, where earlier processes
have left them: this module imports nothing that only the compiler needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import array_over
from ..core.dtypes import BY_NUMPY
from ..core.registry import OpDef
from ..core.shapes import Spec, contiguous_strides, extent
from ..core.tensor import Tensor, wrap
from ..runtime import redzones
from ..runtime.engine import engine
from ..runtime.executable import Executable
from ..runtime.executable import Slot as OutputSlot
from ..runtime.invoke import NO_GUARDS, Effects, Invoker, Output, Source, available, prepare
from ..runtime.known_programs import stored_program
from ..runtime.sized import SizedExecutable
from ..runtime.threads import pool
from .calls import forget, install_stored
from .kernel_records import KernelNumbers, KernelRecord, Result, View, record_key, unpack
from .layouts import Form, Operand
from .usual_sizes import STAGES, with_usual_sizes

MOST_WORKSPACE = 1 << 28  # bytes that a kernel may keep for temporaries

BELOW_DISPATCH = Effects(any_mode=True)


def load() -> None:
    """Have all that kernels from disk need loaded: calling this imports it, this makes it."""
    prepare()
    pool()


class Unsuitable(Exception):
    """Why an operator has no kernel for a form: it runs on NumPy's."""


def stored_form(op: OpDef, form: Form, stage: int) -> Kernel | None:
    """The kernel that `compile_form` gives, if an earlier process has left it on disk."""
    usual = usual_leaves(form, stage)
    found = None if usual is None else stored_kernel(op, form, usual)
    return found or stored_kernel(op, form, form.leaves)  # its arguments may rule out usual sizes


def usual_leaves(form: Form, stage: int) -> list[Any] | None:
    return None if stage >= STAGES or form.fixed else with_usual_sizes(form.leaves, stage)


def stored_kernel(op: OpDef, form: Form, given: Sequence[Any]) -> Kernel | None:
    """A kernel that was captured with these leaves."""
    key = record_key(op, form, given)
    found = None if key is None else kernel_under(key)
    return found if found is not None and found.holds(given) else None  # not if captured with other numbers


def kernel_under(key: str) -> Kernel | None:
    """The kernel that an earlier process has kept under this key."""
    data = engine().cache.load(key)
    if data is None:
        return None
    program, record = unpack(data)
    executable = stored_program(program)
    return None if executable is None else Kernel(record, executable, key)


def example_of(operand: Operand) -> Tensor:
    """A tensor like an operand, whose elements nobody reads."""
    shape, strides = operand.shape, operand.strides
    memory = np.empty(extent(shape, strides) * operand.dtype.itemsize, np.uint8)
    tensor = wrap(array_over(memory, shape, strides, 0, operand.dtype))
    if tensor.strides() != strides:
        tensor._strides = strides
    return tensor


class Kernel:
    """An operator as native code."""

    def __init__(
        self, record: KernelRecord, executable: Executable | SizedExecutable, key: str | None = None
    ) -> None:
        self.key = key  # under which it is on disk
        self._results, self._structure, self._live = record.results, record.structure, record.numbers
        self._executable = executable
        self._single = len(record.results) == 1 and record.structure.type is None
        self._inputs = record.inputs
        self._kinds = [kind for kind in self._inputs if isinstance(kind, type)]

    def serves(self, form: Form) -> bool:
        """Whether the guards of the kernel hold for the sizes of a form."""
        return self.holds(form.leaves)

    def holds(self, leaves: Sequence[Any]) -> bool:
        """Whether its guards hold for these operands and numbers."""
        return self._live.holds(self._live.read(leaves))

    def bind(self, form: Form, arrays: Sequence[np.ndarray]) -> Callable[..., Any] | None:
        """The kernel for a call of this form on arrays like these; None if it does not serve its sizes.

        It takes the arrays, then the numbers that are no defaults, and gives the results; NotImplemented: it
        refuses the call.
        """
        values = self._live.read(form.leaves)
        if not self._live.holds(values):
            return None
        executable, sizes = self._executable, self._live.sizes_of(values)
        if isinstance(executable, SizedExecutable):
            executable = executable.at(list(sizes.values()))
        if not executable.native or executable.calls is not None:
            raise Unsuitable("a part of it has no native code")
        if executable.updates:
            raise Unsuitable("it writes to an operand")
        if executable.workspace_size > MOST_WORKSPACE:
            return None
        live = self._live.at(values)
        results = [r if r.view is None else Result(r.output, r.view.at(sizes)) for r in self._results]
        slots = _result_slots(form, executable, results)
        run = self._finished(self._native(form, arrays, executable, slots, live), executable)
        return run if not form.numbers else self._with_numbers(run, form, len(arrays), live)

    def _native(
        self,
        form: Form,
        arrays: Sequence[np.ndarray],
        executable: Executable,
        slots: Sequence[OutputSlot],
        live: KernelNumbers,
    ) -> Callable[..., Any]:
        """The native callable: it takes the arrays, then one array for the numbers of each kind."""
        operands = [i for i, leaf in enumerate(form.leaves) if isinstance(leaf, Operand)]
        place = {leaf: n for n, leaf in enumerate(operands)}
        count, kinds = len(arrays), self._kinds
        sources = []
        for given, slot in zip(self._inputs, executable.inputs, strict=True):
            if isinstance(given, type):
                numbers = live.fill(given, live.read(form.leaves))
                if form.numbers:
                    sources.append(Source(count + kinds.index(given), None, numbers, slot))
                else:  # which sizes decide
                    sources.append(Source(-1, numbers, numbers, slot))
            else:
                sources.append(Source(place[given], None, arrays[place[given]], slot))
        used = {source.which for source in sources}
        unused = [Source(i, None, array, None) for i, array in enumerate(arrays) if i not in used]
        arguments = count + (len(kinds) if form.numbers else 0)
        single = self._single and len(slots) == 1
        if not available() or redzones.enabled():
            return _long_way(executable, sources, slots, single)
        return Invoker(
            arguments,
            [*sources, *unused],
            [Output(o.number, BY_NUMPY[o.dtype], o.shape, o.strides) for o in slots],
            executable.native_program(sources),
            tensors=True,
            single=single,
            effects=BELOW_DISPATCH,
            guards=NO_GUARDS,
        ).call

    def _finished(self, run: Callable[..., Any], executable: Executable) -> Callable[..., Any]:
        """`run`, with results as the operator gives them."""
        structure, results = self._structure, self._results
        alone = self._single and len(executable.output_slots) == 1
        if alone and not executable.reports:
            return run

        def finished(*given: Any) -> Any:
            found = run(*given)
            if type(found) is Tensor or found is NotImplemented:
                return found
            if type(found) is int:
                executable.report(found)
            return structure.unflatten([None if r.output is None else found[r.output] for r in results])

        def listed(*given: Any) -> Any:
            found = run(*given)
            return tuple(found) if type(found) is list else finished_with(found)

        def finished_with(found: Any) -> Any:
            if type(found) is int:
                executable.report(found)
            return found

        count = len(executable.output_slots)
        plain = (
            [r.output for r in results] == list(range(count))
            and structure.type is tuple
            and all(c.type is None for c in structure.children)
        )
        return listed if plain else finished

    def _with_numbers(
        self, run: Callable[..., Any], form: Form, count: int, live: KernelNumbers
    ) -> Callable[..., Any]:
        """`run` for calls with numbers, which are `form.numbers` among the leaves, None where a number is not
        known only in the call."""
        kinds, numbers = self._kinds, form.numbers
        blank: list[Any] = [None] * len(form.leaves)
        if not kinds and not live.guarded:
            return lambda *given: run(*given[:count])

        def filled(*given: Any) -> Any:
            leaves = blank.copy()
            for at, value in zip(numbers, given[count:], strict=True):
                if at is not None:
                    leaves[at] = value
            present = live.read(leaves)
            if live.guarded and not live.holds(present):
                return NotImplemented
            return run(*given[:count], *[live.fill(kind, present) for kind in kinds])

        if (
            len(numbers) == 1
            and len(kinds) == 1
            and not live.guarded
            and _is_itself(live, kinds[0], blank, numbers[0])
        ):
            dtype = np.float64 if kinds[0] is float else np.int64
            if count == 1:
                return lambda x, value: run(x, np.array((value,), dtype))
            return lambda *given: run(*given[:count], np.array(given[count:], dtype))
        return filled


def _is_itself(live: KernelNumbers, kind: type, blank: list[Any], at: int | None) -> bool:
    """Whether the input for numbers holds the one number of a call as it is."""
    if at is None:
        return False
    leaves: list[Any] = blank.copy()
    leaves[at] = mark = object()
    try:
        found = live.fills[kind](live.read(leaves))
    except TypeError:  # it is computed from it
        return False
    return len(found) == 1 and found[0] is mark


def _result_slots(form: Form, executable: Executable, results: Sequence[Result]) -> list[OutputSlot]:
    """The outputs of the program as they are returned: with the shapes and strides that the rule says."""
    slots = executable.output_slots
    specs = form.specs
    found = list(slots)
    if specs is None:
        for result in results:
            if result.output is not None and result.view is not None:
                found[result.output] = _viewed(slots[result.output], result.view)
        return found
    values = [result.output for result in results if result.output is not None and result.view is None]
    if len(values) != len(specs) or sorted(values) != list(range(len(slots))):
        raise Unsuitable("its results are not those of its rule")
    for output, spec in zip(values, specs, strict=True):
        found[output] = _result_slot(slots[output], spec, form.shape)
    return found


def _result_slot(slot: OutputSlot, spec: Spec, seen: tuple[int, ...] | None) -> OutputSlot:
    shape, size = spec.known_shape(), spec.dtype.itemsize
    strides = contiguous_strides(shape) if spec.strides is None else spec.strides
    own = contiguous_strides(slot.shape) if slot.strides is None else [s // size for s in slot.strides]
    if seen is None:
        same = slot.shape == shape and _places(slot.shape, own) == _places(shape, strides)
    else:
        same = slot.shape == seen and _places(seen, own) == _places(seen, contiguous_strides(seen))
    if slot.dtype != spec.dtype.numpy or not same:
        raise Unsuitable(f"a result is {slot}, its rule says {spec}")
    usual = tuple(strides) == contiguous_strides(shape)
    return OutputSlot(
        slot.number, slot.dtype, shape, None if usual else tuple([s * size for s in strides]), slot.offset
    )


def _viewed(slot: OutputSlot, view: View) -> OutputSlot:
    """A contiguous output in another shape."""
    shape = tuple(view.shape)
    plain = slot.strides is None and view.strides == contiguous_strides(shape) and view.offset == 0
    if not plain or view.lazy or math.prod(shape) != math.prod(slot.shape):
        raise Unsuitable("it returns a view")
    return slot._replace(shape=shape)


def _places(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides that say where elements are."""
    return [s for n, s in zip(shape, strides, strict=True) if n > 1]


def _long_way(
    executable: Executable, sources: Sequence[Source], slots: Sequence[OutputSlot], single: bool
) -> Callable[..., Any]:
    """The same as a native callable, through Python: between red zones, and where there are no such callables."""

    def run(*given: np.ndarray) -> Any:
        inputs = [source.constant if source.which < 0 else given[source.which] for source in sources]
        found = [
            wrap(np.ndarray(slot.shape, slot.dtype, _memory(array), 0, slot.strides))
            for array, slot in zip(executable.run(inputs), slots, strict=True)
        ]
        return found[0] if single else found

    return run


def _memory(array: np.ndarray) -> np.ndarray:
    """The memory of an output, which it fills, in the order in which it lies there."""
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return array.transpose(order)


redzones.on_change(forget)
install_stored(stored_form, kernel_under)
