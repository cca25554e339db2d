"""Means and maxima of windows, in terms of slices, selections and sums.

A window of several dimensions is a window along each: its sum is the sum of sums, its maximum the maximum of
maxima. So most pools go along one dimension after the other, tap by tap: tap t of all windows is a slice of
the input, or a selection where windows reach over its ends or differ in size. As in PyTorch the first of
equal maxima counts and the last NaN; indices are positions in the flattened plane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from math import inf, prod

from ..core.determinism import alert
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType, iinfo
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.shapes import Shape, numel, suggests_channels_last
from ..core.tensor import Tensor
from ..core.tokens import channels_last, channels_last_3d
from ..ops.dtype_sets import FLOATS, REAL_NUMBERS
from ..ops.pooling import Line, adaptive_sizes, check_input, lines

INT32, INT64 = DTYPES["int32"], DTYPES["int64"]
MEANS = FLOATS | {INT64}
FEW_TAPS = 9  # of a window, which are compared one after the other: one pass over the input

Taps = Callable[[Tensor, int], Iterator[tuple[Tensor, Tensor]]]  # of a tensor, along a dimension


def counted(count: int, like: Tensor) -> Tensor:
    return run_name("arange", count, INT64, None, like.device, None)


def quotient(x: Tensor, by: int) -> Tensor:
    """x divided by a positive number, rounded down."""
    return run_name("div.Scalar_mode", x, by, "floor")


def shaped(x: Tensor, dim: int) -> Tensor:
    """A vector along dimension `dim`, which is negative."""
    return x.reshape((-1, *[1] * (-dim - 1)))


# Taps of windows.


def taps(x: Tensor, dim: int, line: Line) -> Iterator[tuple[Tensor, Tensor]]:
    """Tap by tap of all windows along `dim`: elements and their positions.

    Where a tap lies outside of the input, another one of the same window comes again.
    """
    places = counted(line.count, x)
    if line.inside:
        for tap in range(line.kernel):
            start = tap * line.dilation
            end = start + (line.count - 1) * line.stride + 1
            yield run_name("slice.Tensor", x, dim, start, end, line.stride), places * line.stride + start
        return
    starts = places * line.stride - line.padding
    first = (-quotient(starts, line.dilation)).clamp_min(0)
    last = quotient(line.size - 1 - starts, line.dilation).clamp_max(line.kernel - 1)
    if line.dilation > line.size:
        yield from _sparse_taps(x, dim, line, starts, first, last)
        return
    for tap in range(line.kernel):
        at = starts + run_name("minimum", first.clamp_min(tap), last) * line.dilation
        yield run_name("index_select", x, dim, at), at


def _sparse_taps(
    x: Tensor, dim: int, line: Line, starts: Tensor, first: Tensor, last: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Taps so far apart that a window may have none inside of the input: it has the least value there is, at
    the first place after the end."""
    empty = first > last
    least = -inf if x.dtype.is_floating_point else iinfo(x.dtype).min
    for tap in range(line.kernel):
        inside = starts + run_name("minimum", first.clamp_min(tap), last) * line.dilation
        value = run_name("index_select", x, dim, inside.clamp(0, line.size - 1))
        place = chosen(empty, starts + first * line.dilation, inside)
        yield value.masked_fill(shaped(empty, dim), least), place


def adaptive_ends(size: int, count: int, like: Tensor) -> tuple[Tensor, Tensor, int]:
    """Starts and ends of `count` windows that cover `size` elements evenly, and the most elements of one.

    The windows that an element lies in are found by the same rule with `size` and `count` exchanged.
    """
    places = counted(count, like)
    starts, ends = quotient(places * size, count), quotient((places + 1) * size + (count - 1), count)
    return starts, ends, max(-(-(i + 1) * size // count) - i * size // count for i in range(count))


def adaptive_taps(x: Tensor, dim: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """As `taps`, of adaptive windows."""
    starts, ends, most = adaptive_ends(x.shape[dim], count, x)
    for tap in range(most):
        at = run_name("minimum", starts + tap, ends - 1)
        yield run_name("index_select", x, dim, at), at


def laid_out(x: Tensor, like: Tensor) -> Tensor:
    """x with its channels last in memory if `like` has them so, else contiguous."""
    if suggests_channels_last(like.shape, like.strides()):
        return x.contiguous(memory_format=channels_last if x.ndim == 4 else channels_last_3d)
    return x.contiguous()


# Maxima.


def chosen(condition: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    return run_name("where.self", condition, yes, no)


def largest(candidates: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The largest of tensors element by element, and its place; candidates are values with their places."""
    found = where = None
    for value, place in candidates:
        if found is None or where is None:
            found, where = value, place.expand(value.shape)
            continue
        better = value > found
        if value.dtype.is_floating_point:
            better = better | value.isnan()
        found, where = chosen(better, value, found), chosen(better, place, where)
    assert found is not None
    assert where is not None
    return found, where


def places_dtype(plane: Sequence[int]) -> DType:
    """What positions in a plane are computed in: half the memory, twice the elements of a vector."""
    return INT32 if numel(plane) < 1 << 31 else INT64


def plane_taps(x: Tensor, all_taps: Sequence[Taps], kind: DType) -> Iterator[tuple[Tensor, Tensor]]:
    """Tap by tap of windows over several dimensions, in row-major order: elements and their positions in the
    plane, as numbers of dtype `kind`."""
    dim, width = -len(all_taps), numel(x.shape[x.ndim - len(all_taps) + 1 :])
    for value, at in all_taps[0](x, dim):
        place = shaped(at.to(kind), dim) * width
        if len(all_taps) == 1:
            yield value, place
        else:
            yield from ((inner, place + beside) for inner, beside in plane_taps(value, all_taps[1:], kind))


def maxima(
    x: Tensor, all_taps: Sequence[Taps], adaptive: bool = False, together: bool = False
) -> tuple[Tensor, Tensor]:
    """Maxima of windows and their positions in the plane; `all_taps` give the taps along each dimension.

    `together`: all taps of a window one after the other, rather than along one dimension after the other.
    """
    rank, source = len(all_taps), x
    if together:
        x, places = largest(plane_taps(x, all_taps, places_dtype(x.shape[-rank:])))
        return laid_out(x, source), laid_out(places.to(INT64), source)
    width, known = 1, None
    for dim, taps_along in zip(range(-1, -rank - 1, -1), reversed(all_taps), strict=True):
        size = x.shape[dim]
        before = repeat(None) if known is None else (index for index, _ in taps_along(known, dim))
        x, known = largest(
            (value, shaped(at, dim) * width + (0 if index is None else index))
            for (value, at), index in zip(taps_along(x, dim), before, strict=False)
        )
        width *= size
    assert known is not None
    if rank == 3 and adaptive:
        return x.contiguous(), known.contiguous()
    return laid_out(x, source), laid_out(known, source)


def at_places(x: Tensor, indices: Tensor, rank: int) -> Tensor:
    """The elements of the planes of x at flat positions."""
    return x.flatten(-rank).gather(-1, indices.flatten(-rank)).reshape(indices.shape)


def to_places(grad: Tensor, indices: Tensor, like: Tensor, rank: int) -> Tensor:
    """Zeros of the shape of `like`, with grad added at flat positions of the planes."""
    check(
        tuple(grad.shape) == tuple(indices.shape),
        f"max pool backward: expected a gradient of shape {list(indices.shape)}, but got {list(grad.shape)}",
    )
    zeros = grad.new_zeros((*like.shape[:-rank], numel(like.shape[-rank:])))
    found = zeros.scatter_add(-1, indices.flatten(-rank), grad.flatten(-rank)).reshape(like.shape)
    return laid_out(found, like) if rank == 2 else found


def to_windows(grad: Tensor, indices: Tensor, like: Tensor, along: Sequence[Line]) -> Tensor:
    """As `to_places`, of windows that lie side by side: every element of the planes asks whether it is the
    one that its window has chosen."""
    check(
        tuple(grad.shape) == tuple(indices.shape),
        f"max pool backward: expected a gradient of shape {list(indices.shape)}, but got {list(grad.shape)}",
    )
    rank = len(along)
    plane, lead = tuple(like.shape[-rank:]), tuple(like.shape[:-rank])
    one_each = (*lead, *(n for line in along for n in (line.count, 1)))
    repeated = (*lead, *(n for line in along for n in (line.count, line.stride)))
    kind = places_dtype(plane)
    spread, places = (
        x.reshape(one_each).expand(repeated).reshape(like.shape) for x in (grad, indices.to(kind))
    )
    here = places == counted(numel(plane), grad).to(kind).reshape(plane)
    found = chosen(here, spread, grad.new_zeros(()))
    return laid_out(found, like) if rank == 2 else found


def side_by_side(along: Sequence[Line]) -> bool:
    """Whether every element of the input lies in one window's stretch of the plane."""
    return all(
        line.inside
        and line.dilation == 1
        and line.kernel <= line.stride
        and line.size == line.count * line.stride
        for line in along
    )


def _declare_max(rank: int) -> None:
    name = f"max_pool{rank}d"
    more = (
        f"int[{rank}] kernel_size, int[{rank}] stride=[], int[{rank}] padding=0, int[{rank}] dilation=1, "
        "bool ceil_mode=False"
    )

    @composite(f"{name}_with_indices(Tensor self, {more}) -> (Tensor, Tensor)", api=INTERNAL)
    def with_indices(
        self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
    ) -> tuple[Tensor, Tensor]:
        along = lines(self, rank, kernel_size, stride, padding, dilation, ceil_mode, name)
        check_input(self, rank, REAL_NUMBERS, name)
        together = all(line.inside for line in along) and prod(line.kernel for line in along) <= FEW_TAPS
        return maxima(self, [partial(taps, line=line) for line in along], together=together)

    @composite(
        f"{name}_with_indices_backward(Tensor grad_output, Tensor self, int[{rank}] kernel_size, "
        f"int[{rank}] stride, int[{rank}] padding, int[{rank}] dilation, bool ceil_mode, Tensor "
        "indices) -> Tensor",
        api=INTERNAL,
    )
    def backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        return to_places(grad_output, indices, self, rank)

    @composite(
        f"_{name}_gradient(Tensor grad, Tensor indices, Tensor self, int[{rank}] kernel_size, "
        f"int[{rank}] stride, int[{rank}] padding, int[{rank}] dilation, bool ceil_mode) -> Tensor",
        api=INTERNAL,
    )
    def gradient(
        grad: Tensor,
        indices: Tensor,
        self: Tensor,
        kernel_size: Shape,
        stride: Shape,
        padding: Shape,
        dilation: Shape,
        ceil_mode: bool,
    ) -> Tensor:
        """The gradient of the input, for indices that the operator has found."""
        along = lines(self, rank, kernel_size, stride, padding, dilation, ceil_mode, name)
        if side_by_side(along) and numel(self.shape):
            return to_windows(grad, indices, self, along)
        return to_places(grad, indices, self, rank)

    @composite(f"{name}(Tensor self, {more}) -> Tensor", api=FUNCTION)
    def max_pool(
        self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
    ) -> Tensor:
        return run_name(f"{name}_with_indices", self, kernel_size, stride, padding, dilation, ceil_mode)[0]


for _rank in (2, 3):
    _declare_max(_rank)

_MAX1 = "int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False"


@composite(f"max_pool1d_with_indices(Tensor self, {_MAX1}) -> (Tensor, Tensor)", api=FUNCTION)
def max_pool1d_with_indices(
    self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    check_input(self, 1, REAL_NUMBERS, "max_pool1d")
    for word, given in (
        ("kernel_size", kernel_size),
        ("stride", stride),
        ("padding", padding),
        ("dilation", dilation),
    ):
        check(
            len(given) == 1 or (word == "stride" and not given),
            f"max_pool1d() {word} must be an int, "
            f"list of ints or tuple of ints of size 1 but got size {len(given)}",
        )
    found = run_name(
        "max_pool2d_with_indices",
        self.unsqueeze(-2),
        (1, *kernel_size),
        (1, *(stride or kernel_size)),
        (0, *padding),
        (1, *dilation),
        ceil_mode,
    )
    return found[0].squeeze(-2), found[1].squeeze(-2)


@composite(f"max_pool1d(Tensor self, {_MAX1}) -> Tensor", api=FUNCTION)
def max_pool1d(
    self: Tensor, kernel_size: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Tensor:
    if not self.dtype.is_quantized:  # whose pool checks for itself
        check_input(self, 1, FLOATS, "max_pool1d")
    return run_name("max_pool1d_with_indices", self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@composite(
    "max_pool2d_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride=[], "
    "int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
    api=INTERNAL,
)
def max_pool2d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    ceil_mode: bool,
) -> Tensor:
    indices = run_name("max_pool2d_with_indices", self, kernel_size, stride, padding, dilation, ceil_mode)[1]
    return to_places(grad_output, indices, self, 2)


def check_windows(grad_output: Tensor, name: str) -> None:
    """Refuse the gradient of an adaptive pool that has no windows."""
    check(
        0 not in grad_output.shape[1:],
        f"{name}_backward: Expected grad_output to have non-zero size for "
        f"non-batch dimensions, but its shape is {list(grad_output.shape)}",
    )


def _declare_adaptive_max(rank: int) -> None:
    name = f"adaptive_max_pool{rank}d"

    @composite(f"{name}(Tensor self, int[{rank}] output_size) -> (Tensor, Tensor)", api=INTERNAL)
    def adaptive_max_pool(self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
        sizes = adaptive_sizes(self, rank, output_size, FLOATS, name)
        check(
            0 not in self.shape[1:],
            f"{name}: Expected input to have non-zero size for non-batch "
            f"dimensions, but input has sizes {list(self.shape)}",
        )
        if 0 in sizes:
            empty = self.new_zeros((*self.shape[:-rank], *sizes))
            return empty, empty.to(INT64)
        return maxima(self, [partial(adaptive_taps, count=count) for count in sizes], adaptive=True)

    @composite(f"{name}_backward(Tensor grad_output, Tensor self, Tensor indices) -> Tensor", api=INTERNAL)
    def backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        check_windows(grad_output, name)
        return to_places(grad_output, indices, self, rank)


for _rank in (2, 3):
    _declare_adaptive_max(_rank)


@composite("adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", api=FUNCTION)
def adaptive_max_pool1d(self: Tensor, output_size: Shape) -> tuple[Tensor, Tensor]:
    sizes = adaptive_sizes(self, 1, output_size, FLOATS, "adaptive_max_pool1d")
    values, indices = run_name("adaptive_max_pool2d", self.unsqueeze(-2), (1, *sizes))
    return values.squeeze(-2), indices.squeeze(-2)


# Back from maxima.


def unpooled(self: Tensor, indices: Tensor, output_size: Shape, rank: int) -> Tensor:
    """Zeros of a given size with the elements of self at flat positions of the planes."""
    name = f"max_unpool{rank}d"
    check(
        indices.dtype is INT64,
        f"{name}: elements in indices should be type int64 but got: {indices.dtype.name}",
    )
    check(
        len(output_size) == rank,
        f"{name}: There should be exactly {rank} elements in output_size, but "
        f"got {len(output_size)} elements.",
    )
    check(
        self.ndim in (rank + 1, rank + 2),
        f"{name}: Input to {name} should be a {rank + 1}d or "
        f"{rank + 2}d Tensor, but got a tensor with {self.ndim} dimensions.",
    )
    check(
        tuple(self.shape) == tuple(indices.shape),
        f"{name}: Expected shape of indices to be same as that "
        f"of the input tensor ({list(self.shape)}) but got indices tensor with shape: "
        f"{list(indices.shape)}",
    )
    check(
        0 not in self.shape[1:],
        f"{name}: Expected input to have non-zero size for non-batch dimensions, but got {list(self.shape)}",
    )
    check(
        self.dtype in FLOATS, f"\"{name}\" not implemented for '{self.dtype.torch_name}'", NotImplementedError
    )
    zeros = self.new_zeros((*self.shape[:-rank], numel(output_size)))
    filled = zeros.scatter(-1, indices.flatten(-rank), self.flatten(-rank))
    return laid_out(filled.reshape((*self.shape[:-rank], *output_size)), self)


@composite("max_unpool2d(Tensor self, Tensor indices, SymInt[2] output_size) -> Tensor", api=INTERNAL)
def max_unpool2d(self: Tensor, indices: Tensor, output_size: Shape) -> Tensor:
    alert("max_unpooling2d_forward_out")
    return unpooled(self, indices, output_size, 2)


@composite(
    "max_unpool3d(Tensor self, Tensor indices, SymInt[3] output_size, int[3] stride, int[3] padding) "
    "-> Tensor",
    api=INTERNAL,
)
def max_unpool3d(self: Tensor, indices: Tensor, output_size: Shape, stride: Shape, padding: Shape) -> Tensor:
    alert("max_unpooling3d_forward_out")
    check(
        len(stride) == 3 and min(stride) > 0,
        f"max_unpool3d: strides should be three and greater than zero, but got stride: {list(stride)}",
    )
    check(
        len(padding) == 3,
        f"max_unpool3d: There should be exactly 3 elements in padding, but got {list(padding)}",
    )
    return unpooled(self, indices, output_size, 3)


# Random windows.
