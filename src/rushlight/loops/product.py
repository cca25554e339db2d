"""Matrix products: what is multiplied and how the operands lie in memory. The kernel that computes one is
`Product` (loops/kernels.py); here are the sizes, strides and triangles that it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from ..core.dtypes import DType
from ..core.errors import InternalError
from ..core.symbols import hint, is_size


@dataclass(frozen=True)
class Matrix:
    """Element (b, i, j) of a batch of matrices is at offset + b * batch + i * row + j * column of its buffer."""

    offset: int
    batch: int
    row: int
    column: int

    def __str__(self) -> str:
        return f"[{self.offset} + {self.batch} b + {self.row} i + {self.column} j]"


@dataclass(frozen=True)
class Windows:
    """A left operand whose rows and columns lie along several dimensions, as those of a convolution do.

    Row i is the point (p_0, p_1, ...) with that row-major number, and starts sum of p_d * stride_d further
    on; column k is the point (t_0, t_1, ..., j), sum of t_d * stride_d + j * the column stride of the matrix
    further. Both are given as pairs of an extent and a stride; the row stride of the matrix is not used.
    """

    positions: tuple[tuple[int, int], ...]
    taps: tuple[tuple[int, int], ...]

    @property
    def segments(self) -> int:
        """How many runs of columns with one stride there are."""
        return math.prod(extent for extent, _ in self.taps)

    def __str__(self) -> str:
        rows, columns = (
            " + ".join(f"{stride} [{extent}]" for extent, stride in dims)
            for dims in (self.positions, self.taps)
        )
        return f"rows {rows}, columns {columns}"


class Side(IntEnum):
    """Where a triangle is: an operand that is zero beyond a diagonal, or what is of use of the result."""

    RESULT = 1  # elements with column > row + diagonal may be zero instead
    LEFT_LOWER = 2  # left[i, k] is zero where k > i + diagonal
    LEFT_UPPER = 3  # where i > k + diagonal
    RIGHT_LOWER = 4  # right[k, j] is zero where j > k + diagonal
    RIGHT_UPPER = 5  # where k > j + diagonal


@dataclass(frozen=True)
class Triangle:
    side: Side
    diagonal: int  # 0 or more

    def __str__(self) -> str:
        return f"{self.side.name.lower().replace('_', ' ')} triangle {self.diagonal}"


class Groups(IntEnum):
    """What the matrices of a batch have one after the other, each as much as a buffer says: the buffer holds, for
    each matrix, where its part ends, and the next one's begins."""

    ROWS = 1  # rows of one left operand, and of one result
    DEPTH = 2  # columns of one left operand, and rows of one right operand


# The same triangle of the transposed product.
TRANSPOSED_SIDE = {
    Side.LEFT_LOWER: Side.RIGHT_UPPER,
    Side.LEFT_UPPER: Side.RIGHT_LOWER,
    Side.RIGHT_LOWER: Side.LEFT_UPPER,
    Side.RIGHT_UPPER: Side.LEFT_LOWER,
}


@dataclass(frozen=True)
class ProductShape:
    """result[b, i, j] = sum over k < depth of left[b, i, k] * right[b, k, j], accumulated in `dtype`.

    All sizes are positive, and the right operand is contiguous along its rows or along its columns.
    """

    batch: int
    rows: int
    columns: int
    depth: int
    left: Matrix
    right: Matrix
    dtype: DType
    windows: Windows | None = None
    triangle: Triangle | None = None
    groups: Groups | None = None

    @property
    def size(self) -> int:
        """How many elements the result has."""
        return self.rows * self.columns * (1 if self.groups is Groups.ROWS else self.batch)

    @property
    def terms(self) -> int:
        """How many products of two numbers are added."""
        return self.size * self.depth if self.groups is None else self.rows * self.columns * self.depth

    def __str__(self) -> str:
        sizes = "x".join(map(str, (self.batch, self.rows, self.depth, self.columns)))
        windows = "" if self.windows is None else f", {self.windows}"
        triangle = "" if self.triangle is None else f", {self.triangle}"
        groups = "" if self.groups is None else f", groups of {self.groups.name.lower()}"
        return f"{sizes} {self.dtype.name} {self.left}, {self.right}{windows}{triangle}{groups}"


def mapped(p: ProductShape, function: Callable[[int], int]) -> ProductShape:
    """The product with every size and stride replaced."""

    def matrix(m: Matrix) -> Matrix:
        return Matrix(*map(function, (m.offset, m.batch, m.row, m.column)))

    windows, triangle = p.windows, p.triangle
    if windows is not None:
        positions, taps = (
            tuple((function(extent), function(stride)) for extent, stride in dims)
            for dims in (windows.positions, windows.taps)
        )
        windows = Windows(positions, taps)
    return ProductShape(
        function(p.batch),
        function(p.rows),
        function(p.columns),
        function(p.depth),
        matrix(p.left),
        matrix(p.right),
        p.dtype,
        windows,
        None if triangle is None else Triangle(triangle.side, function(triangle.diagonal)),
        p.groups,
    )


def hints_of(p: ProductShape) -> ProductShape:
    """The product in the call that was captured."""
    return mapped(p, hint)


def changes(p: ProductShape) -> bool:
    """Whether a size or stride changes from call to call."""
    found: list[bool] = []
    mapped(p, lambda n: found.append(is_size(n)) or n)  # type: ignore[func-returns-value]
    return any(found)


def transposed(p: ProductShape) -> ProductShape:
    """The product with rows and columns exchanged, its operands and its triangle with them; a triangle of the
    result has no other form, and is left out. Groups of rows have none either."""
    if p.groups is Groups.ROWS:
        raise InternalError("a product of groups of rows has no transposed form")
    side = None if p.triangle is None else TRANSPOSED_SIDE.get(p.triangle.side)
    triangle = None if p.triangle is None or side is None else Triangle(side, p.triangle.diagonal)
    return ProductShape(
        p.batch,
        p.columns,
        p.rows,
        p.depth,
        Matrix(p.right.offset, p.right.batch, p.right.column, p.right.row),
        Matrix(p.left.offset, p.left.batch, p.left.column, p.left.row),
        p.dtype,
        None,
        triangle,
        p.groups,
    )
