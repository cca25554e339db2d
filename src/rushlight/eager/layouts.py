"""What a call looks like to a kernel: the layouts of its operands, and the key of the calls like it.

In: an operator and its arguments. Out: a `Form`: what a kernel is made for and looked up by. Operands of
pointwise operators are seen in as few dimensions as they allow: one for all that lie in memory alike, whatever
their rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..core.dispatch import infer
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec, contiguous_strides, is_dense, memory_order
from ..core.tensor import Tensor
from .operators import OF_ONE_SIZE

Arguments = tuple[Any, ...]


class ArrayLayout(NamedTuple):
    """How an array lies in memory: what of it live sizes are read from."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    itemsize: int


class Operand:
    """Stands for a tensor: a layout of its elements, perhaps in fewer dimensions than it has."""

    __slots__ = ("_array", "dtype")

    def __init__(self, dtype: Any, shape: Sequence[int], strides: Sequence[int]) -> None:
        size = dtype.itemsize
        self.dtype = dtype
        self._array = ArrayLayout(tuple(shape), tuple([s * size for s in strides]), size)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""
        return tuple([s // self._array.itemsize for s in self._array.strides])

    def kind(self, fixed: bool) -> tuple[Any, ...]:
        """The layout; unless it is `fixed`, without sizes that may change: those of 2 and more, and strides that
        follow from sizes."""
        shape, strides = self.shape, self.strides
        if fixed:
            return self.dtype, shape, strides
        sizes = tuple([min(n, 2) for n in shape])
        if is_dense(shape, strides):
            return self.dtype, sizes, tuple(memory_order(shape, strides))
        return self.dtype, sizes, None, tuple([min(s, 2) for s in strides])


class Slot(NamedTuple):
    """The place of a leaf in the arguments of an operator."""

    number: int


class Form(NamedTuple):
    """A call as a kernel sees it. `arguments` has a `Slot` for each of the `leaves`: operands and numbers.
    `numbers` are the arguments that may be such numbers and are no defaults: leaves, or None for other values."""

    key: tuple[Any, ...]
    arguments: Arguments
    leaves: list[Any]
    numbers: list[int | None]
    specs: tuple[Spec, ...] | None  # of the results; None if only running the operator tells
    fixed: bool  # for these sizes alone
    shape: tuple[int, ...] | None  # in which a kernel sees the results, if not in their own


def form_of(op: OpDef, args: Arguments, live: frozenset[int]) -> Form | None:
    """The form of a call; `live` are the arguments that are numbers known only in the call. None: no kernel takes
    it. Raises what the operator raises for arguments that it refuses."""
    specs: Any = None
    if op.kind is not Kind.COMPOSITE:
        specs = infer(op, args)
        specs = (specs,) if isinstance(specs, Spec) else tuple(specs)
        if any(spec.shape is None for spec in specs) or all(0 in spec.known_shape() for spec in specs):
            return None
    shape = None
    if op.kind is Kind.POINTWISE:
        shape, operands = collapsed(specs[0], [a for a in args if isinstance(a, Tensor)])
    else:
        operands = [_seen(tensor) for tensor in tensors_in(args)]
    if any(0 in operand.shape for operand in operands):
        return None
    fixed = op.name in OF_ONE_SIZE
    given, leaves = iter(operands), []
    numbers: list[int | None] = []

    def slot(leaf: Any) -> Slot:
        leaves.append(leaf)
        return Slot(len(leaves) - 1)

    arguments: list[Any] = []
    key: list[Any] = []
    for i, a in enumerate(args):
        if isinstance(a, Tensor):
            operand = next(given)
            arguments.append(slot(operand))
            key.append(operand.kind(fixed))
        elif type(a) is tuple and any(isinstance(t, Tensor) for t in a):
            several = [None if t is None else next(given) for t in a]
            arguments.append(tuple([None if o is None else slot(o) for o in several]))
            key.append(tuple([None if o is None else o.kind(fixed) for o in several]))
        elif i in live and type(a) in (float, int) and a is not op.defaults[i]:
            numbers.append(len(leaves))
            arguments.append(slot(a))
            key.append(type(a))
        else:
            if i in live and a is not op.defaults[i]:
                numbers.append(None)
            arguments.append(a)
            key.append((type(a), exactly(a)))
    return Form(tuple(key), tuple(arguments), leaves, numbers, specs, fixed, shape)


def exactly(value: Any) -> Any:
    """What is equal for equal arguments alone: zeros differ in their sign, and True is not 1."""
    return repr(value) if type(value) in (float, complex, bool) else value


def tensors_in(args: Arguments) -> list[Tensor]:
    found = []
    for a in args:
        if isinstance(a, Tensor):
            found.append(a)
        elif type(a) is tuple:
            found.extend([t for t in a if isinstance(t, Tensor)])
    return found


def _seen(tensor: Tensor) -> Operand:
    return Operand(tensor.dtype, tuple(tensor.shape), tensor.strides())


def collapsed(spec: Spec, tensors: Sequence[Tensor]) -> tuple[tuple[int, ...], list[Operand]]:
    """Operands of a pointwise operator in the fewest dimensions, and the shape of the result in these.

    The dimensions are in the order in which the result lies in memory, so that it is contiguous.
    """
    shape = spec.known_shape()
    order = memory_order(
        shape, spec.known_strides() if spec.strides is not None else contiguous_strides(shape)
    )
    steps = [_broadcast_strides(tensor, len(shape)) for tensor in tensors]
    dims: list[tuple[int, list[int]]] = []  # size, and the stride of each operand
    for d in order:
        size, strides = shape[d], [s[d] for s in steps]
        if size == 1:
            continue
        if dims and all(outer == inner * size for outer, inner in zip(dims[-1][1], strides, strict=True)):
            dims[-1] = (dims[-1][0] * size, strides)
        else:
            dims.append((size, strides))
    if not dims and shape:
        dims = [(1, [1] * len(tensors))]
    operands = []
    for i, tensor in enumerate(tensors):
        if tensor.ndim == 0:  # which counts in promotion
            operands.append(Operand(tensor.dtype, (), ()))
        else:
            sizes = [size if strides[i] else 1 for size, strides in dims]
            operands.append(
                Operand(tensor.dtype, sizes, _strides(sizes, [strides[i] for _, strides in dims]))
            )
    return tuple([size for size, _ in dims]), operands


def _broadcast_strides(tensor: Tensor, rank: int) -> list[int]:
    lead = rank - tensor.ndim
    own = [0 if n == 1 else s for n, s in zip(tensor.shape, tensor.strides(), strict=True)]
    return [0] * lead + own


def _strides(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Strides with those of dimensions of size 1 as in a contiguous layout."""
    usual = contiguous_strides(sizes)
    return [u if n == 1 else s for n, s, u in zip(sizes, strides, usual, strict=True)]
