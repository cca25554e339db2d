"""Elementwise operators on nested tensors: they run on the values.

Operands are nested tensors of the same rows, numbers, and dense tensors that broadcast: along the batch and
the ragged dimension a dense tensor has size 1, or that of the batch and 1, or is padded to the longest row.
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import Arguments, call, run_name, tensors_in
from ..core.errors import check
from ..core.nested import RULES, NestedTensor, beside, generic, nest, packed, padded, rule, unholed
from ..core.registry import OpDef
from ..core.tensor import Tensor


def first_nested(op: OpDef, args: Arguments) -> NestedTensor:
    return next(t for t in tensors_in(op, args) if isinstance(t, NestedTensor))


def mismatch(op: OpDef, first: Tensor, other: Tensor) -> RuntimeError:
    return RuntimeError(
        f"cannot call binary pointwise function {op.schema.name} with inputs of shapes "
        f"{tuple(first.shape)} and {tuple(other.shape)}"
    )


def aligned(op: OpDef, tensors: list[Any]) -> tuple[NestedTensor, list[Any]]:
    """A nested tensor that has the rows of the result, and for each of `tensors` what stands for it among
    values."""
    nested = [t for t in tensors if isinstance(t, NestedTensor)]
    like = nested[0]
    for other in nested[1:]:
        fits = other._ragged_idx == like._ragged_idx and other._ragged.size == like._ragged.size
        if not fits or other.ndim != like.ndim:
            raise mismatch(op, like, other)
    dense = [t for t in tensors if isinstance(t, Tensor) and not isinstance(t, NestedTensor) and t.ndim]
    if like._ragged.holes and (dense or not all(t._ragged.same_places(like._ragged) for t in nested)):
        like = packed(like)
    return like, [_value(op, t, like) for t in tensors]


def _value(op: OpDef, tensor: Any, like: NestedTensor) -> Any:
    if isinstance(tensor, NestedTensor):
        return tensor._values if tensor._ragged.same_places(like._ragged) else unholed(tensor)
    if not isinstance(tensor, Tensor) or tensor.ndim == 0:
        return tensor
    return dense_value(op, tensor, like)


def dense_value(op: OpDef, tensor: Tensor, like: NestedTensor) -> Tensor:
    """A dense tensor as one that broadcasts with the values of `like`, which has no holes."""
    dim, rank = like._ragged_idx, like.ndim
    check(
        tensor.ndim <= rank,
        f"{op.schema.name}: a dense tensor of {tensor.ndim} dimensions does not "
        f"broadcast with a nested tensor of shape {tuple(like.shape)}; it may have as many at most",
        NotImplementedError,
    )
    tensor = tensor.reshape((1,) * (rank - tensor.ndim) + tuple(tensor.shape))
    ragged = like._ragged
    if tensor.shape[0] == 1 and tensor.shape[dim] == 1:
        return tensor.squeeze(0)
    if tensor.shape[0] != ragged.batch:
        raise mismatch(op, like, tensor)
    rows = tensor.movedim(dim, 1)
    if tensor.shape[dim] == 1:
        values = rows.squeeze(1).index_select(0, beside(ragged.rows(), rows))
    elif tensor.shape[dim] == ragged.longest:
        values = rows.flatten(0, 1)
        if not ragged.uniform(ragged.longest):
            values = values.index_select(0, beside(ragged.padded_places(ragged.longest), rows))
    else:
        raise mismatch(op, like, tensor)
    return values.movedim(0, dim - 1)


def pointwise(op: OpDef, args: Arguments) -> Any:
    tensors = [args[i] for i in op.tensor_positions]
    like, values = aligned(op, tensors)
    plain = list(args)
    for i, value in zip(op.tensor_positions, values, strict=True):
        plain[i] = value
    result = call(op, tuple(plain))
    if isinstance(result, tuple):
        return tuple([nest(r, like._ragged, like._ragged_idx) for r in result])
    return nest(result, like._ragged, like._ragged_idx)


RULES["pointwise"] = pointwise  # what every operator of that kind does

# Elementwise operators that are not declared by a scalar body.
generic(
    "relu6",
    "celu",
    "selu",
    "rrelu",
    "masked_fill.Scalar",
    "masked_fill.Tensor",
    "clip",
    "clip.Tensor",
    "true_divide.Tensor",
    "max.other",
    "min.other",
    "__xor__.Tensor",
    "__xor__.Scalar",
    "__lshift__.Tensor",
    "__lshift__.Scalar",
    "__rshift__.Tensor",
    "__rshift__.Scalar",
    "square",
    "positive",
    "conj_physical",
    "ldexp.Tensor",
    "float_power.Tensor_Tensor",
    "float_power.Tensor_Scalar",
    "float_power.Scalar",
    "copy",
)(pointwise)


# The same operator on the values, whatever they are.


@generic(
    "detach",
    "alias",
    "_to_copy",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "randint_like.low_dtype",
    "fill.Scalar",
    "fill.Tensor",
    "zero",
    "bernoulli",
    "bernoulli.p",
    "dropout",
    "native_dropout",
    "conj",
    "resolve_conj",
    "resolve_neg",
)
def on_values(op: OpDef, args: Arguments) -> Any:
    nested = first_nested(op, args)
    result = call(op, tuple([a._values if a is nested else _strided(op, i, a) for i, a in enumerate(args)]))
    if isinstance(result, tuple):
        return tuple([nested.like(r) for r in result])
    return nested.like(result)


def _strided(op: OpDef, position: int, value: Any) -> Any:
    """The layout of the values is strided, whatever is asked for."""
    return None if op.schema.argument_names[position] == "layout" else value


@generic("new_zeros", "new_ones", "new_empty", "new_full")
def new_dense(op: OpDef, args: Arguments) -> Any:
    nested = first_nested(op, args)
    return call(op, (nested._values, *args[1:]))


@rule("clone")
def clone(self: NestedTensor, memory_format: Any) -> Any:
    if self._ragged.holes and memory_format is not None and memory_format.name == "contiguous_format":
        return packed(self)
    return self.like(
        self._values.clone(memory_format=memory_format) if memory_format is not None else self._values.clone()
    )


@rule("contiguous")
def contiguous(self: NestedTensor, memory_format: Any) -> Any:
    whole = packed(self)
    return self if self.is_contiguous() else whole.like(whole._values.contiguous())


@rule("equal", anywhere=True)
def equal(self: Any, other: Any) -> bool:
    return self.shape == other.shape and bool(unholed(self).equal(unholed(other)))


@rule("allclose", anywhere=True)
def allclose(self: Any, other: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    check(
        self.shape == other.shape, f"allclose: the shapes {tuple(self.shape)} and {tuple(other.shape)} differ"
    )
    return bool(unholed(self).allclose(unholed(other), rtol=rtol, atol=atol, equal_nan=equal_nan))


@rule("is_same_size", anywhere=True)
def is_same_size(self: Any, other: Any) -> bool:
    check(
        isinstance(self, NestedTensor) and isinstance(other, NestedTensor),
        "is_same_size: Expected both self and other to be nested tensors.",
    )
    return tuple(self.shape) == tuple(other.shape)


@rule("to_padded_tensor")
def to_padded_tensor(self: NestedTensor, padding: float, output_size: Any) -> Tensor:
    ragged, dim = self._ragged, self._ragged_idx
    if output_size is None:
        return padded(self, padding)
    sizes = tuple(output_size)
    check(
        len(sizes) == self.ndim,
        f"to_padded_tensor: output_size has {len(sizes)} sizes, the nested tensor {self.ndim} dimensions",
    )
    smallest = tuple(ragged.longest if i == dim else n for i, n in enumerate(self.shape))
    check(
        all(n >= least for n, least in zip(sizes, smallest, strict=True)),
        "Value in output_size is less "
        f"than NestedTensor padded size. Truncation is not supported: {list(sizes)} asked for, "
        f"{list(smallest)} needed",
    )
    dense = padded(self, padding, sizes[dim])
    more = tuple(n for i in reversed(range(self.ndim)) for n in (0, sizes[i] - dense.shape[i]))
    filled: Tensor = run_name("constant_pad_nd", dense, more, padding) if any(more) else dense
    return filled


# Losses of elements: a nested tensor of them, or their sum or mean over all rows.


@generic(
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)
def loss(op: OpDef, args: Arguments) -> Any:
    like, values = aligned(op, [args[i] for i in op.tensor_positions])
    plain = list(args)
    for i, value in zip(op.tensor_positions, values, strict=True):
        plain[i] = value
    if like._ragged.holes:
        raise NotImplementedError(f"{op.schema.name}: call contiguous() on nested tensors with holes first")
    result = call(op, tuple(plain))
    return like.like(result) if result.ndim == like._values.ndim else result
