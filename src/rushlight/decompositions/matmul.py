"""Matrix and tensor products in terms of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, OUT, Api, composite
from ..core.shapes import broadcast_shapes, wrap_dim, wrap_dims
from ..core.tensor import Tensor

ANYWHERE = FUNCTION | METHOD | OUT
PRODUCT = ANYWHERE | Api.EXACT  # its out= has the dtype of the operands
LINALG = FUNCTION | OUT | Api.EXACT


# matmul and what rests on it.


@composite("matmul(Tensor self, Tensor other) -> Tensor", api=PRODUCT)
def matmul(self: Tensor, other: Tensor) -> Tensor:
    """Vectors and matrices go straight to their product; a batch times a matrix is one tall product."""
    left, right = self.ndim, other.ndim
    if left == 2 and right == 2:
        return self.mm(other)
    check(
        left > 0 and right > 0,
        f"matmul: both arguments need to be at least 1D, but they are {left}D and {right}D",
    )
    if left == 1 and right == 1:
        return self.dot(other)
    if left == 2 and right == 1:
        return self.mv(other)
    if left == 1:
        return matmul(self.unsqueeze(0), other).squeeze(-2)
    if right <= 2:
        return folded_product(self, other)
    return broadcast_product(self, other)


def folded_product(self: Tensor, other: Tensor) -> Tensor:
    *batch, rows, inside = self.shape
    tall = self.reshape(math.prod(batch) * rows, inside)
    if other.ndim == 1:
        return tall.mv(other).view((*batch, rows))
    return tall.mm(other).view((*batch, rows, other.shape[1]))


def broadcast_product(self: Tensor, other: Tensor) -> Tensor:
    batch = broadcast_shapes(self.shape[:-2], other.shape[:-2], name="matmul")
    if self.ndim == other.ndim == 3 and self.shape[0] == other.shape[0]:
        return self.bmm(other)
    left, right = (
        t.expand((*batch, *t.shape[-2:])).reshape(math.prod(batch), *t.shape[-2:]) for t in (self, other)
    )
    return left.bmm(right).view((*batch, self.shape[-2], other.shape[-1]))


@composite(
    "linalg_matmul(Tensor self, Tensor other) -> Tensor", api=LINALG, namespace="linalg", public_name="matmul"
)
def linalg_matmul(self: Tensor, other: Tensor) -> Tensor:
    return self.matmul(other)


@composite(
    "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    api=FUNCTION,
    namespace="nn.functional",
)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """input @ weight.T + bias, with the bias inside the product where the input is a matrix or a batch."""
    rank, weights = input.ndim, weight.ndim
    if rank == 2 and weights > 0 and bias is not None:
        return bias.addmm(input, weight.t())
    check(
        rank > 0 and weights > 0,
        f"linear: both arguments need to be at least 1D, but they are {rank}D and {weights}D",
    )
    if bias is None:
        return input.matmul(weight.t())
    if rank == 1 and weights == 2 and bias.ndim == 1:
        return bias.addmv(weight, input)
    if weights == 2 and bias.ndim == 1 and rank > 2:
        *batch, inside = input.shape
        tall = bias.addmm(input.reshape(math.prod(batch), inside), weight.t())
        return tall.view((*batch, weight.shape[0]))
    return input.matmul(weight.t()) + bias


@composite(
    "linear_backward(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) -> (Tensor, Tensor, "
    "Tensor)",
    api=INTERNAL,
)
def linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    rows = grad_output.reshape((-1, grad_output.shape[-1]))
    return (
        grad_output @ weight if output_mask[0] else None,
        rows.mT @ self.reshape((-1, self.shape[-1])) if output_mask[1] else None,
        rows.sum(0) if output_mask[2] else None,
    )


@composite(
    "_addmm_activation(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, "
    "bool use_gelu=False) -> Tensor",
    api=PRODUCT,
)
def addmm_activation(
    self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any, use_gelu: bool
) -> Tensor:
    result = run_name("addmm", self, mat1, mat2, beta, alpha)
    return run_name("gelu", result, "none") if use_gelu else result.relu()


@composite(
    "outer(Tensor self, Tensor vec2) -> Tensor", "ger(Tensor self, Tensor vec2) -> Tensor", api=ANYWHERE
)
def outer(self: Tensor, vec2: Tensor) -> Tensor:
    for name, vector in (("self", self), ("vec2", vec2)):
        check(vector.ndim == 1, f"outer: Expected 1-D argument {name}, but got {vector.ndim}-D")
    return self.unsqueeze(1) * vec2


@composite("inner(Tensor self, Tensor other) -> Tensor", api=PRODUCT)
def inner(self: Tensor, other: Tensor) -> Tensor:
    if self.ndim == 0 or other.ndim == 0:
        return self * other
    check(
        self.shape[-1] == other.shape[-1],
        "inner: the last dimension must match on both input tensors but "
        f"got shapes {list(self.shape)} and {list(other.shape)}",
    )
    return run_name("tensordot", self, other, (-1,), (-1,))


@composite("kron(Tensor self, Tensor other) -> Tensor", api=ANYWHERE)
def kron(self: Tensor, other: Tensor) -> Tensor:
    rank = max(self.ndim, other.ndim)
    left = (1,) * (rank - self.ndim) + tuple(self.shape)
    right = (1,) * (rank - other.ndim) + tuple(other.shape)
    spread = self.reshape([n for size in left for n in (size, 1)])
    blocks = spread * other.reshape([n for size in right for n in (1, size)])
    return blocks.reshape([a * b for a, b in zip(left, right, strict=True)])


@composite("tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", api=Api.EXACT)
def tensordot(self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Tensor:
    """One matrix product, with the contracted dimensions last in `self` and first in `other`."""
    check(
        len(dims_self) == len(dims_other),
        f"tensordot: both dimension lists should have same length, got "
        f"{list(dims_self)} and {list(dims_other)}",
    )
    check(
        self.dtype is other.dtype,
        "tensordot: both inputs should have same dtype, but they are "
        f"{self.dtype.name} and {other.dtype.name}",
    )
    left = wrap_dims(dims_self, self.ndim, name="tensordot", empty_is_all=False)
    right = wrap_dims(dims_other, other.ndim, name="tensordot", empty_is_all=False)
    for a, b in zip(left, right, strict=True):
        size, extent = self.shape[a], other.shape[b]
        check(
            size == extent or 1 in (size, extent),
            "tensordot: contracted dimensions need to match, but "
            f"first has size {size} in dim {a} and second has size {extent} in dim {b}",
        )
        if size != extent:  # one of them is broadcast: its partner can be summed first
            self = self.sum(a, keepdim=True, dtype=self.dtype) if extent == 1 else self
            other = other.sum(b, keepdim=True, dtype=other.dtype) if size == 1 else other
    kept_left = [dim for dim in range(self.ndim) if dim not in left]
    kept_right = [dim for dim in range(other.ndim) if dim not in right]
    rows, columns = [self.shape[dim] for dim in kept_left], [other.shape[dim] for dim in kept_right]
    inside = math.prod(self.shape[dim] for dim in left)
    tall = self.permute((*kept_left, *left)).reshape(math.prod(rows), inside)
    wide = other.permute((*right, *kept_right)).reshape(inside, math.prod(columns))
    if math.prod(rows) == math.prod(columns) == 1:  # a number: autocast does not lower its precision
        return tall.view(inside).dot(wide.view(inside)).view((*rows, *columns))
    return tall.mm(wide).view((*rows, *columns))


# Chains.


@composite("chain_matmul(Tensor[] matrices) -> Tensor", api=Api.EXACT)
def chain_matmul(matrices: Sequence[Tensor]) -> Tensor:
    for i, matrix in enumerate(matrices):
        check(matrix.ndim == 2, f"chain_matmul: tensor {i} must be 2D but got {matrix.ndim}D")
    check(len(matrices) > 0, "chain_matmul: expected one or more matrices")
    return matrices[0] if len(matrices) == 1 else multi_dot(matrices)


@composite(
    "linalg_multi_dot(Tensor[] tensors) -> Tensor", api=LINALG, namespace="linalg", public_name="multi_dot"
)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order of fewest multiplications; vectors may stand at the ends."""
    check_chain(tensors)
    first, *middle, last = tensors
    row = first if first.ndim == 2 else first.unsqueeze(0)
    column = last if last.ndim == 2 else last.unsqueeze(1)
    chain = [row, *middle, column]
    splits = cheapest_splits([*(t.shape[0] for t in chain), chain[-1].shape[1]])
    return multiplied(chain, splits, 0, len(chain) - 1).view((*first.shape[:-1], *last.shape[1:]))


def check_chain(tensors: Sequence[Tensor]) -> None:
    check(len(tensors) >= 2, f"multi_dot: expected at least 2 tensors but got {len(tensors)}")
    for i, tensor in enumerate(tensors):
        end = i in (0, len(tensors) - 1)
        check(
            tensor.ndim == 2 or (end and tensor.ndim == 1),
            f"multi_dot: tensor {i} must be {'1D or ' if end else ''}2D but got {tensor.ndim}D",
        )
        check(
            tensor.dtype is tensors[0].dtype,
            "multi_dot: all tensors must have the same dtype, but tensor "
            f"0 is {tensors[0].dtype.name} and tensor {i} {tensor.dtype.name}",
        )
    for i in range(1, len(tensors)):
        left, right = tensors[i - 1], tensors[i]
        check(
            left.shape[-1] == right.shape[0],
            f"multi_dot: tensors {i - 1} and {i} with shapes "
            f"{list(left.shape)} and {list(right.shape)} cannot be multiplied",
        )


def cheapest_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split matrices i..j of a chain (matrix i is sizes[i] x sizes[i + 1]) to multiply least."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            outside = sizes[i] * sizes[j + 1]
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + outside * sizes[k + 1], k) for k in range(i, j)
            )
    return split


def multiplied(chain: Sequence[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = split[i, j]
    return multiplied(chain, split, i, k).mm(multiplied(chain, split, k + 1, j))


@composite("matrix_power(Tensor self, int n) -> Tensor", api=PRODUCT)
def matrix_power(self: Tensor, n: int) -> Tensor:
    return run_name("linalg_matrix_power", self, n)


@composite(
    "linalg_matrix_power(Tensor self, int n) -> Tensor",
    api=LINALG,
    namespace="linalg",
    public_name="matrix_power",
)
def linalg_matrix_power(self: Tensor, n: int) -> Tensor:
    """Repeated squaring; negative powers are powers of the inverse."""
    check(
        self.ndim >= 2,
        "linalg.matrix_power: the input tensor must have at least 2 dimensions, but its "
        f"shape is {tuple(self.shape)}",
    )
    check(
        self.shape[-1] == self.shape[-2],
        "linalg.matrix_power: A must be batches of square matrices, but "
        f"they are {self.shape[-2]} by {self.shape[-1]} matrices",
    )
    if n == 0:
        identity = run_name("eye", self.shape[-1], self.dtype, None, self.device, None)
        return run_name("copy", self, identity, False)  # part of the graph of `self`, as in PyTorch
    if n < 0:
        return linalg_matrix_power(run_name("linalg_inv", self), -n)
    if n == 1:
        return self.clone()
    half = self if n < 4 else linalg_matrix_power(self, n // 2)
    square = half.matmul(half)
    return square.matmul(self) if n % 2 else square


# Products of vectors along a dimension.


@composite(
    "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    api=LINALG,
    namespace="linalg",
    public_name="vecdot",
)
def linalg_vecdot(x: Tensor, y: Tensor, dim: int) -> Tensor:
    check(
        x.dtype.is_floating_point or x.dtype.is_complex,
        f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.torch_name}",
    )
    check(
        x.dtype is y.dtype,
        f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
        f"{x.dtype.torch_name} and y of type {y.dtype.torch_name} instead",
    )
    if x.ndim == 1 and y.ndim == 1 and x.shape == y.shape:
        wrap_dim(dim, 1, name="linalg.vecdot")
        return x.vdot(y)
    compute = x.dtype.opmath
    return (x.conj().to(compute) * y.to(compute)).sum(dim).to(x.dtype)


@composite("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", api=PRODUCT)
def cross(self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    """Without `dim`, along the first dimension of length 3."""
    if dim is None:
        check(3 in self.shape, f"cross: no dimension of size 3 in input, whose shape is {tuple(self.shape)}")
        dim = self.shape.index(3)
    return run_name("linalg_cross", self, other, dim)


@composite("bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", api=FUNCTION)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    check_bilinear(input1, input2, weight, bias)
    batch, dtype = input1.shape[:-1], input1.dtype
    left, right, middle = (t.to(dtype.opmath) for t in (input1, input2, weight))
    left, right = (t.reshape(math.prod(batch), t.shape[-1]) for t in (left, right))
    result = run_name("_trilinear", left, middle, right, (1, 3), (0,), (1, 2), (2, 3), 1)
    result = result.reshape((*batch, weight.shape[0]))
    return (result if bias is None else result + bias.to(dtype.opmath)).to(dtype)


def check_bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    dtypes = [t.dtype.name for t in (input1, input2, weight, bias) if t is not None]
    check(len(set(dtypes)) == 1, f"bilinear: all tensors must have the same dtype, but they are {dtypes}")
    check(
        input1.ndim == input2.ndim > 0,
        f"bilinear: input dimensions do not match: got {input1.ndim} and "
        f"{input2.ndim}; both inputs need as many dimensions, and at least one",
    )
    check(
        input1.shape[:-1] == input2.shape[:-1],
        "bilinear: input batch dimensions do not match: got "
        f"{list(input1.shape[:-1])} and {list(input2.shape[:-1])}",
    )
    check(
        weight.ndim == 3,
        f"bilinear: weight must be 3-dimensional, but its shape is {tuple(weight.shape)}",
        IndexError,
    )
    for name, tensor, size in (("input1", input1, weight.shape[1]), ("input2", input2, weight.shape[2])):
        check(
            tensor.shape[-1] == size,
            f"bilinear: {name} size does not match weight size: got {tensor.shape[-1]} but expected {size}",
        )
    check(
        bias is None or tuple(bias.shape) == (weight.shape[0],),
        "bilinear: bias size does not match "
        f"weight size: got {bias if bias is None else tuple(bias.shape)} but expected ({weight.shape[0]},)",
    )
