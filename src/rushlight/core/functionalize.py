"""Functionalization's interpreter: tensors whose writes and views are functional operators below.

Tensors that share memory share a `Memory`, which holds the value of the tensor that all of them are views of,
and each knows the view operators that lead from there to it. A write gives the memory a new value: what was
written, put back through the view operators by their inverses (`select_scatter` for `select`, ...). Other tensors
of that memory notice when they are next used, and take their view of it again. No value is ever written to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .dispatch import AMBIENT, Arguments, call, execute, read_array, run_name
from .interpreters import Interpreter, next_level
from .modes import MODES
from .registry import REGISTRY, Kind, OpDef
from .shapes import Spec, numel
from .tensor import LAZY, META, RANDOM, TRACED, Tensor, _new, refuse_overrides
from .transforms import TransformType, describe, level_of

Step = tuple[OpDef, Arguments, int | None]  # a view operator, its other arguments, and which of its results


class Memory:
    """What some tensors share."""

    __slots__ = ("value", "writes")

    def __init__(self, value: Tensor) -> None:
        self.value = value
        self.writes = 0


class FunctionalTensor(Tensor):
    """A tensor inside of a function that is being functionalized."""

    __torch_function__ = staticmethod(refuse_overrides)
    _memory: Memory
    _steps: tuple[Step, ...]  # from the value of the memory to this tensor
    _value: Tensor  # this tensor, as it was after `_writes` writes to the memory
    _writes: int

    def __repr__(self) -> str:
        return describe(self, FunctionalTensor._plain_repr)

    def _plain_repr(self: Any) -> str:
        return f"FunctionalTensor(lvl={level_of(self._trace)}, value=\\\n{self._trace.value_of(self)!r})"


class Functionalize(Interpreter):
    """One open functionalization; with `copies`, views below are copies, too."""

    kind = TransformType.Functionalize
    wraps_new = True
    given: Sequence[Memory] = ()  # of the tensors of the caller

    def __init__(self, copies: bool = False) -> None:
        self.number = next_level()
        self.copies = copies

    def __enter__(self) -> Functionalize:
        self._keys = AMBIENT.keys & (TRACED | RANDOM)
        MODES.traces = [*MODES.traces, self]
        AMBIENT.keys |= TRACED | RANDOM  # tensors that are made inside are this level's, too
        return self

    def __exit__(self, *exception: Any) -> None:
        MODES.traces = MODES.traces[:-1]
        AMBIENT.keys = AMBIENT.keys & ~(TRACED | RANDOM) | self._keys

    @contextlib.contextmanager
    def _lowered(self) -> Iterator[None]:
        """Inside, this transform and those inside of it are closed."""
        traces, keys = MODES.traces, AMBIENT.keys
        MODES.traces = [trace for trace in traces if trace.number < self.number]
        AMBIENT.keys = keys & ~(TRACED | RANDOM) | self._keys
        try:
            yield
        finally:
            MODES.traces, AMBIENT.keys = traces, keys

    def tracks(self, tensor: Tensor) -> bool:
        return False

    # Wrapping.

    def wrap(self, value: Tensor) -> FunctionalTensor:
        """A tensor of this level that has memory of its own."""
        return self._over(Memory(value), (), value)

    def _over(self, memory: Memory, steps: tuple[Step, ...], value: Tensor) -> FunctionalTensor:
        tensor = _new(FunctionalTensor)
        tensor._array, tensor.dtype, tensor._trace = None, value.dtype, self
        tensor._memory, tensor._steps, tensor._value, tensor._writes = memory, steps, value, memory.writes
        tensor._spec = Spec(tuple(value.shape), value.dtype, value.strides(), value.storage_offset())
        tensor._offset = value.storage_offset()
        tensor._keys = TRACED | (value._keys & (META | LAZY))
        if value._keys & LAZY:
            tensor._conj, tensor._neg = value._conj, value._neg
        return tensor

    def pure(self, tensor: Tensor) -> Tensor:
        return tensor if tensor._trace is self else self.wrap(tensor)

    def value_of(self, tensor: Any) -> Any:
        """What `tensor` is below this level, all writes to its memory included."""
        if not isinstance(tensor, FunctionalTensor) or tensor._trace is not self:
            return tensor
        memory = tensor._memory
        if tensor._writes != memory.writes:
            with self._lowered():
                value = memory.value
                for step in tensor._steps:
                    value = self._view(value, step)
            tensor._value, tensor._writes = value, memory.writes
        return tensor._value

    def _wrapped(self, results: Any) -> Any:
        if type(results) is tuple:
            return tuple([self._wrapped(result) for result in results])
        return self.wrap(results) if isinstance(results, Tensor) else results

    # Running operators.

    def process(self, op: OpDef, args: Arguments) -> Any:
        if op.kind is Kind.COMPOSITE and op.derivative is None:
            return execute(op, args, TRACED)
        if op.kind is Kind.VIEW and op.schema.returns[0].type.alias is not None:
            return self._process_view(op, args)
        plain = list(args)
        for i in op.tensor_positions:
            plain[i] = self.value_of(args[i])
        for i in op.list_positions:
            if args[i] is not None:
                plain[i] = tuple([self.value_of(tensor) for tensor in args[i]])
        with self._lowered():
            return self._wrapped(call(op, tuple(plain)))

    def _process_view(self, op: OpDef, args: Arguments) -> Any:
        source, rest = args[0], args[1:]
        value = self.value_of(source)
        with self._lowered():
            found = call(self._below(op), (value, *rest))
        if isinstance(source, FunctionalTensor):
            memory, steps = source._memory, source._steps
        else:
            memory, steps = Memory(value), ()
        result: Any
        if type(found) is tuple:
            result = tuple(
                [self._over(memory, (*steps, (op, rest, i)), part) for i, part in enumerate(found)]
            )
        else:
            result = self._over(memory, (*steps, (op, rest, None)), found)
        self.track_view(op, args, result)
        return result

    def _below(self, op: OpDef) -> OpDef:
        """What stands for a view operator below this level."""
        if not self.copies:
            return op
        name, _, overload = op.name.partition(".")
        return REGISTRY[f"{name}_copy.{overload}" if overload else f"{name}_copy"]

    def _view(self, value: Tensor, step: Step) -> Tensor:
        op, rest, number = step
        found = call(self._below(op), (value, *rest))
        view: Tensor = found if number is None else found[number]
        return view

    # Writing and reading.

    def write(self, target: Tensor, result: Tensor) -> None:
        if not isinstance(target, FunctionalTensor) or target._trace is not self:
            raise RuntimeError(
                "functionalize: mutating a non-functional tensor with a functional tensor is not allowed: the "
                "function writes something that depends on its arguments to a tensor that is none of them; make "
                "it an argument"
            )
        new, memory = self.value_of(result), target._memory
        with self._lowered():
            if new.dtype is not target.dtype:
                new = new.to(target.dtype)
            if new._keys & LAZY:
                new = run_name("resolve_neg", run_name("resolve_conj", new))
            memory.value = self._put(memory.value, target._steps, new)
        memory.writes += 1
        if not target._steps:
            target._value, target._writes = memory.value, memory.writes
        target.version_counter.value += 1

    def _put(self, whole: Tensor, steps: tuple[Step, ...], part: Tensor) -> Tensor:
        """`whole` with `part` in the place of what the view operators show of it."""
        if not steps:
            if part.strides() == whole.strides():
                return part
            return run_name("copy", whole, part, False)  # what was written lies in memory as the target does
        first, rest = steps[0], steps[1:]
        if rest:
            part = self._put(self._view(whole, first), rest, part)
        op, args, number = first
        return _INVERSES[op.name](self, whole, part, args, number)

    def take_geometry(self, target: Tensor, view: Tensor) -> None:
        assert isinstance(target, FunctionalTensor)
        assert isinstance(view, FunctionalTensor)
        target._memory, target._steps = view._memory, view._steps
        target._value, target._writes, target._spec = view._value, view._writes, view._spec

    def resize(self, target: Tensor, shape: Any, strides: Any, offset: int) -> bool:
        """Less than a tensor shows is a view of it, and an empty one shares its memory with nobody."""
        assert isinstance(target, FunctionalTensor)
        if any(target._memory is memory for memory in self.given):
            self.refuse("it changes the shape of an argument in place")
        if 0 < numel(shape) <= target.numel():
            made = run_name("as_strided", target, shape, strides, offset)
        elif target.numel() == 0 or numel(shape) == 0:
            with self._lowered():
                value = self.value_of(target)
                made = self.wrap(run_name("new_zeros", value, shape, None, None, None, None))
        else:
            self.refuse("it makes a tensor larger in place")
        self.take_geometry(target, made)
        return True

    def keep_values(self, tensor: Tensor) -> None:
        assert isinstance(tensor, FunctionalTensor)
        tensor._memory, tensor._steps, tensor._storage = Memory(self.value_of(tensor)), (), None
        tensor._writes = 0

    def read(self, tensor: Tensor) -> np.ndarray:
        with self._lowered():
            return read_array(self.value_of(tensor))


# The inverses of view operators: what a tensor is once `part` stands where the operator shows something of it.

Inverse = Callable[[Functionalize, Tensor, Tensor, Arguments, int | None], Tensor]


def _reshaped(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    shape = tuple(whole.shape)
    return run_name("view_copy", part, shape) if level.copies else part.reshape(shape)


def _part_itself(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    return part


def _swapped(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    return level._view(part, (REGISTRY["transpose.int" if args else "t"], args, None))


def _permuted(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    order = [dim % whole.ndim for dim in args[0]]
    back = tuple([order.index(dim) for dim in range(whole.ndim)])
    return level._view(part, (REGISTRY["permute"], (back,), None))


def _scattered(name: str) -> Inverse:
    def put(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
        scattered: Tensor = run_name(name, whole, part, *args)
        return scattered

    return put


def _unbound(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    scattered: Tensor = run_name("select_scatter", whole, part, args[0], number)
    return scattered


def _split(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    sizes, dim = args
    start = sizes * number if isinstance(sizes, int) else sum(sizes[:number])
    scattered: Tensor = run_name("slice_scatter", whole, part, dim, start, start + part.shape[dim], 1)
    return scattered


def _reinterpreted(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    return level._view(part, (REGISTRY["view.dtype"], (whole.dtype,), None))


def _as_complex(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    return level._view(part, (REGISTRY["view_as_complex"], (), None))


def _as_real(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
    return level._view(part, (REGISTRY["view_as_real"], (), None))


def _computed(name: str) -> Inverse:
    def put(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
        computed: Tensor = run_name(name, part)
        return computed

    return put


def _by_strides(view: str) -> Inverse:
    """Where the view has no inverse of its own: put at the places in memory that it shows."""

    def put(level: Functionalize, whole: Tensor, part: Tensor, args: Arguments, number: Any) -> Tensor:
        ordered = whole.clone()
        shown = run_name(view, ordered, *args)
        geometry = tuple(shown.shape), shown.strides(), shown.storage_offset()
        scattered: Tensor = run_name("as_strided_scatter", ordered, part, *geometry)
        return scattered

    return put


_INVERSES: dict[str, Inverse] = {
    **dict.fromkeys(
        ("view", "_unsafe_view", "_reshape_alias", "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze"),
        _reshaped,
    ),
    **dict.fromkeys(("alias", "detach"), _part_itself),
    **dict.fromkeys(("t", "transpose.int"), _swapped),
    "permute": _permuted,
    "select.int": _scattered("select_scatter"),
    "slice.Tensor": _scattered("slice_scatter"),
    "diagonal": _scattered("diagonal_scatter"),
    "as_strided": _scattered("as_strided_scatter"),
    "unbind.int": _unbound,
    **dict.fromkeys(("split.Tensor", "split_with_sizes"), _split),
    "view.dtype": _reinterpreted,
    "view_as_real": _as_complex,
    "view_as_complex": _as_real,
    "_conj": _computed("conj_physical"),
    "_neg_view": _computed("neg"),
    **{name: _by_strides(name) for name in ("expand", "unfold")},
}
