"""Matrix products as the compiler's stages pass them on: what is multiplied and how the operands lie in
memory.

A product is a `Call` with the routine "matmul". Its first two inputs are the buffers of the operands, its
attribute "product" is a `Product`, and its result is dense, [batch, rows, columns]. Scheduling may add the
attribute "epilogue": a nest over
(batch, rows, columns) that runs on every tile of the result as soon as it is finished. The buffers of the
epilogue are then among the inputs and outputs of the call.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.dtypes import DType
from .nest import Buffer, Call, Nest

MATMUL = "matmul"


@dataclass(frozen=True)
class Matrix:
    """Element (b, i, j) of a batch of matrices is at offset + b * batch + i * row + j * column of its buffer.
    """

    offset: int
    batch: int
    row: int
    column: int

    def __str__(self) -> str:
        return f"[{self.offset} + {self.batch} b + {self.row} i + {self.column} j]"


@dataclass(frozen=True)
class Product:
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

    @property
    def size(self) -> int:
        """How many elements the result has."""
        return self.batch * self.rows * self.columns

    def __str__(self) -> str:
        sizes = "x".join(map(str, (self.batch, self.rows, self.depth, self.columns)))
        return f"{sizes} {self.dtype.name} {self.left}, {self.right}"


def product_of(call: Call) -> Product:
    product: Product = call.attributes["product"]
    return product


def epilogue_of(call: Call) -> Nest | None:
    return call.attributes.get("epilogue")


def result_of(call: Call) -> Buffer:
    """Where the product itself goes: a buffer of the call, or one that the epilogue writes, until it does."""
    return call.attributes.get("result") or call.outputs[0]
