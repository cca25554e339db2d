"""Views in terms of simpler ones, and the operators that copy what a view shows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from ..core.data_sizes import from_end
from ..core.dispatch import call, run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE_METHOD, INTERNAL, METHOD, OUT, REGISTRY, Kind, OpDef, composite
from ..core.schema import Argument
from ..core.shapes import Shape, Spec, infer_size, view_strides, wrap_dim, wrap_dims
from ..core.tensor import Tensor, is_whole
from ..core.tokens import contiguous_format
from ..core.views import is_row_of_elements

# Shape.


@composite("reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)")
def reshape(self: Tensor, shape: Shape) -> Tensor:
    if is_whole(self) or is_row_of_elements(self):
        return run_name("view", self, shape)
    shape = infer_size(shape, self.numel())
    if view_strides(self.shape, self.strides(), shape) is not None:
        return run_name("view", self, shape)
    return run_name("_unsafe_view", self.clone(memory_format=contiguous_format), shape)


composite("reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", api=METHOD)(
    lambda self, other: reshape(self, tuple(other.shape))
)
composite("view_as(Tensor(a) self, Tensor other) -> Tensor(a)", api=METHOD)(
    lambda self, other: run_name("view", self, tuple(other.shape))
)
composite("ravel(Tensor(a) self) -> Tensor(a)")(lambda self: reshape(self.contiguous(), (-1,)))


@composite("flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)")
def flatten(self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    first, last = wrap_dim(start_dim, self.ndim, name="flatten"), wrap_dim(end_dim, self.ndim, name="flatten")
    check(first <= last, "flatten() has invalid args: start_dim cannot come after end_dim")
    if self.ndim == 0:
        return reshape(self, (1,))
    if first == last:
        return self
    size = 1
    for n in self.shape[first : last + 1]:
        size *= n
    return reshape(self, (*self.shape[:first], size, *self.shape[last + 1 :]))


@composite("unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)")
def unflatten(self: Tensor, dim: int, sizes: Shape) -> Tensor:
    dim = wrap_dim(dim, self.ndim, name="unflatten")
    check(self.ndim, "unflatten: a 0-dim tensor has no dimension to unflatten")
    check(sizes, "unflatten: sizes must be non-empty")
    filled = _unflattened(self.shape[dim], sizes)
    return run_name("view", self, (*self.shape[:dim], *filled, *self.shape[dim + 1 :]))


def _unflattened(extent: int, sizes: Shape) -> Shape:
    try:
        return infer_size(sizes, extent)
    except RuntimeError:
        check(sizes.count(-1) <= 1, "unflatten: only one dimension can be inferred")
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim "
            f"({extent}) in the input tensor"
        ) from None


# The order of dimensions.

composite(
    "swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", api=FUNCTION | METHOD | INPLACE_METHOD
)(lambda self, axis0, axis1: self.transpose(axis0, axis1))
composite(
    "swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", api=FUNCTION | METHOD | INPLACE_METHOD
)(lambda self, dim0, dim1: self.transpose(dim0, dim1))


@composite(
    "movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
    "moveaxis.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)",
)
def movedim(self: Tensor, source: Shape, destination: Shape) -> Tensor:
    check(
        len(source) == len(destination),
        "movedim: Invalid source or destination dims: source "
        f"({list(source)} dims) should contain the same number of dims as destination ({list(destination)} "
        "dims)",
    )
    for dim in (*source, *destination):
        wrap_dim(dim, self.ndim, name="movedim")
    origin = wrap_dims(source, self.ndim, name="movedim", empty_is_all=False)
    target = wrap_dims(destination, self.ndim, name="movedim", empty_is_all=False)
    if self.ndim == 0:
        return run_name("alias", self)
    moved = dict(zip(target, origin, strict=True))
    rest = iter([d for d in range(self.ndim) if d not in origin])
    return self.permute([moved[d] if d in moved else next(rest) for d in range(self.ndim)])


composite(
    "movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
    "moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)",
)(lambda self, source, destination: movedim(self, (source,), (destination,)))


@composite("numpy_T(Tensor(a) self) -> Tensor(a)", api=INTERNAL)
def numpy_T(self: Tensor) -> Tensor:
    return self.permute(tuple(range(self.ndim - 1, -1, -1)))


@composite("matrix_H(Tensor(a) self) -> Tensor(a)", api=INTERNAL)
def matrix_H(self: Tensor) -> Tensor:
    check(
        self.ndim in (0, 2),
        f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D "
        "tensor. For batches of matrices, consider using tensor.mH",
    )
    return self.conj() if self.ndim == 0 else self.transpose(0, 1).conj()


@composite("mT(Tensor(a) self) -> Tensor(a)", api=INTERNAL)
def mT(self: Tensor) -> Tensor:
    check(self.ndim != 1, "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
    return self if self.ndim == 0 else self.transpose(-2, -1)


composite("adjoint(Tensor(a) self) -> Tensor(a)")(lambda self: _adjoint(self, "adjoint()"))
composite("mH(Tensor(a) self) -> Tensor(a)", api=INTERNAL)(lambda self: _adjoint(self, "tensor.mH"))


def _adjoint(self: Tensor, name: str) -> Tensor:
    rank = self.ndim
    check(rank != 1, f"{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    turned = self if rank == 0 else self.transpose(-2, -1)
    return turned.conj() if self.dtype.is_complex else turned


# Broadcasting.

composite("expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", api=METHOD)(
    lambda self, other: self.expand(other.shape)
)
composite("broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)")(lambda self, size: self.expand(size))


# Parts.


@composite("narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")
def narrow(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    check(self.ndim, "narrow() cannot be applied to a 0-dim tensor.")
    check(length >= 0, f"narrow(): length must be non-negative, got {length}")
    size = self.shape[wrap_dim(dim, self.ndim, name="narrow")]
    message = (
        f"narrow: start ({start}) is out of range for a dimension of size {size} "
        f"(expected to be in range of [{-size}, {size}])"
    )
    check(-size <= start, message, IndexError)
    check(start <= size, message, IndexError)
    first = from_end(start, size)
    check(first + length <= size, f"start ({first}) + length ({length}) exceeds dimension size ({size}).")
    return run_name("slice.Tensor", self, dim, first, first + length, 1)


@composite(
    "narrow.Tensor(Tensor(a) self, int dim, Tensor start, SymInt length) -> Tensor(a)",
    shape=lambda self: Spec(None, self.dtype),
)
def narrow_tensor(self: Tensor, dim: int, start: Tensor, length: int) -> Tensor:
    check(
        start.ndim == 0 and not start.dtype.is_floating_point and start.dtype.name != "bool",
        "narrow: start must be a 0-dim integral Tensor.",
    )
    return narrow(self, dim, start.item(), length)


composite(
    "slice_inverse(Tensor(a) self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, "
    "SymInt step=1) -> Tensor(a)"
)(lambda self, src: self.as_strided(src.shape, src.strides(), src.storage_offset()))
composite(
    "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    api=FUNCTION,
    namespace="linalg",
    public_name="diagonal",
)(lambda A, offset, dim1, dim2: A.diagonal(offset, dim1, dim2))


# Several parts.

composite("split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]", api=METHOD)(
    lambda self, split_size, dim: run_name("split_with_sizes", self, split_size, dim)
)


def _chunk(self: Tensor, chunks: int, dim: int, prefix: str = "") -> tuple[Tensor, ...]:
    check(self.ndim, "chunk expects at least a 1-dimensional tensor")
    check(chunks > 0, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = self.shape[wrap_dim(dim, self.ndim, name="chunk")]
    if size == 0:
        return run_name(f"{prefix}split_with_sizes", self, (0,) * chunks, dim)
    return run_name(f"{prefix}split.Tensor", self, -(-size // chunks), dim)


composite("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]")(
    lambda self, chunks, dim: _chunk(self, chunks, dim)
)
composite("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]")(
    lambda self, chunks, dim: _chunk(self, chunks, dim, "unsafe_")
)


@composite("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]")
def tensor_split_sections(self: Tensor, sections: int, dim: int) -> tuple[Tensor, ...]:
    check(self.ndim, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, self.ndim, name="tensor_split")
    check(sections > 0, f"number of sections must be larger than 0, got {sections}")
    lengths = [(self.shape[dim] + sections - 1 - i) // sections for i in range(sections - 1)]
    bounds = itertools.accumulate(lengths)
    return tensor_split_indices(self, tuple(bounds), dim)


@composite("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]")
def tensor_split_indices(self: Tensor, indices: Shape, dim: int) -> tuple[Tensor, ...]:
    check(self.ndim, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = wrap_dim(dim, self.ndim, name="tensor_split")
    bounds = (0, *indices, self.shape[dim])
    return tuple(
        [run_name("slice.Tensor", self, dim, first, last, 1) for first, last in itertools.pairwise(bounds)]
    )


def _several_parts(self: Tensor, tensor_indices_or_sections: Tensor) -> Any:
    """How many parts there are is known of indices, but not of a number of sections."""
    given = tensor_indices_or_sections
    return (Spec(None, self.dtype),) * (given.shape[0] + 1) if given.ndim == 1 else None


@composite(
    "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, Tensor tensor_indices_or_sections, "
    "int dim=0) -> Tensor(a)[]",
    shape=_several_parts,
)
def tensor_split_tensor(self: Tensor, tensor_indices_or_sections: Tensor, dim: int) -> tuple[Tensor, ...]:
    given = tensor_indices_or_sections
    check(self.ndim, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    check(
        given.dtype.name == "int64",
        "tensor_split expected tensor_indices_or_sections to have dtype of "
        f"long, but got {given.dtype.torch_name}",
    )
    check(
        given.ndim <= 1,
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
        f"one-dimensional tensor, but got a tensor with {given.ndim} dims",
    )
    if given.ndim == 0:
        return tensor_split_sections(self, int(given.item()), dim)
    return tensor_split_indices(self, tuple(given.tolist()), dim)


def _along(name: str, least: int, dim_of: int | None) -> None:
    """Declare hsplit, vsplit or dsplit: tensor_split along one dimension, a number asking for equal parts."""

    def dim(self: Tensor) -> int:
        check(
            self.ndim >= least,
            f"torch.{name} requires a tensor with at least {least} dimension"
            f"{'s' if least > 1 else ''}, but got a tensor with {self.ndim} dimensions!",
        )
        return (0 if self.ndim == 1 else 1) if dim_of is None else dim_of

    @composite(f"{name}.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
    def by_sections(self: Tensor, sections: int) -> tuple[Tensor, ...]:
        d = dim(self)
        check(
            sections != 0 and self.shape[d] % sections == 0,
            f"torch.{name} attempted to split along "
            f"dimension {d}, but the size of the dimension {self.shape[d]} is not divisible by the "
            f"split_size {sections}!",
        )
        return tensor_split_sections(self, sections, d)

    composite(f"{name}.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")(
        lambda self, indices: tensor_split_indices(self, indices, dim(self))
    )


_along("hsplit", 1, None)
_along("vsplit", 2, 0)
_along("dsplit", 3, 2)


# At least so many dimensions.


def _atleast(count: int) -> None:
    def pad(self: Tensor) -> Tensor:
        if self.ndim == 0:
            return self.reshape((1,) * count)
        if self.ndim == 1 and count > 1:
            self = self.unsqueeze(0)
        return self.unsqueeze(-1) if self.ndim == 2 and count == 3 else self

    composite(f"atleast_{count}d(Tensor self) -> Tensor", api=INTERNAL)(lambda self: pad(self))
    composite(f"atleast_{count}d.Sequence(Tensor[] tensors) -> Tensor[]", api=INTERNAL)(
        lambda tensors: tuple([pad(t) for t in tensors])
    )


for _count in (1, 2, 3):
    _atleast(_count)


# Complex numbers.

composite("conj(Tensor(a) self) -> Tensor(a)")(
    lambda self: run_name("_conj", self) if self.dtype.is_complex else self
)
composite("resolve_conj(Tensor(a) self) -> Tensor(a)")(lambda self: self.clone() if self._conj else self)
composite("resolve_neg(Tensor(a) self) -> Tensor(a)")(lambda self: self.clone() if self._neg else self)


@composite("real(Tensor(a) self) -> Tensor(a)", api=FUNCTION)
def real(self: Tensor) -> Tensor:
    if not self.dtype.is_complex:
        return self
    plain = run_name("_conj", self) if self._conj else self
    return run_name("select.int", run_name("view_as_real", plain), -1, 0)


@composite("imag(Tensor(a) self) -> Tensor(a)", api=FUNCTION)
def imag(self: Tensor) -> Tensor:
    check(self.dtype.is_complex, "imag is not implemented for tensors with non-complex dtypes.")
    plain = run_name("_conj", self) if self._conj else self
    part = run_name("select.int", run_name("view_as_real", plain), -1, 1)
    return run_name("_neg_view", part) if self._conj else part


# Every view has a twin that returns a contiguous copy of what the view shows.


def _copied(view: Tensor) -> Tensor:
    return run_name("clone", view, contiguous_format)


def _declare_copy(op: OpDef) -> None:
    schema = replace(
        op.schema,
        name=f"{op.schema.name}_copy",
        arguments=tuple(map(_unaliased, op.schema.arguments)),
        returns=tuple(map(_unaliased, op.schema.returns)),
    )

    def copies(args: tuple[Any, ...]) -> Any:
        result = reshape(*args) if op.name == "view" else call(op, args)
        return tuple([_copied(part) for part in result]) if isinstance(result, tuple) else _copied(result)

    REGISTRY.add(OpDef(schema, Kind.COMPOSITE, op.family, api=FUNCTION | OUT, body=copies))


def _unaliased(argument: Argument) -> Argument:
    return replace(argument, type=replace(argument.type, alias=None))


for _op in [op for op in REGISTRY if op.kind is Kind.VIEW and op.schema.returns[0].type.alias is not None]:
    _declare_copy(_op)


@composite(
    "narrow_copy(Tensor self, int dim, SymInt start, SymInt length) -> Tensor", api=FUNCTION | METHOD | OUT
)
def narrow_copy(self: Tensor, dim: int, start: int, length: int) -> Tensor:
    check(
        dim < max(self.ndim, 1),
        f"narrow_copy: dim {dim} is out of range for a tensor of {self.ndim} dimensions",
    )
    return _copied(narrow(self, dim, start, length))


composite("_reshape_copy(Tensor self, SymInt[] size) -> Tensor", api=INTERNAL)(
    lambda self, size: _copied(self).view(infer_size(size, self.numel()))
)
composite("lift(Tensor self) -> Tensor", "lift_fresh(Tensor(a) self) -> Tensor(a)", api=INTERNAL)(
    lambda self: self
)
composite("lift_fresh_copy(Tensor self) -> Tensor", api=INTERNAL)(lambda self: _copied(self))
