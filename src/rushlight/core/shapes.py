"""Integer arithmetic on shapes, strides and dimensions: the vocabulary of the shape rules.

Everything here is pure: tuples in, tuples out, no data. Strides count elements, not bytes. `Spec` is what a
shape rule returns: it describes a tensor without its data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .data_sizes import from_end, greatest, is_data, least
from .errors import check, fail
from .symbols import SizeTruth, exact, is_size

if TYPE_CHECKING:
    from .dtypes import DType

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """Shape, dtype and layout of an output.

    `strides` None means contiguous. `shape` None means that the shape depends on the data and is known only
    by running the kernel. For a view `offset` is its storage offset, in elements of `dtype`, and `conj`
    and `neg` are its
    lazy bits, None where they are those of its source.
    """

    shape: Shape | None
    dtype: DType
    strides: Shape | None = None
    offset: int = 0
    conj: bool | None = None
    neg: bool | None = None

    def known_shape(self) -> Shape:
        shape = self.shape
        if shape is None:
            raise NotImplementedError("the output's shape depends on data and cannot be inferred without it")
        return shape

    def sized(self, sizes: Mapping[Any, int]) -> Spec:
        """The spec with numbers in place of sizes that change."""
        return replace(
            self,
            shape=None if self.shape is None else evaluated(self.shape, sizes),
            strides=None if self.strides is None else evaluated(self.strides, sizes),
            offset=evaluated((self.offset,), sizes)[0],
        )

    def known_strides(self) -> Shape:
        return contiguous_strides(self.known_shape()) if self.strides is None else self.strides


def evaluated(shape: Sequence[Any], sizes: Mapping[Any, int]) -> Shape:
    """A shape with numbers in place of sizes that change."""
    return tuple([n.index.evaluate(sizes) if is_size(n) else n for n in shape])


def numel(shape: Iterable[int]) -> int:
    return math.prod(shape)


@functools.lru_cache(4096)
def strides_of_array(shape: Shape) -> Shape:
    """The strides of a contiguous array, whose sizes are numbers."""
    return contiguous_strides(shape)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size > 1 else 1
    return tuple(reversed(strides))


def channels_last_strides(shape: Sequence[int]) -> Shape:
    """Strides of an N, C, *spatial tensor whose memory order is N, *spatial, C."""
    order = (0, *range(2, len(shape)), 1)
    return strides_in_order(shape, order)


def strides_in_order(shape: Sequence[int], order: Sequence[int]) -> Shape:
    """Dense strides where `order` lists the dimensions from outermost to innermost in memory."""
    strides = [0] * len(shape)
    step = 1
    for dim in reversed(order):
        strides[dim] = step
        step *= shape[dim] if shape[dim] > 1 else 1
    return tuple(strides)


def extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    """How many elements of memory a tensor spans, from its first element to its last."""
    return 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


MAX_RANK = 64  # of arrays, which hold the values of tensors


def check_rank(shape: Sequence[int]) -> None:
    """RuntimeError for more dimensions than a tensor with data can have."""
    if len(shape) > MAX_RANK:
        raise RuntimeError(
            f"only tensors with up to {MAX_RANK} dims are supported, not {len(shape)}; "
            "squeeze() takes away those of size 1"
        )


def check_bytes(shape: Sequence[int], strides: Sequence[int] | None, itemsize: int, offset: int = 0) -> None:
    """RuntimeError unless the bytes that a tensor spans, and its elements, can be counted in 64 bits."""
    count = elements = 1
    for n in shape:
        count *= max(n, 1)
        elements *= n
    if strides is not None and elements:
        elements = extent(shape, strides) + offset
    if count >= 2**63 or elements * itemsize >= 2**63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)}"
            + ("" if strides is None else f" and strides={list(strides)}")
        )


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    if 0 in shape:
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def is_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True for a 4- or 5-dimensional tensor that is dense in channels-last order."""
    if len(shape) not in (4, 5):
        return False
    expected = 1
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        size = shape[dim]
        if size == 0:
            return True
        if size != 1:
            if strides[dim] != expected:
                return False
            expected *= size
    return True


def suggests_channels_last(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether new tensors made from a 4- or 5-dimensional one should be channels-last: its memory order is,
    gaps or not.

    Where size-1 dimensions leave the order open, the answer is no.
    """
    if len(shape) not in (4, 5) or 0 in shape or strides[1] == 0:
        return False
    inner = 0  # the least stride that a dimension outside of those seen so far can have
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[dim] < inner or (dim == 0 and inner == strides[1]):
            return False
        inner = strides[dim] * shape[dim]
    return True


def suggested_strides(
    shape: Sequence[int], like: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> Shape | None:
    """Strides of a new tensor of `shape`.

    Channels-last if all of `like`, as (shape, strides), suggest so, else None.
    """
    if len(shape) in (4, 5) and all(suggests_channels_last(*geometry) for geometry in like):
        return channels_last_strides(shape)
    return None


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Non-overlapping and dense: a permutation of a contiguous layout."""
    if numel(shape) < 2:
        return True
    expected = 1
    used = [(st, sz) for st, sz in zip(strides, shape, strict=True) if sz != 1]
    for stride, size in sorted(used, key=lambda pair: pair[0]):
        if stride != expected:
            return False
        expected *= size
    return True


def surely_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a tensor is dense whatever sizes that change are in a call: for choices, since one that is not
    surely dense may be so."""
    if not any(map(is_size, (*shape, *strides))):
        return _dense_numbers(tuple(shape), tuple(strides))
    sizes = [exact(n) for n in shape]
    if 0 in sizes:
        return True
    left = [(exact(stride), size) for stride, size in zip(strides, sizes, strict=True) if size != 1]
    expected: Any = 1
    while left:
        found = next((pair for pair in left if pair[0] == expected), None)
        if found is None:
            return False
        left.remove(found)
        expected = expected * found[1]
    return True


@functools.lru_cache(4096)
def _dense_numbers(shape: Shape, strides: Shape) -> bool:
    """What `is_dense` says of sizes that are numbers: a model has many tensors of few shapes."""
    return is_dense(shape, strides)


def preserved_strides(shape: Sequence[int], strides: Sequence[int]) -> Shape:
    """Strides of a copy that keeps the memory order of its source (memory_format=preserve_format)."""
    if is_dense(shape, strides):
        return tuple(strides)
    return strides_in_order(shape, memory_order(shape, strides))


def memory_order(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The dimensions from outermost to innermost in memory.

    Expanded dimensions (stride 0) keep their place.
    """
    return common_memory_order(shape, [strides])


def common_memory_order(shape: Sequence[int], inputs: Sequence[Sequence[int]]) -> list[int]:
    """`memory_order` for several tensors of one shape, the first that tells two dimensions apart deciding.

    An insertion sort, since "undecided" is not transitive: an undecided pair is skipped and the search goes
    on, as in PyTorch, so that both choose the same layout.
    """
    order = list(reversed(range(len(shape))))  # innermost first
    for i in range(1, len(order)):
        placed = i
        for j in range(i - 1, -1, -1):
            decided = _compare_dims(order[j], order[placed], shape, inputs)
            if decided > 0:
                order[j], order[placed] = order[placed], order[j]
                placed = j
            elif decided < 0:
                break
    return order[::-1]


def _compare_dims(a: int, b: int, shape: Sequence[int], inputs: Sequence[Sequence[int]]) -> int:
    """1 where dimension a must be outside of b in memory, -1 where inside, 0 where no input tells."""
    for strides in inputs:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return 1 if strides[a] > strides[b] else -1
        if shape[a] > shape[b]:
            return 1
    return 0


def elementwise_strides(shape: Shape, inputs: Sequence[tuple[Shape, Shape]]) -> Shape | None:
    """Strides of a pointwise result of `shape` for inputs given as (shape, strides); None when contiguous.

    The output follows the memory order of its inputs, the first input deciding where they disagree.
    """
    same = [strides for input_shape, strides in inputs if exact(input_shape) == exact(shape)]
    if len(same) == len(inputs):
        if all(is_contiguous(shape, strides) for strides in same):
            return None
        if is_dense(shape, same[0]) and all(strides == same[0] for strides in same):
            return same[0]
    padded = [_aligned_strides(shape, s, st) for s, st in inputs]
    strides = strides_in_order(shape, common_memory_order(shape, padded))
    return None if is_contiguous(shape, strides) else strides


def _aligned_strides(shape: Shape, input_shape: Shape, strides: Shape) -> Shape:
    lead = len(shape) - len(input_shape)
    return (0,) * lead + tuple(
        0 if size == 1 and out != 1 else stride
        for size, stride, out in zip(input_shape, strides, shape[lead:], strict=True)
    )


def broadcast_shapes(*shapes: Sequence[int], name: str = "") -> Shape:
    """The shape that all `shapes` broadcast to."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        lead = rank - len(shape)
        for i, size in enumerate(shape, lead):
            differs: Any = size != result[i]
            if size != 1 and (type(differs) is SizeTruth or differs):
                if result[i] != 1:
                    where = f"{name}: " if name else ""
                    listed = ", ".join(str(tuple(s)) for s in shapes)
                    check(
                        differs.negated() if type(differs) is SizeTruth else False,
                        f"{where}shapes {listed} cannot be broadcast together: dimension {i - rank} is "
                        f"{result[i]} "
                        f"in one and {size} in another; sizes must be equal or 1. The size of tensor a "
                        f"({result[i]}) must match the size of tensor b ({size}) at non-singleton "
                        f"dimension {i}",
                    )
                    continue  # data, which a run looks at
                result[i] = size
    return tuple(result)


def wrap_dim(dim: int, rank: int, *, name: str = "") -> int:
    """`dim` in 0..rank-1; 0-d tensors accept 0 and -1. IndexError when out of range."""
    limit = rank if rank > 0 else 1
    if not -limit <= dim < limit:
        where = f"{name}: " if name else ""
        raise IndexError(
            f"{where}Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], "
            f"but got {dim})"
        )
    return dim + limit if dim < 0 else dim


def wrap_dims(
    dims: Sequence[int] | int | None, rank: int, *, name: str = "", empty_is_all: bool = True
) -> Shape:
    """Sorted-as-given, wrapped and distinct dims; None (or an empty list, if so asked) means all of them."""
    if dims is None or (empty_is_all and not isinstance(dims, int) and len(dims) == 0):
        return tuple(range(rank))
    if isinstance(dims, int):
        dims = (dims,)
    wrapped = tuple(wrap_dim(d, rank, name=name) for d in dims)
    if len(set(wrapped)) != len(wrapped):
        repeated = next(d for d in wrapped if wrapped.count(d) > 1)
        where = f"{name}: " if name else ""
        fail(f"{where}dim {repeated} appears multiple times in the list of dims {tuple(dims)}")
    return wrapped


def slice_bounds(start: int | None, end: int | None, size: int) -> tuple[int, int]:
    """Where a slice with a positive step begins and ends in a dimension, as Python counts."""
    first, last = (
        default if at is None else least(greatest(from_end(at, size), 0), size)
        for at, default in ((start, 0), (end, size))
    )
    return first, last


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> Shape:
    """Shape after reducing the wrapped `dims`."""
    if keepdim:
        return tuple(1 if i in dims else size for i, size in enumerate(shape))
    return tuple(size for i, size in enumerate(shape) if i not in dims)


def given_size(size: int) -> int:
    """A size that a program gives, where -1 means something else: one that is data is none, or a run says so."""
    if is_data(size):
        check(size >= 0, f"a size that the program computes must not be negative, but is {size}")
    return size


def infer_size(shape: Sequence[int], count: int) -> Shape:
    """`shape` with its -1, if any, replaced so that it holds `count` elements."""
    known = 1
    unknown = None
    for i, size in enumerate(map(given_size, shape)):
        if size == -1:
            check(unknown is None, "only one dimension can be inferred")
            unknown = i
        else:
            check(size >= 0, f"invalid shape dimension {size}")
            known *= size
    if unknown is None:
        check(known == count, f"shape '{list(shape)}' is invalid for input of size {count}")
        return tuple(shape)
    check(
        known > 0,
        f"cannot reshape tensor of {count} elements into shape {list(shape)} because the unspecified "
        "dimension size -1 can be any value and is ambiguous",
    )
    check(count % known == 0, f"shape '{list(shape)}' is invalid for input of size {count}")
    return (*shape[:unknown], count // known, *shape[unknown + 1 :])


def view_strides(shape: Sequence[int], strides: Sequence[int], new_shape: Sequence[int]) -> Shape | None:
    """Strides that make `new_shape` a view of (shape, strides), or None where only a copy can have that
    shape.
    """
    if numel(shape) == 0:
        return tuple(strides) if tuple(shape) == tuple(new_shape) else contiguous_strides(new_shape)
    if not shape:
        return (1,) * len(new_shape)
    result = [0] * len(new_shape)
    new = len(new_shape) - 1
    block = 1  # elements of the current group of old dimensions that step evenly in memory
    filled = 1  # elements of the new dimensions placed in that group so far
    step = strides[-1]
    for old in range(len(shape) - 1, -1, -1):
        block *= shape[old]
        if old == 0 or (shape[old - 1] != 1 and strides[old - 1] != block * step):
            while new >= 0 and (filled < block or new_shape[new] == 1):
                result[new] = filled * step
                filled *= new_shape[new]
                new -= 1
            if filled != block:
                # as of a size that may be 0 or 1, and that is data; of others the question would be a guard
                unsure = any(map(is_data, (*shape, *new_shape)))
                return tuple(strides) if unsure and tuple(shape) == tuple(new_shape) else None
            if old > 0:
                step = strides[old - 1]
                block = filled = 1
    return tuple(result) if new == -1 else None
