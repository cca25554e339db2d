"""Transforms and captures: who runs an operator on tensors that are not plain.

A tensor with the TRACED key belongs to an `Interpreter` (its `_trace`): one open vmap, one open capture.
Interpreters are numbered in the order they were opened. An operator is run by the innermost interpreter among
those of its arguments, after autograd has looked at the arguments that belong to it; the interpreter runs the
operator on what it wraps, and so the call descends level by level. Levels of forward mode take their numbers
from the same sequence.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .dispatch import AMBIENT, Arguments, autograd_layer, call, install_layer, tensors_in
from .errors import InternalError
from .modes import MODES
from .mutation import install_traced_write
from .registry import OpDef
from .resizing import set_geometry
from .tensor import AUTOGRAD, RANDOM, TRACED, Tensor, shapeless
from .views import restrict_view

_numbers = itertools.count(1)


def next_level() -> int:
    """A number higher than that of every transform opened before."""
    return next(_numbers)


class Interpreter:
    """One open transform or capture."""

    number: int
    lowest = False  # no level below this one records anything: it stands in place of running on data
    wraps_new = False  # tensors that are made while it is open belong to it
    transparent = False  # autograd concerns what it wraps alone
    templates: Any = None  # what was recorded, to be recorded again (capture/templates.py)
    takes_all = (
        False  # while it is open, it runs every operator, also on tensors of interpreters outside of it
    )

    def owns(self, tensor: Tensor) -> bool:
        """Whether autograd at this level concerns `tensor`."""
        return tensor._trace is self

    def claim(self, tensor: Tensor) -> None:
        """`tensor` belongs to this level; a copy of one that does is claimed as well."""
        tensor._trace = self

    def pure(self, tensor: Tensor) -> Tensor:
        """A tensor from outside as an object of this level, so that history recorded at this level can be
        kept on it."""
        return tensor

    def process(self, op: OpDef, args: Arguments) -> Any:
        """Run `op` below this level."""
        raise NotImplementedError

    def inside(self, value: Any) -> Any:
        """Of one that takes all: `value`, or, if that is a tensor from outside, the tensor that stands for it."""
        raise NotImplementedError

    def taken(self, op: OpDef, args: Arguments) -> Arguments:
        """Of one that takes all: `args` with tensors of its own for those from outside."""
        raise NotImplementedError

    def process_rows(self, op: OpDef, rows: Sequence[Arguments]) -> list[Tensor] | None:
        """Run `op` on each row; None where that takes a call for each."""
        return None

    def map_alike(self, function: Callable[[Tensor], Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
        """`function(tensor)`, which has no effects, of each tensor."""
        return [function(tensor) for tensor in tensors]

    def update_rows(self, update: Callable[[Sequence[int]], None], rows: Sequence[Sequence[Tensor]]) -> None:
        """`update` of all rows, given their numbers; it takes each row of tensors by itself."""
        update(range(len(rows)))

    def holds_alone(self, tensor: Tensor) -> bool:
        """Whether no other tensor is over the memory of `tensor`, which was made here."""
        return False

    def take_geometry(self, target: Tensor, view: Tensor) -> None:
        """Give `target` the geometry of `view`, a view of what it was (`target.t_()`)."""
        set_geometry(target, tuple(view.shape), view.strides(), view.storage_offset())

    def track_view(self, op: OpDef, args: Arguments, result: Any) -> None:
        """Views at this level know their base at this level, as dispatch arranges for plain tensors."""
        source = args[0]
        if not op.tracked or source._trace is not self or op.schema.returns[0].type.alias is None:
            if op.schema.returns[0].type.alias is not None:
                for tensor in result if type(result) is tuple else (result,):
                    tensor._versions = source.version_counter
            return
        several = type(result) is tuple
        for i, tensor in enumerate(result if several else (result,)):
            tensor._output_nr = i
            base = tensor._base = source if source._base is None else source._base
            tensor._view_of = (op, args)
            tensor._versions = source.version_counter
            if tensor.dtype.is_differentiable:
                tensor._keys |= AUTOGRAD
                tensor._seen = base._node
                creation = source._creation or ("multi_output" if several else None)
                if not MODES.grad or creation is not None:
                    restrict_view(tensor, creation if MODES.grad and creation is not None else "no_grad")

    def resize(self, target: Tensor, shape: Any, strides: Any, offset: int) -> bool:
        """Give `target` another geometry (`target.resize_()`); False if nothing about that is special here."""
        return False

    def keep_values(self, tensor: Tensor) -> None:
        """Give `tensor`, a copy of one that is about to be written, values and a storage of its own."""
        raise NotImplementedError

    def write(self, target: Tensor, result: Tensor) -> None:
        """Give `target` the values of `result`."""
        raise NotImplementedError

    def sees_gradient(self, tensor: Tensor, replaces: bool = False) -> None:
        """The program looks at the .grad of `tensor`, or replaces it by another without looking."""

    def refuse(self, what: str) -> None:
        """The program does something that this transform has no way to express."""
        raise RuntimeError(f"not possible inside a transform: {what}")

    def read(self, tensor: Tensor) -> np.ndarray:
        """The values of `tensor`, where the transform can give them."""
        raise NotImplementedError

    def item(self, tensor: Tensor) -> Any:
        """The number that `tensor`, of one element, holds; NotImplemented: as `read` gives it."""
        return NotImplemented

    def tolist(self, tensor: Tensor) -> Any:
        """The numbers that `tensor` holds; NotImplemented: as `read` gives them."""
        return NotImplemented

    def waits(self, op: OpDef, args: Arguments) -> bool:
        """Whether an operator runs after what is recorded, and is recorded by autograd then."""
        return False

    def reveal(self, tensor: Tensor) -> None:
        """Give a tensor whose shape is not known yet its data."""
        raise NotImplementedError

    def depends_on(self, tensor: Tensor) -> bool:
        """Whether a plain tensor has other values when what is recorded now runs again."""
        return False


def innermost(tensors: list[Tensor]) -> Interpreter | None:
    """The innermost interpreter among those the tensors belong to."""
    best: Interpreter | None = None
    for tensor in tensors:
        trace = tensor._trace
        if trace is not None and (best is None or trace.number > best.number):
            best = trace
    return best


def run_traced(op: OpDef, args: Arguments, keys: int) -> Any:
    tensors = tensors_in(op, args)
    if any(map(shapeless, tensors)):
        for tensor in filter(shapeless, tensors):
            tensor._trace.reveal(tensor)
        return call(op, args)
    trace = innermost(tensors) or AMBIENT.trace
    around = AMBIENT.trace
    if around is not None and around.takes_all and trace.number <= around.number:
        trace, args = around, around.taken(op, args)
        tensors = tensors_in(op, args)
    if trace is AMBIENT.trace and MODES.traces:  # transforms are inside of a capture
        trace = _innermost_open(op, tensors) or trace
    if trace is None:
        return _run_plain(op, args)
    own = AUTOGRAD if MODES.inference and not trace.transparent else 0
    for tensor in tensors:
        if trace.owns(tensor):
            own |= tensor._keys
    recorded = bool(own & AUTOGRAD) and not trace.waits(op, args)
    templates = trace.templates
    if templates is not None and not templates.busy:
        return templates.call(op, args, keys, recorded)
    return autograd_layer(op, args, keys, trace) if recorded else trace.process(op, args)


def _innermost_open(op: OpDef, tensors: list[Tensor]) -> Interpreter | None:
    """The open transform that runs an operator none of whose arguments belongs to one: the innermost decides how
    often to draw, and one that wraps what is made takes what has no arguments."""
    if op.random:
        innermost_one: Interpreter = MODES.traces[-1]
        return innermost_one
    if tensors:
        return None
    return next((trace for trace in reversed(MODES.traces) if trace.wraps_new), None)


def _run_plain(op: OpDef, args: Arguments) -> Any:
    """Run an operator that concerns no open interpreter."""
    if not AMBIENT.keys & TRACED:
        raise InternalError(f"{op.name}: a traced tensor belongs to no interpreter")
    saved, AMBIENT.keys = AMBIENT.keys, AMBIENT.keys & ~TRACED
    try:
        return call(op, args)
    finally:
        AMBIENT.keys = saved


@contextlib.contextmanager
def below(transform: Any) -> Iterator[None]:
    """Inside, only the transforms outside of `transform` are open."""
    saved = MODES.transforms, MODES.traces, AMBIENT.keys
    at = saved[0].index(transform)
    MODES.transforms = saved[0][:at]
    MODES.traces = [trace for trace in saved[1] if trace not in saved[0][at:]]
    AMBIENT.keys = saved[2] if MODES.traces else saved[2] & ~RANDOM
    try:
        yield
    finally:
        MODES.transforms, MODES.traces, AMBIENT.keys = saved


def read_traced(tensor: Tensor) -> np.ndarray:
    return tensor._trace.read(tensor)


def write_traced(target: Tensor, result: Tensor) -> None:
    trace = innermost([target, result])
    assert trace is not None
    trace.write(target, result)


install_layer("traced", run_traced)
install_layer("read", read_traced)
install_traced_write(write_traced)
