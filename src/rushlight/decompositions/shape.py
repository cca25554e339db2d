"""Shape operators in terms of simpler ones: stacking, repeating, diagonals, grids, shuffles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from ..core.construct import tensor as constant
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.promotion import common
from ..core.registry import FUNCTION, INTERNAL, METHOD, OUT, composite
from ..core.shapes import Shape, Spec, broadcast_shapes, suggests_channels_last, wrap_dim
from ..core.tensor import Tensor
from ..core.tokens import channels_last, contiguous_format


def cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    return run_name("cat", tuple(tensors), dim)


def copied(view: Tensor, shape: Sequence[int]) -> Tensor:
    """A contiguous copy of `view`, in `shape`."""
    return run_name("_unsafe_view", run_name("clone", view, contiguous_format), tuple(shape))


# Joining.

composite(
    "concat(Tensor[] tensors, int dim=0) -> Tensor",
    "concatenate(Tensor[] tensors, int dim=0) -> Tensor",
    api=FUNCTION | OUT,
)(lambda tensors, dim: cat(tensors, dim))


@composite(
    "stack(Tensor[] tensors, int dim=0) -> Tensor",
    "_stack(Tensor[] tensors, int dim=0) -> Tensor",
    api=FUNCTION | OUT,
)
def stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    check(tensors, "stack expects a non-empty TensorList")
    first = tensors[0].shape
    dim = wrap_dim(dim, len(first) + 1, name="stack")
    for i, tensor in enumerate(tensors):
        check(
            tensor.shape == first,
            f"stack expects each tensor to be equal size, but got {list(first)} at "
            f"entry 0 and {list(tensor.shape)} at entry {i}",
        )
    if dim == len(first):
        return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)
    shape = (*first[:dim], len(tensors), *first[dim:])
    return run_name("_unsafe_view", cat(tensors, dim), shape)


def _stacking(
    name: str, schemas: Sequence[str], prepare: Callable[[Tensor], Tensor], dim: Callable[[Tensor], int]
) -> None:
    @composite(*[f"{schema}(Tensor[] tensors) -> Tensor" for schema in schemas], api=FUNCTION | OUT)
    def joined(tensors: Sequence[Tensor]) -> Tensor:
        check(tensors, f"{name} expects a non-empty TensorList")
        parts = [prepare(tensor) for tensor in tensors]
        return cat(parts, dim(parts[0]))


def _atleast(count: int) -> Callable[[Tensor], Tensor]:
    return lambda tensor: run_name(f"atleast_{count}d", tensor)


def _column(tensor: Tensor) -> Tensor:
    return tensor.reshape((tensor.numel(), 1)) if tensor.ndim <= 1 else tensor


_stacking("hstack", ["hstack"], _atleast(1), lambda first: 0 if first.ndim == 1 else 1)
_stacking("vstack", ["vstack", "row_stack"], _atleast(2), lambda first: 0)
_stacking("dstack", ["dstack"], _atleast(3), lambda first: 2)
_stacking("column_stack", ["column_stack"], _column, lambda first: 1)


@composite("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", api=FUNCTION | OUT)
def chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    check(tensors, "_chunk_cat expects a non-empty input tensor list")
    check(num_chunks >= 1, "_chunk_cat expects positive num_chunks")
    dim = wrap_dim(dim, tensors[0].ndim, name="_chunk_cat")
    parts = []
    for tensor in tensors:
        check(tensor.numel(), "_chunk_cat expects non-empty tensor")
        check(tensor.dtype is tensors[0].dtype, "_chunk_cat expects all input tensors with the same dtype")
        check(dim < tensor.ndim, "_chunk_cat expects dim < ndim for all input tensors")
        check(
            tensor.shape[:dim] == tensors[0].shape[:dim],
            "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors",
        )
        missing = -tensor.shape[dim] % num_chunks
        if missing:
            tensor = run_name("constant_pad_nd", tensor, (0, 0) * (tensor.ndim - dim - 1) + (0, missing), 0)
        parts.append(tensor.reshape((*tensor.shape[:dim], num_chunks, -1)))
    return cat(parts, dim + 1)


@composite("block_diag(Tensor[] tensors) -> Tensor", api=INTERNAL)
def block_diag(tensors: Sequence[Tensor]) -> Tensor:
    if not tensors:
        return run_name("zeros", (1, 0), None, None, None, None)
    dtype = common([(t.dtype, False) for t in tensors])
    matrices = []
    for i, tensor in enumerate(tensors):
        check(
            tensor.ndim <= 2,
            f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
            f"{tensor.ndim} dimensions",
        )
        matrices.append(run_name("atleast_2d", tensor).to(dtype))
    total, before = sum(m.shape[1] for m in matrices), 0
    rows = []
    for matrix in matrices:
        width = matrix.shape[1]
        rows.append(run_name("constant_pad_nd", matrix, (before, total - before - width), 0))
        before += width
    return cat(rows, 0)


# Reordering.


@composite("fliplr(Tensor self) -> Tensor")
def fliplr(self: Tensor) -> Tensor:
    check(self.ndim >= 2, "Input must be >= 2-d.")
    return self.flip((1,))


@composite("flipud(Tensor self) -> Tensor")
def flipud(self: Tensor) -> Tensor:
    check(self.ndim >= 1, "Input must be >= 1-d.")
    return self.flip((0,))


@composite("rot90(Tensor self, int k=1, int[] dims=[0, 1]) -> Tensor", api=FUNCTION | METHOD)
def rot90(self: Tensor, k: int, dims: Shape) -> Tensor:
    check(len(dims) == 2, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    check(self.ndim >= 2, f"expected total dims >= 2, but got total dims = {self.ndim}")
    check(
        dims[0] != dims[1] and abs(dims[0] - dims[1]) != self.ndim,
        f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}",
    )
    for dim in dims:
        wrap_dim(dim, self.ndim, name="rot90")
    if k % 4 == 1:
        return self.flip((dims[1],)).transpose(dims[0], dims[1])
    if k % 4 == 2:
        return self.flip(dims)
    if k % 4 == 3:
        return self.flip((dims[0],)).transpose(dims[0], dims[1])
    return run_name("clone", self, contiguous_format)


# Repeating.


@composite("repeat(Tensor self, SymInt[] repeats) -> Tensor", api=METHOD)
def repeat(self: Tensor, repeats: Shape) -> Tensor:
    lead = len(repeats) - self.ndim
    check(
        lead >= 0,
        "repeat: Number of dimensions of repeat dims can not be smaller than number of "
        f"dimensions of tensor: {list(repeats)} for a tensor of shape {list(self.shape)}",
    )
    for n in repeats:
        check(n >= 0, f"repeat: the repeats must not be negative, got {list(repeats)}")
    shape = (1,) * lead + tuple(self.shape)
    apart = self.reshape([n for size in shape for n in (1, size)])
    return copied(
        apart.expand([n for pair in zip(repeats, shape, strict=True) for n in pair]),
        [times * size for times, size in zip(repeats, shape, strict=True)],
    )


composite("tile(Tensor self, SymInt[] dims) -> Tensor")(
    lambda self, dims: repeat(self, (1,) * (self.ndim - len(dims)) + tuple(dims))
)


def _repeated_dim(self: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """What to repeat, and along which dimension: without a `dim` the elements in order."""
    if dim is None:
        return self.flatten(), 0
    check(
        self.ndim, f"repeat_interleave: Dimension specified as {dim} but tensor has no dimensions", IndexError
    )
    return self, wrap_dim(dim, self.ndim, name="repeat_interleave")


@composite(
    "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? "
    "output_size=None) -> Tensor",
    shape=lambda self, output_size: Spec(None, self.dtype) if output_size is None else None,
)
def repeat_interleave(self: Tensor, repeats: Tensor, dim: int | None, output_size: int | None) -> Tensor:
    check(repeats.ndim <= 1, "repeats must be 0-dim or 1-dim tensor")
    self, dim = _repeated_dim(self, dim)
    size = self.shape[dim]
    if repeats.numel() == 1:
        repeats = repeats.reshape((1,)).expand((size,))
    else:
        check(
            repeats.shape[0] == size,
            "repeats must have the same size as input along dim, but got "
            f"repeats.size(0) = {repeats.shape[0]} and input.size({dim}) = {size}",
        )
    return self.index_select(dim, run_name("repeat_interleave.Tensor", repeats, output_size))


@composite(
    "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? "
    "output_size=None) -> Tensor"
)
def repeat_interleave_int(self: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    self, dim = _repeated_dim(self, dim)
    check(repeats >= 0, "repeat_interleave: Repeats must be non-negative")
    shape = self.shape
    total = shape[dim] * repeats
    check(
        output_size in (None, total),
        f"repeat_interleave: Invalid output_size {output_size}, expected {total}",
    )
    apart = self.reshape((*shape[: dim + 1], 1, *shape[dim + 1 :]))
    return copied(
        apart.expand((*shape[: dim + 1], repeats, *shape[dim + 1 :])),
        (*shape[:dim], total, *shape[dim + 1 :]),
    )


# Diagonals.


@composite("diag(Tensor self, int diagonal=0) -> Tensor", api=FUNCTION | METHOD | OUT)
def diag(self: Tensor, diagonal: int) -> Tensor:
    check(self.ndim in (1, 2), f"diag(): Supports 1D or 2D tensors. Got {self.ndim}D")
    if self.ndim == 1:
        return diag_embed(self, diagonal, -2, -1)
    return run_name("diagonal_copy", self, diagonal, 0, 1)


@composite("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor")
def diag_embed(self: Tensor, offset: int, dim1: int, dim2: int) -> Tensor:
    rank = self.ndim + 1
    first, second = wrap_dim(dim1, rank, name="diag_embed"), wrap_dim(dim2, rank, name="diag_embed")
    check(first != second, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    check(self.ndim, "diag_embed: a 0-dim tensor has no diagonal to embed", IndexError)
    shape = list(self.shape[:-1])
    size = self.shape[-1] + abs(offset)
    for dim in sorted((first, second)):
        shape.insert(dim, size)
    return self.new_zeros(shape).diagonal_scatter(self, offset, first, second)


composite("diagflat(Tensor self, int offset=0) -> Tensor")(
    lambda self, offset: diag(self.reshape((-1,)), offset)
)


# Grids.


@composite("meshgrid.indexing(Tensor[] tensors, *, str indexing) -> Tensor[]", api=INTERNAL)
def meshgrid(tensors: Sequence[Tensor], indexing: str) -> tuple[Tensor, ...]:
    check(tensors, "meshgrid expects a non-empty TensorList")
    for tensor in tensors:
        check(
            tensor.ndim <= 1,
            "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: a "
            f"tensor of shape {list(tensor.shape)}",
        )
        check(tensor.dtype is tensors[0].dtype, "torch.meshgrid expects all tensors to have the same dtype")
        check(
            tensor.device == tensors[0].device, "torch.meshgrid expects all tensors to have the same device"
        )
    check(indexing in ("ij", "xy"), f'torch.meshgrid: indexing must be one of "xy" or "ij", not {indexing!r}')
    swap = indexing == "xy" and len(tensors) >= 2
    ordered = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    shape = [tensor.numel() for tensor in ordered]
    rank = len(shape)
    grids = [
        tensor.view((1,) * i + (-1,) + (1,) * (rank - 1 - i)).expand(shape)
        for i, tensor in enumerate(ordered)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


composite("meshgrid(Tensor[] tensors) -> Tensor[]", api=INTERNAL)(lambda tensors: meshgrid(tensors, "ij"))


@composite("broadcast_tensors(Tensor[] tensors) -> Tensor[]", api=INTERNAL)
def broadcast_tensors(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    shape = broadcast_shapes(*[tensor.shape for tensor in tensors], name="broadcast_tensors")
    return tuple([tensor.expand(shape) for tensor in tensors])


@composite("cartesian_prod(Tensor[] tensors) -> Tensor", api=INTERNAL)
def cartesian_prod(tensors: Sequence[Tensor]) -> Tensor:
    for tensor in tensors:
        check(tensor.ndim == 1, f"cartesian_prod: Expect a 1D vector, but got shape {list(tensor.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([grid.reshape((-1,)) for grid in meshgrid(tensors, "ij")], 1)


@composite("combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor", api=FUNCTION)
def combinations(self: Tensor, r: int, with_replacement: bool) -> Tensor:
    check(self.ndim == 1, f"combinations: Expect a 1D vector, but got shape {list(self.shape)}")
    check(r >= 0, f"combinations: Expect a non-negative number, but got {r}")
    if r == 0:
        return self.new_zeros((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(itertools.chain.from_iterable(choose(range(self.numel()), r)))
    index = constant(chosen, dtype=DTYPES["int64"], device=self.device)
    return self.index_select(0, index).view((-1, r) if chosen else (0, r))


# Shuffles.


def _in_format_of(result: Tensor, self: Tensor) -> Tensor:
    if suggests_channels_last(self.shape, self.strides()) and result.ndim == 4:
        return result.contiguous(memory_format=channels_last)
    return result


@composite("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", api=FUNCTION)
def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    r = upscale_factor
    check(
        self.ndim >= 3,
        "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
        f"{self.ndim} dimension(s)",
    )
    check(r > 0, f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *batch, channels, height, width = self.shape
    check(
        channels % (r * r) == 0,
        "pixel_shuffle expects its input's 'channel' dimension to be divisible by "
        f"the square of upscale_factor, but input.size(-3)={channels} is not divisible by {r * r}",
    )
    n = math.prod(batch)
    c = channels // (r * r)
    apart = self.reshape((n, c, r, r, height, width)).permute((0, 1, 4, 2, 5, 3))
    return _in_format_of(copied(apart, (*batch, c, height * r, width * r)), self)


@composite("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", api=FUNCTION)
def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    r = downscale_factor
    check(
        self.ndim >= 3,
        "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
        f"{self.ndim} dimension(s)",
    )
    check(r > 0, f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *batch, c, height, width = self.shape
    for name, size, position in (("height", height, -2), ("width", width, -1)):
        check(
            size % r == 0,
            f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
            f"input.size({position})={size} is not divisible by {r}",
        )
    n = math.prod(batch)
    apart = self.reshape((n, c, height // r, r, width // r, r)).permute((0, 1, 3, 5, 2, 4))
    return _in_format_of(copied(apart, (*batch, c * r * r, height // r, width // r)), self)


@composite(
    "channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    "native_channel_shuffle(Tensor self, SymInt groups) -> Tensor",
    api=FUNCTION,
)
def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    check(
        self.ndim >= 3,
        f"channel_shuffle expects input with >= 3 dims, but got input with sizes {list(self.shape)}",
    )
    check(groups > 0, f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = self.shape
    check(
        c % groups == 0,
        f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.",
    )
    apart = self.reshape((n, groups, c // groups, *rest)).transpose(1, 2)
    return _in_format_of(copied(apart, self.shape), self)
