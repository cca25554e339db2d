"""Views: each is a rule that gives shape, strides and offset over the storage of its first argument.

`detach`, `view.dtype` and those whose schema declares no alias (`_unsafe_view`, `unsafe_split`) share memory
like the others, but the runtime does not track them as views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.data_sizes import from_end, greatest, is_data, learn_order, shorter
from ..core.dtypes import DTYPES, DType
from ..core.errors import check, fail
from ..core.registry import FUNCTION, INPLACE, INPLACE_METHOD, INTERNAL, METHOD, view
from ..core.shapes import (
    Shape,
    Spec,
    extent,
    given_size,
    infer_size,
    slice_bounds,
    view_strides,
    wrap_dim,
    wrap_dims,
)
from ..core.tensor import Tensor
from ..core.traits import Trait

_OWN_GEOMETRY = FUNCTION | METHOD | INPLACE_METHOD  # the in-place form changes the tensor's own geometry


def over(self: Tensor, shape: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Spec:
    """A view of `self` with the given geometry; its own storage offset unless told otherwise."""
    return Spec(tuple(shape), self.dtype, tuple(strides), self.storage_offset() if offset is None else offset)


def geometry(self: Tensor) -> tuple[list[int], list[int]]:
    return list(self.shape), list(self.strides())


view("alias(Tensor(a) self) -> Tensor(a)", lambda self: self.spec(), api=INTERNAL)
view("detach(Tensor(a) self) -> Tensor(a)", lambda self: self.spec(), tracked=False)


# Any geometry.


@view(
    "as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None) -> Tensor(a)",
    api=FUNCTION | METHOD | INPLACE,
    traits=Trait.GAPS | Trait.STORAGE,
)
def as_strided(self: Tensor, size: Shape, stride: Shape, storage_offset: int | None) -> Spec:
    check(
        len(size) == len(stride), f"as_strided: size has {len(size)} dimensions but stride has {len(stride)}"
    )
    check(all(n >= 0 for n in size), f"as_strided: sizes must not be negative, got {list(size)}")
    check(
        all(s >= 0 for s in stride),
        f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}",
    )
    offset = self.storage_offset() if storage_offset is None else storage_offset
    check(offset >= 0, f"as_strided: the storage offset must not be negative, got {offset}")
    if 0 not in size and not self.is_meta:
        needed = (offset + extent(size, stride)) * self.dtype.itemsize
        available = self.storage_object.nbytes()
        check(
            needed <= available,
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset "
            f"{offset} and itemsize {self.dtype.itemsize} require a storage size of {needed} bytes, which "
            f"is out of bounds for storage of size {available}",
        )
    return over(self, size, stride, offset)


view(
    "_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] stride) -> Tensor(a)",
    lambda self, size, stride: over(self, size, stride),
    api=INTERNAL,
)


def viewed(self: Tensor, size: Shape) -> Spec:
    shape = infer_size(size, self.numel())
    strides = view_strides(self.shape, self.strides(), shape)
    if strides is None:
        fail(
            f"view: a tensor of shape {list(self.shape)} and strides {list(self.strides())} has no view of "
            f"shape {list(shape)}: at least one new dimension spans two memory blocks. Use .reshape(...) "
            "instead."
        )
    return over(self, shape, strides)


view("view(Tensor(a) self, SymInt[] size) -> Tensor(a)", viewed, api=METHOD)
view("_unsafe_view(Tensor self, SymInt[] size) -> Tensor", viewed, api=INTERNAL)


# The order of dimensions.


@view("transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", api=_OWN_GEOMETRY)
def transpose(self: Tensor, dim0: int, dim1: int) -> Spec:
    a, b = wrap_dim(dim0, self.ndim, name="transpose"), wrap_dim(dim1, self.ndim, name="transpose")
    shape, strides = geometry(self)
    if shape:
        shape[a], shape[b] = shape[b], shape[a]
        strides[a], strides[b] = strides[b], strides[a]
    return over(self, shape, strides)


@view("t(Tensor(a) self) -> Tensor(a)", api=_OWN_GEOMETRY)
def t(self: Tensor) -> Spec:
    check(self.ndim <= 2, f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D")
    return transpose(self, 0, 1) if self.ndim == 2 else self.spec()


@view("permute(Tensor(a) self, int[] dims) -> Tensor(a)")
def permute(self: Tensor, dims: Shape) -> Spec:
    check(
        len(dims) == self.ndim,
        f"permute: the tensor has {self.ndim} dimensions but the order "
        f"{list(dims)} names {len(dims)}; each must be named once",
    )
    order = wrap_dims(dims, self.ndim, name="permute", empty_is_all=False)
    shape, strides = self.shape, self.strides()
    return over(self, [shape[d] for d in order], [strides[d] for d in order])


# Dimensions of size one, and broadcast dimensions.


def without(self: Tensor, dims: Shape) -> Spec:
    """`self` without those of `dims` that have size 1."""
    shape, strides = self.shape, self.strides()
    kept = [d for d in range(self.ndim) if d not in dims or shape[d] != 1]
    return over(self, [shape[d] for d in kept], [strides[d] for d in kept])


view(
    "squeeze(Tensor(a) self) -> Tensor(a)",
    lambda self: without(self, tuple(range(self.ndim))),
    api=_OWN_GEOMETRY,
)
view(
    "squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)",
    lambda self, dim: without(self, (wrap_dim(dim, self.ndim, name="squeeze"),)),
    api=_OWN_GEOMETRY,
)
view(
    "squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)",
    lambda self, dim: without(self, wrap_dims(dim, self.ndim, name="squeeze", empty_is_all=False)),
    api=_OWN_GEOMETRY,
)


@view("unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", api=_OWN_GEOMETRY)
def unsqueeze(self: Tensor, dim: int) -> Spec:
    dim = wrap_dim(dim, self.ndim + 1, name="unsqueeze")
    shape, strides = geometry(self)
    strides.insert(dim, 1 if dim == len(shape) else shape[dim] * strides[dim])
    shape.insert(dim, 1)
    return over(self, shape, strides)


@view("expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", api=METHOD)
def expand(self: Tensor, size: Shape) -> Spec:
    old, steps = self.shape, self.strides()
    lead = len(size) - len(old)
    check(
        lead >= 0,
        f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the "
        f"number of dimensions in the tensor ({self.ndim})",
    )
    shape, strides = list(size), [0] * len(size)
    for d in range(len(size) - 1, -1, -1):
        own = old[d - lead] if d >= lead else 1
        if d >= lead:
            strides[d] = steps[d - lead]
        elif old:
            strides[d] = shape[d + 1] * strides[d + 1]
        if given_size(size[d]) == -1:
            check(
                d >= lead,
                f"expand: -1 means to keep a size, which a new leading dimension ({d}) does not have",
            )
            shape[d] = own
        elif is_data(own) or (is_data(size[d]) and (type(own) is not int or own != 1)):
            check(size[d] == own, f"expand: the size {size[d]} must match the existing size {own}")
        elif size[d] != own:
            check(size[d] >= 0, f"expand: sizes must not be negative other than -1, got {list(size)}")
            check(
                own == 1,
                f"expand: The expanded size of the tensor ({size[d]}) must match the existing "
                f"size ({own}) at non-singleton dimension {d}. Target sizes: {list(size)}. Tensor sizes: "
                f"{list(self.shape)}",
            )
            strides[d] = 0
    return over(self, shape, strides)


# Parts.


@view("select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)")
def select(self: Tensor, dim: int, index: int) -> Spec:
    check(self.ndim, "select() cannot be applied to a 0-dim tensor.", IndexError)
    dim = wrap_dim(dim, self.ndim, name="select")
    shape, strides = geometry(self)
    size, stride = shape.pop(dim), strides.pop(dim)
    message = f"select(): index {index} out of range for tensor of size {list(self.shape)} at dimension {dim}"
    check(-size <= index, message, IndexError)
    check(index < size, message, IndexError)
    return over(self, shape, strides, self.storage_offset() + from_end(index, size) * stride)


@view(
    "slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> "
    "Tensor(a)",
    api=INTERNAL,
)
def slice_(self: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Spec:
    check(self.ndim, "slice() cannot be applied to a 0-dim tensor.", IndexError)
    check(step > 0, f"slice step must be positive, got {step}")
    dim = wrap_dim(dim, self.ndim, name="slice")
    shape, strides = geometry(self)
    first, last = slice_bounds(start, end, shape[dim])
    offset = self.storage_offset() + first * strides[dim]
    length = greatest(last - first + step - 1, 0) // step
    if is_data(length) and step == 1:  # it ends where the dimension does, or before
        learn_order(first + length, shape[dim])
    shape[dim] = length
    strides[dim] *= step
    return over(self, shape, strides, offset)


@view("diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)")
def diagonal(self: Tensor, offset: int, dim1: int, dim2: int) -> Spec:
    a, b = wrap_dim(dim1, self.ndim, name="diagonal"), wrap_dim(dim2, self.ndim, name="diagonal")
    check(a != b, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    shape, strides = self.shape, self.strides()
    rows, columns = (shape[a], shape[b] - offset) if offset >= 0 else (shape[a] + offset, shape[b])
    length = max(shorter(rows, columns), 0)
    skip = (offset * strides[b] if offset >= 0 else -offset * strides[a]) if length else 0
    kept = [d for d in range(self.ndim) if d not in (a, b)]
    return over(
        self,
        [*[shape[d] for d in kept], length],
        [*[strides[d] for d in kept], strides[a] + strides[b]],
        self.storage_offset() + skip,
    )


@view("unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", api=METHOD, traits=Trait.GAPS)
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Spec:
    dim = wrap_dim(dimension, self.ndim, name="unfold")
    shape, strides = geometry(self)
    extent, stride = (shape[dim], strides[dim]) if shape else (1, 1)
    check(size >= 0, f"unfold: size is {size} but must be >= 0")
    check(
        size <= extent, f"unfold: maximum size for tensor at dimension {dim} is {extent} but size is {size}"
    )
    check(step > 0, f"unfold: step is {step} but must be > 0")
    if shape:
        shape[dim] = (extent - size) // step + 1
        strides[dim] *= step
    return over(self, [*shape, size], [*strides, stride])


# Several parts.


@view("unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]")
def unbind(self: Tensor, dim: int) -> tuple[Spec, ...]:
    dim = wrap_dim(dim, self.ndim, name="unbind")
    check(self.ndim, "unbind: a 0-dim tensor has no dimension to unbind", IndexError)
    shape, strides = geometry(self)
    size, stride = shape.pop(dim), strides.pop(dim)
    offset = self.storage_offset()
    return tuple([over(self, shape, strides, offset + i * stride) for i in range(size)])


def pieces(self: Tensor, sizes: list[int] | Shape, dim: int) -> tuple[Spec, ...]:
    """Consecutive parts of `self` along the wrapped `dim`."""
    shape, strides = geometry(self)
    offset = self.storage_offset()
    result = []
    for size in sizes:
        shape[dim] = size
        result.append(over(self, shape, strides, offset))
        offset += size * strides[dim]
    return tuple(result)


def split(self: Tensor, split_size: int, dim: int) -> tuple[Spec, ...]:
    check(self.ndim, "split expects at least a 1-dimensional tensor")
    check(split_size >= 0, f"split expects split_size be non-negative, but got split_size={split_size}")
    dim = wrap_dim(dim, self.ndim, name="split")
    total = self.shape[dim]
    check(
        split_size > 0 or total == 0,
        f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}",
    )
    count = max(-(-total // split_size), 1) if split_size else 1
    return pieces(self, [min(split_size, total - i * split_size) for i in range(count)], dim)


def split_with_sizes(self: Tensor, split_sizes: Shape, dim: int) -> tuple[Spec, ...]:
    check(self.ndim, "split_with_sizes expects at least a 1-dimensional tensor")
    dim = wrap_dim(dim, self.ndim, name="split_with_sizes")
    for n in split_sizes:
        check(
            n >= 0,
            "split_with_sizes expects split_sizes have only non-negative "
            f"entries, but got split_sizes={list(split_sizes)}",
        )
    check(
        sum(split_sizes) == self.shape[dim],
        f"split_with_sizes expects split_sizes to sum exactly to "
        f"{self.shape[dim]} (input tensor's size at dimension {dim}), but got "
        f"split_sizes={list(split_sizes)}",
    )
    return pieces(self, split_sizes, dim)


view("split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split, api=METHOD)
view(
    "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_with_sizes
)
view("unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]", split)
view("unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]", split_with_sizes)


# Other readings of the same bytes.


@view("view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)", api=METHOD, tracked=False)
def view_dtype(self: Tensor, dtype: DType) -> Spec:
    check(
        not self._conj,
        "view: another dtype is not supported for conjugate view tensors; call resolve_conj() first",
    )
    check(
        not self._neg,
        "view: another dtype is not supported for negative view tensors; call resolve_neg() first",
    )
    shape, strides = geometry(self)
    old, new, offset = self.dtype.itemsize, dtype.itemsize, self.storage_offset()
    if old == new:
        return Spec(tuple(shape), dtype, tuple(strides), offset)
    check(
        shape, f"self.dim() cannot be 0 to view {self.dtype.name} as {dtype.name} (different element sizes)"
    )
    check(
        strides[-1] == 1,
        f"self.stride(-1) must be 1 to view {self.dtype.name} as {dtype.name} (different "
        f"element sizes), but got {strides[-1]}",
    )
    if old > new:
        ratio = old // new
        return Spec(
            (*shape[:-1], shape[-1] * ratio), dtype, (*[s * ratio for s in strides[:-1]], 1), offset * ratio
        )
    ratio = new // old
    what = f"to view {self.dtype.name} as {dtype.name} (different element sizes)"
    check(shape[-1] % ratio == 0, f"self.size(-1) must be divisible by {ratio} {what}, but got {shape[-1]}")
    check(offset % ratio == 0, f"self.storage_offset() must be divisible by {ratio} {what}, but got {offset}")
    for dim, step in enumerate(strides[:-1]):
        check(step % ratio == 0, f"self.stride({dim}) must be divisible by {ratio} {what}, but got {step}")
    return Spec(
        (*shape[:-1], shape[-1] // ratio), dtype, (*[s // ratio for s in strides[:-1]], 1), offset // ratio
    )


@view("view_as_real(Tensor(a) self) -> Tensor(a)", api=FUNCTION)
def view_as_real(self: Tensor) -> Spec:
    check(self.dtype.is_complex, "view_as_real is only supported for complex tensors")
    check(
        not self._conj,
        "view_as_real doesn't work on unresolved conjugated tensors. To resolve the "
        "conjugate tensor so you can view it as real, use self.resolve_conj()",
    )
    return Spec(
        (*self.shape, 2),
        self.dtype.to_real(),
        (*[2 * s for s in self.strides()], 1),
        2 * self.storage_offset(),
    )


COMPLEX_OF = {"float16": "complex32", "float32": "complex64", "float64": "complex128"}


@view("view_as_complex(Tensor(a) self) -> Tensor(a)", api=FUNCTION)
def view_as_complex(self: Tensor) -> Spec:
    check(
        self.dtype.name in COMPLEX_OF,
        "view_as_complex is only supported for half, float and double "
        f"tensors, but got a tensor of {self.dtype.name}",
    )
    shape, strides, offset = self.shape, self.strides(), self.storage_offset()
    check(shape, "view_as_complex: the input tensor must have one or more dimensions")
    check(shape[-1] == 2, f"view_as_complex: Tensor must have a last dimension of size 2, got {shape[-1]}")
    check(strides[-1] == 1, "view_as_complex: Tensor must have a last dimension with stride 1")
    check(
        all(s % 2 == 0 for s in strides[:-1]),
        "view_as_complex: the tensor must have a stride divisible by 2 for all but the last dimension",
    )
    check(offset % 2 == 0, "view_as_complex: the tensor must have a storage_offset divisible by 2")
    return Spec(
        tuple(shape[:-1]),
        DTYPES[COMPLEX_OF[self.dtype.name]],
        tuple(s // 2 for s in strides[:-1]),
        offset // 2,
    )


view(
    "_conj(Tensor(a) self) -> Tensor(a)", lambda self: replace(self.spec(), conj=not self._conj), api=FUNCTION
)
view("_neg_view(Tensor(a) self) -> Tensor(a)", lambda self: replace(self.spec(), neg=not self._neg))
