"""Nested tensors of the strided layout: rows of any sizes, each with its own strides, in one flat buffer.

A `StridedNestedTensor` of `dim()` d + 1 wraps a 1-D tensor, the buffer, and `Rows`: for each of the B rows d
sizes, d strides and the place where it begins. Views are other rows over the same buffer. It has no shape:
where the rows differ there is no size. Its interpreter runs the operators that PyTorch has for it, by rules
that work on the buffer or row by row (nested/ declares them); composites are taken apart; others are refused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .binding import by_name
from .dispatch import Arguments, execute, run_name
from .errors import RegistrationError, check
from .indexing import get_item
from .interpreters import Interpreter
from .mutation import assign, check_target
from .nested_base import NestedBase
from .pytree import register_record
from .registry import REGISTRY, Kind, OpDef
from .shapes import Spec, contiguous_strides
from .tensor import META, TRACED, Tensor, _new, wrap
from .tokens import contiguous_format, strided

Shape = tuple[int, ...]


class Rows:
    """Sizes, strides and beginning of each row. Equal ones are served by the same compiled program."""

    __slots__ = ("_contiguous", "dims", "offsets", "sizes", "strides")

    def __init__(
        self,
        sizes: Sequence[Shape],
        strides: Sequence[Shape] | None = None,
        offsets: Sequence[int] | None = None,
        dims: int = 0,
    ) -> None:
        self.sizes = tuple(map(tuple, sizes))
        self.dims = len(self.sizes[0]) if self.sizes else dims  # of a row
        self.strides = (
            tuple(map(contiguous_strides, self.sizes)) if strides is None else tuple(map(tuple, strides))
        )
        self.offsets = self.places() if offsets is None else tuple(offsets)
        self._contiguous: bool | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self.parts() == other.parts()

    def __hash__(self) -> int:
        return hash(self.parts())

    def __repr__(self) -> str:
        return f"Rows({', '.join(str(list(size)) for size in self.sizes)})"

    def parts(self) -> tuple[Any, ...]:
        return self.sizes, self.strides, self.offsets, self.dims

    def counts(self) -> list[int]:
        """How many elements each row has."""
        return [math.prod(size) for size in self.sizes]

    def places(self) -> tuple[int, ...]:
        """Where the rows begin if they lie one after the other."""
        return tuple(int(n) for n in np.cumsum([0, *self.counts()])[:-1])

    @property
    def contiguous(self) -> bool:
        if self._contiguous is None:
            self._contiguous = self.offsets == self.places() and all(
                _dense(size, stride) for size, stride in zip(self.sizes, self.strides, strict=True)
            )
        return self._contiguous

    def size(self, dim: int) -> int | None:
        """The size of a dimension of the nested tensor, if all rows agree."""
        if dim == 0:
            return len(self.sizes)
        found = {size[dim - 1] for size in self.sizes}
        return found.pop() if len(found) == 1 else None

    def largest(self) -> Shape:
        """The sizes that every row fits into."""
        return tuple(max(sizes) for sizes in zip(*self.sizes, strict=True))


def _dense(size: Shape, stride: Shape) -> bool:
    return 0 in size or all(
        n == 1 or s == t for n, s, t in zip(size, stride, contiguous_strides(size), strict=True)
    )


class StridedNestedTensor(NestedBase):
    """A batch of tensors of different sizes and the same number of dimensions."""

    _rows: Rows

    layout = property(lambda self: strided)

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "a nested tensor of the strided layout has no sizes: NestedTensorImpl doesn't "
            "support sizes. Ask size(dim) for a dimension in which all rows agree"
        )

    ndim = property(lambda self: self._rows.dims + 1)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        rank = self.ndim
        check(
            -rank <= dim < rank,
            f"size: Dimension {dim} is out of range for a nested tensor of {rank} dimensions",
            IndexError,
        )
        found = self._rows.size(dim % rank)
        check(found is not None, f"Given dimension {dim % rank} is irregular and does not have a size.")
        return found

    def strides(self) -> Any:
        raise RuntimeError(
            "a nested tensor of the strided layout has no strides: NestedTensorImpl doesn't support strides"
        )

    def stride(self, dim: int | None = None) -> Any:
        return self.strides()

    def _nested_tensor_size(self) -> Tensor:
        return self._table(self._rows.sizes)

    def _nested_tensor_strides(self) -> Tensor:
        return self._table(self._rows.strides)

    def _nested_tensor_storage_offsets(self) -> Tensor:
        return wrap(np.array(self._rows.offsets, np.int64))

    def _table(self, shapes: tuple[Shape, ...]) -> Tensor:
        return wrap(np.array(shapes, np.int64).reshape(len(self._rows), self._rows.dims))

    def numel(self) -> int:
        return sum(self._rows.counts())

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        return self._rows.contiguous

    def like(self, values: Tensor) -> StridedNestedTensor:
        return strided_nest(values, self._rows)

    def maker(self) -> Callable[[Tensor], StridedNestedTensor]:
        return functools.partial(strided_nest, rows=self._rows)

    def values_of(self, other: Any, name: str) -> Tensor:
        check(
            isinstance(other, StridedNestedTensor) and other._rows.sizes == self._rows.sizes,
            f"{name}: expected a nested tensor of the same sizes",
        )
        if other._rows == self._rows:
            return other._values
        check(self._rows.contiguous, f"{name}: the rows are laid out in another way; call contiguous() first")
        return packed(other)._values

    def __getitem__(self, index: Any) -> Any:
        return get_item(self, index)

    def __iter__(self) -> Any:
        return iter(self.unbind())

    def __repr__(self) -> str:
        rows = [row.detach()._set_requires_grad(self.requires_grad) for row in rows_of(self)]
        lines = ",\n".join("  " + repr(row).replace("\n", "\n  ") for row in rows)
        history = ", requires_grad=True" if self.requires_grad else ""
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn}"
        return f"nested_tensor([\n{lines}\n]{history})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuild, (self._values, *self._rows.parts())

    def item(self) -> Any:
        check(self.numel() == 1, f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return packed(self)._values.item()


def strided_nest(values: Tensor, rows: Rows) -> StridedNestedTensor:
    """A buffer as rows."""
    tensor = _new(StridedNestedTensor)
    tensor._array = None
    tensor.dtype = values.dtype
    tensor._spec = Spec((len(rows),), values.dtype, (1,))  # it has a shape for nobody
    tensor._values, tensor._rows = values, rows
    tensor._trace = STRIDED
    tensor._keys = TRACED | (values._keys & META)
    return tensor


def rebuild(values: Tensor, sizes: Any, strides: Any, offsets: Any, dims: int) -> StridedNestedTensor:
    """What was saved or copied, checked: rows must lie inside of the buffer."""
    check(values.ndim == 1, f"the buffer of a nested tensor is 1-D, not {values.ndim}-D")
    rows = Rows(sizes, strides, offsets, dims)
    check(
        len(rows.sizes) == len(rows.strides) == len(rows.offsets)
        and all(
            len(size) == len(stride) == rows.dims
            for size, stride in zip(rows.sizes, rows.strides, strict=True)
        ),
        "a nested tensor has as many sizes, strides and offsets as rows",
    )
    for size, stride, offset in zip(rows.sizes, rows.strides, rows.offsets, strict=True):
        last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
        check(min((0, offset, *size, *stride)) >= 0, "sizes, strides and offsets are not negative")
        check(
            0 in size or last < values.numel(),
            f"a row of sizes {list(size)}, strides {list(stride)} and "
            f"offset {offset} goes beyond the {values.numel()} elements of the buffer",
        )
    return strided_nest(values, rows)


# Rows and buffers.


def rows_of(nested: StridedNestedTensor) -> list[Tensor]:
    """Each row, a view of the buffer."""
    rows, values = nested._rows, nested._values
    if rows.contiguous and len(rows):
        used = sum(rows.counts())
        if used != values.numel():
            values = run_name("slice.Tensor", values, 0, 0, used, 1)
        parts = run_name("split_with_sizes", values, tuple(rows.counts()), 0)
        return [part.view(size) for part, size in zip(parts, rows.sizes, strict=True)]
    values = values.contiguous()  # a gradient may be one number, expanded
    start = values.storage_offset()
    return [
        run_name("as_strided", values, size, stride, start + offset)
        for size, stride, offset in zip(*rows.parts()[:3], strict=True)
    ]


def from_rows(tensors: Sequence[Tensor], dims: int | None = None) -> StridedNestedTensor:
    """Copies of the rows, one after the other."""
    rows = Rows([tuple(t.shape) for t in tensors], dims=dims or 0)
    flat = tuple(t.reshape((-1,)) for t in tensors)
    return strided_nest(run_name("cat", flat, 0), rows)


def packed(nested: StridedNestedTensor) -> StridedNestedTensor:
    """`nested` with its rows one after the other in a buffer of their size."""
    if nested._rows.contiguous and nested._values.numel() == nested.numel():
        return nested
    if not len(nested._rows):
        return strided_nest(nested._values.new_empty((0,)), nested._rows)
    return from_rows(rows_of(nested))


def buffer_of(nested: StridedNestedTensor) -> Tensor:
    """The buffer, of a nested tensor whose rows are all of it in their order."""
    check(nested._rows.contiguous, "NestedTensor must be contiguous to get buffer.")
    return packed(nested)._values


# Rules.

Rule = Callable[[OpDef, Arguments], Any]
RULES: dict[str, Rule] = {}


def generic(*names: str) -> Callable[[Rule], Rule]:
    """Declare `rule(op, args)` for several operators."""

    def declare(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise RegistrationError(f"{name} already has a rule for strided nested tensors")
            RULES[REGISTRY[name].name] = function
        return function

    return declare


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare how an operator runs: a function of the schema arguments it names."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            named = by_name(function, REGISTRY[name].schema.argument_names, f"strided nested rule of {name}")
            generic(name)(lambda op, args, named=named: named(args))  # type: ignore[misc]
        return function

    return declare


class StridedNested(Interpreter):
    """Runs operators on nested tensors, before every transform that their values may belong to."""

    number = (1 << 62) + 1
    transparent = True

    def owns(self, tensor: Tensor) -> bool:
        return False

    def process(self, op: OpDef, args: Arguments) -> Any:
        found = RULES.get(op.name)
        if found is not None:
            return found(op, args)
        if op.kind is Kind.COMPOSITE:
            return execute(op, args)
        raise NotImplementedError(
            f"{op.public_name}: there is no rule for nested tensors of the strided layout ({op.name}). Work "
            "on the rows with unbind(), on a dense tensor with to_padded_tensor(padding), or use the layout "
            "rushlight.jagged, which has more operators"
        )

    def write(self, target: Tensor, result: Tensor) -> None:
        check(isinstance(target, StridedNestedTensor), "a nested tensor cannot be written to a dense one")
        assert isinstance(target, StridedNestedTensor)
        check(target._rows.contiguous, "NestedTensor must be contiguous to get buffer.")
        values = target.values_of(result, "an in-place operator")
        check_target(target._values, "an in-place operator")
        assign(target._values, values if values.dtype is target.dtype else values.to(target.dtype))

    def take_geometry(self, target: Tensor, view: Tensor) -> None:
        assert isinstance(target, StridedNestedTensor)
        assert isinstance(view, StridedNestedTensor)
        target._values, target._rows, target._spec = view._values, view._rows, view._spec

    def keep_values(self, tensor: Tensor) -> None:
        assert isinstance(tensor, StridedNestedTensor)
        tensor._values = run_name("clone", tensor._values, None)

    def read(self, tensor: Tensor) -> np.ndarray:
        raise TypeError(
            "a nested tensor is not one array: use values(), unbind() or to_padded_tensor(padding)"
        )


STRIDED = StridedNested()

register_record(
    StridedNestedTensor,
    lambda tensor: (tensor._rows, [tensor._values]),
    lambda rows, parts: strided_nest(parts[0], rows),
)
