"""Nested tensors of the jagged layout: rows of different lengths, packed one after the other.

A `NestedTensor` of shape (B, j1, D) wraps an ordinary tensor of values, (total, D), and a `Ragged` that says
where each of the B rows begins and how long it is. Its interpreter runs every operator on it by a rule that
works on the values (nested/ declares them); autograd, capture and transforms only ever see the values.

Invariants: the lengths of rows are known on the Python side (a program under capture is specialised to them);
`_ragged_idx` is the dimension that is ragged, 1 or higher, and is dimension `_ragged_idx - 1` of the values.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .binding import by_name
from .dispatch import AMBIENT, Arguments, read_array, run_name
from .dtypes import DTYPES, Category
from .errors import RegistrationError, check
from .indexing import get_item
from .interpreters import Interpreter
from .mutation import assign, check_target
from .nested_base import NestedBase
from .nested_int import NestedInt, symbol_of
from .pytree import register_record
from .registry import REGISTRY, Kind, OpDef
from .shapes import Spec
from .tensor import META, TRACED, Tensor, _new, wrap
from .tokens import contiguous_format, jagged


class Ragged:
    """Where the rows are: row i is the elements starts[i] to starts[i] + sizes[i] of the packed dimension."""

    __slots__ = ("_indices", "holes", "lengths", "offsets", "size", "sizes", "starts")

    def __init__(
        self, offsets: Tensor, lengths: Tensor | None, starts: np.ndarray, sizes: np.ndarray
    ) -> None:
        self.offsets = offsets
        self.lengths = lengths
        self.starts = starts
        self.sizes = sizes
        self.size: NestedInt = symbol_of(sizes.tobytes())
        self.holes = lengths is not None  # there may be values that belong to no row
        self._indices: dict[Any, Tensor] = {}

    @property
    def batch(self) -> int:
        return len(self.sizes)

    @property
    def longest(self) -> int:
        return int(self.sizes.max(initial=0))

    @property
    def total(self) -> int:
        """How many elements the rows have together."""
        return int(self.sizes.sum())

    def uniform(self, length: int) -> bool:
        """Whether all rows have this length."""
        return bool((self.sizes == length).all())

    # Two of them are equal if a program compiled for one serves the other.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ragged) and self.size == other.size and self.same_places(other)

    def __hash__(self) -> int:
        return hash(self.size)

    def __repr__(self) -> str:
        return f"{self.size}={self.sizes.tolist()}"

    def same_places(self, other: Ragged) -> bool:
        """Whether rows of equal lengths also begin at the same places."""
        return self is other or (
            self.holes == other.holes and (not self.holes or bool((self.starts == other.starts).all()))
        )

    # Index tensors, made when they are first needed.

    def _index(self, key: Any, make: Callable[[], np.ndarray]) -> Tensor:
        found = self._indices.get(key)
        if found is None:
            found = self._indices[key] = wrap(np.ascontiguousarray(make(), np.int64))
        return found

    def rows(self) -> Tensor:
        """For each element, the row it is in."""
        return self._index("rows", lambda: np.repeat(np.arange(self.batch), self.sizes))

    def positions(self) -> np.ndarray:
        """For each element, where it is in its row."""
        return np.arange(self.total) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)

    def places(self) -> Tensor:
        """For each element, where it is in the values."""
        return self._index("places", lambda: np.repeat(self.starts, self.sizes) + self.positions())

    def padded_places(self, length: int) -> Tensor:
        """For each element, where it is among the rows padded to `length`."""
        return self._index(
            length, lambda: np.repeat(np.arange(self.batch) * length, self.sizes) + self.positions()
        )

    def inside(self, length: int) -> Tensor:
        """A (batch, length) mask of what is not padding."""
        key = ("inside", length)
        if key not in self._indices:
            self._indices[key] = wrap(np.arange(length) < self.sizes[:, None])
        return self._indices[key]

    def counts(self) -> Tensor:
        """The length of each row."""
        return self._index("counts", lambda: self.sizes)


def beside(index: Tensor, values: Tensor) -> Tensor:
    """An index tensor on the device of `values`."""
    return index.to(values.device) if values._keys & META else index


def read_integers(tensor: Tensor, what: str) -> np.ndarray:
    """The values of an index tensor. A program under capture cannot know them and refuses."""
    check(
        tensor.ndim == 1 and tensor.dtype.category is Category.INTEGRAL,
        f"{what} must be a 1-D integer tensor, not {tensor.dtype.name} of shape {list(tensor.shape)}",
    )
    trace = AMBIENT.trace
    array = trace.read(tensor) if trace is not None else read_array(tensor)
    return np.ascontiguousarray(array, np.int64)


def ragged_of_sizes(sizes: Any) -> Ragged:
    """Rows of these lengths, packed without holes."""
    lengths = np.ascontiguousarray(sizes, np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Ragged(wrap(offsets), None, offsets[:-1], lengths)


def ragged_of_offsets(offsets: Tensor, lengths: Tensor | None, extent: int) -> Ragged:
    """Rows that begin at `offsets`, of `lengths` or as far as the next one, in a dimension of `extent`."""
    check(
        offsets.ndim == 1 and offsets.numel() > 0,
        "offsets must be a 1-D tensor with one element more "
        f"than there are rows, not of shape {list(offsets.shape)}",
    )
    ends = read_integers(offsets, "offsets")
    starts = ends[:-1]
    sizes = np.diff(ends) if lengths is None else read_integers(lengths, "lengths")
    check(len(sizes) == len(starts), f"offsets are for {len(starts)} rows, but lengths for {len(sizes)}")
    check(
        not len(sizes) or (sizes.min() >= 0 and starts.min() >= 0 and (starts + sizes).max() <= extent),
        "a nested tensor's rows must lie within its values: the offsets and lengths must be ascending, not "
        f"negative and at most {extent}; offsets are {ends.tolist()}"
        + ("" if lengths is None else f", lengths {sizes.tolist()}"),
    )
    check(
        lengths is not None or (ends[0] == 0 and ends[-1] == extent),
        f"offsets must begin with 0 and end with {extent}, the size of the values there, but are "
        f"{ends.tolist()}; give lengths too if some values belong to no row",
    )
    return Ragged(offsets, lengths, starts, sizes)


class NestedTensor(NestedBase):
    """A batch of tensors that differ in the size of one dimension."""

    _ragged: Ragged
    _ragged_idx: int

    layout = property(lambda self: jagged)

    def values(self) -> Tensor:
        """All rows, packed one after the other along the ragged dimension."""
        return self._values

    def offsets(self) -> Tensor:
        """Where each row begins in `values()`, and where the last one ends."""
        return self._ragged.offsets

    def lengths(self) -> Tensor | None:
        """The lengths of rows, where they are not the differences of the offsets."""
        return self._ragged.lengths

    def numel(self) -> int:
        if not self._ragged.holes:
            return self._values.numel()
        shape = self._values.shape
        at = self._ragged_idx - 1
        return self._ragged.total * math.prod((*shape[:at], *shape[at + 1 :]))

    def is_contiguous(self, memory_format: Any = contiguous_format) -> bool:
        return not self._ragged.holes and self._values.is_contiguous(memory_format)

    def _get_max_seqlen(self) -> int:
        return self._ragged.longest

    def _get_min_seqlen(self) -> int:
        return int(self._ragged.sizes.min(initial=self._ragged.longest))

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)
    _offsets = property(offsets)
    _lengths = property(lengths)

    @property
    def _metadata_cache(self) -> dict[str, int]:
        return {"max_seqlen": self._max_seqlen, "min_seqlen": self._min_seqlen}

    def like(self, values: Tensor) -> NestedTensor:
        return nest(values, self._ragged, self._ragged_idx)

    def maker(self) -> Callable[[Tensor], NestedTensor]:
        return functools.partial(nest, ragged=self._ragged, ragged_idx=self._ragged_idx)

    def values_of(self, other: Any, name: str) -> Tensor:
        return matching_values(other, self, name)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, NestedBase):
            raise NotImplementedError(
                "a nested tensor is not indexed by another one; see masked_select and rushlight.where"
            )
        return get_item(self, index)

    # What makes it a Python object.

    def __repr__(self) -> str:
        history = f", requires_grad={self.requires_grad}" if self.requires_grad else ""
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn}"
        return (
            f"NestedTensor(size={tuple(self.shape)}, offsets={self.offsets()}{history}, "
            f"contiguous={self.is_contiguous()})"
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        lengths = self._ragged.lengths
        return rebuild, (self._values, self._ragged.offsets, lengths, self._ragged_idx)

    def item(self) -> Any:
        return unholed(self).item()


def nest(values: Tensor, ragged: Ragged, ragged_idx: int = 1) -> NestedTensor:
    """`values` as the rows that `ragged` describes."""
    at = ragged_idx - 1
    shape, strides = tuple(values.shape), values.strides()
    tensor = _new(NestedTensor)
    tensor._array = None
    tensor.dtype = values.dtype
    sizes: tuple[Any, ...] = (ragged.batch, *shape[:at], ragged.size, *shape[at + 1 :])
    steps: tuple[Any, ...] = (ragged.size * strides[at], *strides)
    tensor._spec = Spec(sizes, values.dtype, steps)
    tensor._values, tensor._ragged, tensor._ragged_idx = values, ragged, ragged_idx
    tensor._trace = NESTED
    tensor._keys = TRACED | (values._keys & META)
    return tensor


def rebuild(values: Tensor, offsets: Tensor, lengths: Tensor | None, ragged_idx: int) -> NestedTensor:
    return nest(values, ragged_of_offsets(offsets, lengths, values.shape[ragged_idx - 1]), ragged_idx)


# Values in other arrangements.


def unholed(nested: NestedTensor) -> Tensor:
    """The values without what belongs to no row."""
    if not nested._ragged.holes:
        return nested._values
    return run_name(
        "index_select",
        nested._values,
        nested._ragged_idx - 1,
        beside(nested._ragged.places(), nested._values),
    )


def packed(nested: NestedTensor) -> NestedTensor:
    """`nested` without holes."""
    if not nested._ragged.holes:
        return nested
    return nest(unholed(nested), ragged_of_sizes(nested._ragged.sizes), nested._ragged_idx)


def ragged_first(nested: NestedTensor) -> Tensor:
    """The values without holes, the ragged dimension in front."""
    values = unholed(nested)
    return values if nested._ragged_idx == 1 else values.movedim(nested._ragged_idx - 1, 0)


def matching_values(tensor: Tensor, like: NestedTensor, name: str) -> Tensor:
    """The values of a nested tensor of the shape of `like`, laid out as those of `like`."""
    check(
        isinstance(tensor, NestedTensor) and tensor.shape == like.shape,
        f"{name}: expected a nested tensor of shape {tuple(like.shape)}, got {tuple(tensor.shape)}",
    )
    assert isinstance(tensor, NestedTensor)
    if tensor._ragged.same_places(like._ragged):
        return tensor._values
    check(
        not like._ragged.holes,
        f"{name}: a nested tensor with holes takes the values of one with the same "
        "holes; call contiguous() first",
    )
    return unholed(tensor)


def padded(nested: NestedTensor, padding: Any, length: int | None = None) -> Tensor:
    """A dense tensor whose rows are filled up with `padding` to `length`, by default that of the longest."""
    ragged, dim = nested._ragged, nested._ragged_idx
    length = ragged.longest if length is None else length
    values = ragged_first(nested)
    rest = tuple(values.shape[1:])
    if ragged.uniform(length):
        whole = values
    else:
        blank = run_name("new_full", values, (ragged.batch * length, *rest), padding, None, None, None, None)
        whole = run_name("index_copy", blank, 0, beside(ragged.padded_places(length), values), values)
    dense = whole.reshape((ragged.batch, length, *rest))
    return dense if dim == 1 else dense.movedim(1, dim)


def from_padded(dense: Tensor, ragged: Ragged, ragged_idx: int = 1) -> NestedTensor:
    """The rows of a padded tensor without their padding; the lengths are those of `ragged`."""
    length = dense.shape[ragged_idx]
    rows = dense if ragged_idx == 1 else dense.movedim(ragged_idx, 1)
    values = rows.flatten(0, 1)
    if not ragged.uniform(length):
        values = run_name("index_select", values, 0, beside(ragged.padded_places(length), values))
    if ragged_idx != 1:
        values = values.movedim(0, ragged_idx - 1)
    return nest(values, ragged_of_sizes(ragged.sizes) if ragged.holes else ragged, ragged_idx)


# Rules.

Rule = Callable[[OpDef, Arguments], Any]
RULES: dict[str, Rule] = {}


def generic(*names: str) -> Callable[[Rule], Rule]:
    """Declare `rule(op, args)` for several operators."""

    def declare(function: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise RegistrationError(f"{name} already has a rule for nested tensors")
            RULES[REGISTRY[name].name] = function
        return function

    return declare


def rule(*names: str, anywhere: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare how an operator runs on nested tensors: a function of the schema arguments it names.

    The first tensor is nested, unless the rule is for nested tensors `anywhere` among the arguments.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            named = by_name(function, REGISTRY[name].schema.argument_names, f"nested rule of {name}")
            generic(name)(_any_nested(named) if anywhere else _first_nested(named))
        return function

    return declare


def _any_nested(named: Callable[[Arguments], Any]) -> Rule:
    return lambda op, args: named(args)


def _first_nested(named: Callable[[Arguments], Any]) -> Rule:
    def run(op: OpDef, args: Arguments) -> Any:
        if not isinstance(args[op.tensor_positions[0]], NestedTensor):
            raise no_rule(op)
        return named(args)

    return run


def no_rule(op: OpDef) -> NotImplementedError:
    return NotImplementedError(
        f"{op.public_name}: there is no rule for nested tensors ({op.name}). Work on the rows with unbind(), "
        "on a dense tensor with to_padded_tensor(padding), or on the packed values()"
    )


class Nested(Interpreter):
    """Runs operators on nested tensors, before every transform that their values may belong to."""

    number = 1 << 62
    transparent = True

    def owns(self, tensor: Tensor) -> bool:
        return False

    def process(self, op: OpDef, args: Arguments) -> Any:
        found = RULES.get(op.name)
        if found is None:
            if op.kind is not Kind.POINTWISE:
                raise no_rule(op)
            found = RULES["pointwise"]
        return found(op, args)

    def write(self, target: Tensor, result: Tensor) -> None:
        check(isinstance(target, NestedTensor), "a nested tensor cannot be written to a dense one")
        assert isinstance(target, NestedTensor)
        values = matching_values(result, target, "an in-place operator")
        check_target(target._values, "an in-place operator")
        assign(target._values, values if values.dtype is target.dtype else values.to(target.dtype))

    def take_geometry(self, target: Tensor, view: Tensor) -> None:
        assert isinstance(target, NestedTensor)
        assert isinstance(view, NestedTensor)
        target._values, target._ragged, target._ragged_idx = view._values, view._ragged, view._ragged_idx
        target._spec = view._spec

    def keep_values(self, tensor: Tensor) -> None:
        assert isinstance(tensor, NestedTensor)
        tensor._values, tensor._storage = run_name("clone", tensor._values, None), None

    def read(self, tensor: Tensor) -> np.ndarray:
        raise TypeError(
            "a nested tensor is not one array: use values(), unbind() or to_padded_tensor(padding)"
        )


NESTED = Nested()

# Under capture a nested tensor is its values; the lengths of its rows are part of the structure of a call.
register_record(
    NestedTensor,
    lambda tensor: ((tensor._ragged, tensor._ragged_idx), [tensor._values]),
    lambda context, parts: nest(parts[0], *context),
)

BOOL = DTYPES["bool"]
