"""Matrix products: calls of the native routine, with scaling and addends as loops over the result.

The operands keep their strides: a transposed or sliced view of a stored tensor is read where it lies. Narrow
floats are multiplied and summed in float32 and rounded once. Products of integers are plain sums. Those of
complex numbers stay calls of their eager kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.data_sizes import not_empty
from ..core.dtypes import DTYPES, Category, DType
from ..core.index import Var
from ..core.shapes import Spec
from ..core.symbols import exact
from ..loops.expr import Expr, NotRecordable, loads_in
from ..loops.kernels import Product
from ..loops.nest import Buffer, Combine
from ..loops.product import Groups, Matrix, ProductShape, transposed
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer

NATIVE = (DTYPES["float32"], DTYPES["float64"])


def compute_dtype(dtype: DType) -> DType:
    """The dtype in which products are summed; NotRecordable if there is no native code for it."""
    if dtype.category is Category.INTEGRAL:
        return dtype
    if dtype.opmath not in NATIVE or dtype.itemsize == 1:
        raise NotRecordable(f"a matrix product of {dtype.name}")
    return dtype.opmath


# The routine.


def multiplied(low: Lowerer, left: Lowered, right: Lowered) -> Lowered:
    """left [m, k] times right [k, n], or batches of these, in the dtype they are summed in."""
    dtype = compute_dtype(left.dtype)
    shape = (*left.shape[:-1], right.shape[-1])
    rows, depth, columns = *left.shape[-2:], right.shape[-1]
    batch = left.shape[0] if left.ndim == 3 else 1
    if 0 in shape or depth == 0:
        return low.full(shape, 0, dtype)
    not_empty(depth)  # the routine adds at least one term
    if dtype.category is Category.INTEGRAL:
        return _summed(low, left.cheap(), right.cheap())
    first, a = _operand(left.cast(dtype), any_strides=True)
    second, b = _operand(right.cast(dtype))
    product = _tall(ProductShape(batch, rows, columns, depth, a, b, dtype))
    if product.columns == 1 and product.rows > 1 and 1 in (product.left.row, product.left.column):
        # A column as a row: the same elements in the same order, and the kernel's vectors run along them.
        product, first, second = transposed(product), second, first
    out = low.fresh_buffer(dtype, shape)
    low.definitions.append(Product(f"matmul{len(low.definitions)}", product, first, second, out))
    return low.stored(out, shape)


def _summed(low: Lowerer, left: Lowered, right: Lowered) -> Lowered:
    """A sum for each element, exact as integers are."""

    def term(index: Indices) -> Expr:
        *batch, row, column, k = index
        return low.recorder.mul(left.load((*batch, row, k)), right.load((*batch, k, column)))

    shape = (*left.shape[:-1], right.shape[-1], left.shape[-1])
    return low.generated(shape, left.dtype, term).reduce((len(shape) - 1,), Combine.SUM, False, left.dtype)


def _operand(matrix: Lowered, any_strides: bool = False) -> tuple[Buffer, Matrix]:
    """The buffer and layout of an operand; stored first if it is not, or not as the routine takes it."""
    placed = matrix.placed()
    if placed is None or not (any_strides or _has_unit_stride(matrix.shape, placed[1])):
        placed = _stored_operand(matrix)
    buffer, strides, offset = placed
    # A dimension of one element has any stride: say 1, which is the one that kernels look for.
    *_, row, column = [1 if size == 1 else stride for size, stride in zip(matrix.shape, strides, strict=True)]
    return buffer, Matrix(offset, strides[0] if matrix.ndim == 3 else 0, row, column)


def _stored_operand(matrix: Lowered) -> tuple[Buffer, tuple[int, ...], int]:
    """A dense copy of a matrix, row-major or, if it is read in that order, column-major; where a copy of it
    or of its transpose is there, that one. A new buffer even of what is stored already."""
    low, (*batch, rows, columns) = matrix.owner, matrix.shape
    transposed_shape = (*batch, columns, rows)
    here, there = low.sample_point(matrix.shape), low.sample_point(transposed_shape)
    swapped = (*there[:-2], there[-1], there[-2])
    as_is, as_transposed = (matrix.shape, matrix.load(here)), (transposed_shape, matrix.load(swapped))
    known = low.operands.get(as_transposed)
    if as_is not in low.operands and (
        known or _reads_along(as_transposed[1], there[-2:]) > _reads_along(as_is[1], here[-2:])
    ):
        if known is None:
            known = low.operands[as_transposed] = _copied(
                matrix, transposed_shape, lambda index: (*index[:-2], index[-1], index[-2])
            )
        buffer, (*outer, row, column), offset = known
        return buffer, (*outer, column, row), offset
    if as_is not in low.operands:
        low.operands[as_is] = _copied(matrix, matrix.shape, lambda index: index)
    return low.operands[as_is]


def _copied(
    matrix: Lowered, shape: tuple[int, ...], index: Callable[[Indices], Indices]
) -> tuple[Buffer, tuple[int, ...], int]:
    copy = Lowered(matrix.owner, shape, matrix.dtype, lambda at: matrix.load(index(at))).realize()
    placed = copy.placed()
    assert placed is not None
    return placed


def _reads_along(value: Expr, loops: Sequence[Var]) -> int:
    """How many loads of whole matrices are contiguous along the last of two loops."""
    outer, inner = loops
    return sum(
        access.index.stride(inner) == 1 and access.index.depends_on(outer) for access in loads_in(value)
    )


def _has_unit_stride(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    return any(stride == 1 or size == 1 for size, stride in zip(shape[-2:], strides[-2:], strict=True))


def _tall(p: ProductShape) -> ProductShape:
    """A batch of products with one right operand is one product of a tall matrix."""
    if p.batch > 1 and p.right.batch == 0 and exact(p.left.batch) == exact(p.rows * p.left.row):
        return ProductShape(1, p.batch * p.rows, p.columns, p.depth, p.left, p.right, p.dtype)
    return p


def combined(product: Lowered, addend: Lowered, beta: Any, alpha: Any, dtype: DType) -> Lowered:
    """beta * addend + alpha * product, rounded to `dtype` once; with beta = 0 the addend is not looked at."""
    compute = product.dtype
    beta, alpha = _real(beta, compute), _real(alpha, compute)
    if alpha != 1:
        product = product.map(lambda ops, x: ops.mul(x, ops.constant(alpha, like=x)), compute)
    if beta == 0:
        return product.cast(dtype)
    added = addend.cast(compute).expand(product.shape)
    if beta != 1:
        added = added.map(lambda ops, x: ops.mul(x, ops.constant(beta, like=x)), compute)
    return product.map(lambda ops, x, y: ops.add(y, x), compute, added).cast(dtype)


def _real(number: Any, dtype: DType) -> Any:
    if isinstance(number, complex):
        raise NotRecordable("a complex factor of a real product")
    return int(number) if dtype.category is Category.INTEGRAL else float(number)


# The operators.


@lowering("mm", "mm.dtype")
def mm(self: Lowered, mat2: Lowered, low: Lowerer, out: Spec) -> Lowered:
    return multiplied(low, self, mat2).cast(out.dtype)


@lowering("bmm", "bmm.dtype")
def bmm(self: Lowered, mat2: Lowered, low: Lowerer, out: Spec) -> Lowered:
    return multiplied(low, self, mat2).cast(out.dtype)


@lowering("addmm", "addmm.dtype")
def addmm(
    self: Lowered, mat1: Lowered, mat2: Lowered, beta: Any, alpha: Any, low: Lowerer, out: Spec
) -> Lowered:
    return combined(multiplied(low, mat1, mat2), self, beta, alpha, out.dtype)


@lowering("baddbmm", "baddbmm.dtype")
def baddbmm(
    self: Lowered, batch1: Lowered, batch2: Lowered, beta: Any, alpha: Any, low: Lowerer, out: Spec
) -> Lowered:
    return combined(multiplied(low, batch1, batch2), self, beta, alpha, out.dtype)


@lowering("_grouped_mm")
def grouped_mm(self: Lowered, mat2: Lowered, offs: Lowered | None, low: Lowerer, out: Spec) -> Lowered:
    if offs is None:
        return multiplied(low, self, mat2).cast(out.dtype)
    if self.ndim > mat2.ndim:  # groups of columns are groups of rows of the transposed product
        return _turned(_grouped(low, _turned(mat2), _turned(self), offs)).cast(out.dtype)
    return _grouped(low, self, mat2, offs).cast(out.dtype)


def _turned(matrix: Lowered) -> Lowered:
    *batch, rows, columns = matrix.shape
    return matrix.reindex((*batch, columns, rows), lambda index: (*index[:-2], index[-1], index[-2]))


def _grouped(low: Lowerer, left: Lowered, right: Lowered, offs: Lowered) -> Lowered:
    """Rows of the left operand, or the depth of both, in groups that end where `offs` says."""
    dtype = compute_dtype(left.dtype)
    (rows, depth), columns, count = left.shape, right.shape[-1], offs.shape[0]
    shape = (rows, columns) if right.ndim == 3 else (count, rows, columns)
    if 0 in shape or depth == 0 or count == 0:
        return low.full(shape, 0, dtype)
    not_empty(depth)
    if dtype.category is Category.INTEGRAL:
        raise NotRecordable("a product of groups of integers")
    first, a = _operand(left.cast(dtype), any_strides=True)
    second, b = _operand(right.cast(dtype))
    ends, _, _ = _copied(offs.cast(DTYPES["int64"]), offs.shape, lambda index: index)
    groups = Groups.ROWS if right.ndim == 3 else Groups.DEPTH
    product = ProductShape(count, rows, columns, depth, a, b, dtype, groups=groups)
    result = low.fresh_buffer(dtype, shape)
    name = f"matmul{len(low.definitions)}"
    low.definitions.append(Product(name, product, first, second, result, groups=ends))
    return low.stored(result, shape)


def _column(vector: Lowered) -> Lowered:
    return vector.reindex((*vector.shape, 1), lambda index: index[:-1])


def _without_column(matrix: Lowered) -> Lowered:
    if matrix.buffer is not None:
        return matrix.owner.stored(matrix.buffer, matrix.shape[:-1])
    return matrix.reindex(matrix.shape[:-1], lambda index: (*index, 0))


@lowering("mv")
def mv(self: Lowered, vec: Lowered, low: Lowerer, out: Spec) -> Lowered:
    return _without_column(multiplied(low, self, _column(vec))).cast(out.dtype)


@lowering("addmv")
def addmv(
    self: Lowered, mat: Lowered, vec: Lowered, beta: Any, alpha: Any, low: Lowerer, out: Spec
) -> Lowered:
    return combined(_without_column(multiplied(low, mat, _column(vec))), self, beta, alpha, out.dtype)


@lowering("dot")
def dot(self: Lowered, tensor: Lowered, low: Lowerer, out: Spec) -> Lowered:
    """A reduction: it runs in the kernel of what makes its operands."""
    compute = compute_dtype(self.dtype)
    if self.shape == (0,):
        return low.full((), 0, out.dtype)
    terms = self.cast(compute).map(lambda ops, x, y: ops.mul(x, y), compute, tensor.cast(compute))
    return terms.reduce((0,), Combine.SUM, False, compute).cast(out.dtype)


extern("pairs of rows, each once, are a triangle of loops", "_pdist_forward", "_pdist_backward")
extern("sums over pairs of rows whose terms depend on the norm", "_cdist_backward")
extern("a sum of products of three factors, of any dimensions of each", "_trilinear")
extern("bytes are multiplied and summed in four", "_int_mm")
