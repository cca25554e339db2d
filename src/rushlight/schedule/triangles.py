"""Triangular matrices among the operands and results of products: causal attention multiplies little else.

Scores that are minus infinity beyond a diagonal have weights, by softmax or exp, that are zero there, and half
of the terms of a product with such a matrix are zero. Half of the elements of a product need not be computed at
all if whoever reads them masks them, as it does the scores themselves and the gradients of the weights; these
are zero then.

Facts about definitions, in order, come from the rules of loops/causal_bounds.py, masks written by hand
included. What a product multiplies weights of zero by counts as finite, as in every fused attention, and so do
the elements of a result that is masked: an infinity beyond the diagonal does not turn a sum into NaN. Matrices
that are zero for another reason, `tril` of some data for example, are multiplied as they are.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import TypeGuard

from ..core.index import Index, Var, as_index
from ..core.proofs import always_nonnegative
from ..loops.causal_bounds import (
    NEUTRAL,
    SIMPLE,
    Beyond,
    Known,
    ValuesBeyond,
    compares_indices,
    extents_in,
    fact_of,
    limits_of,
    row_of,
)
from ..loops.definitions import Definition, Map, Reduction
from ..loops.expr import Access, loads_in, walk
from ..loops.extents import flatten
from ..loops.kernels import Product
from ..loops.nest import Buffer, MemoryKind
from ..loops.product import Matrix, Side, Triangle
from ..loops.program import Program, Step


def find_triangles(program: Program) -> Program:
    """Say of products which operand is triangular, or which part of the result is of use."""
    if not any(map(_has_mask, program.definitions)):
        return program
    products = {d.result: d.shape for d in program.definitions if _is_plain_product(d)}
    while True:  # what is masked depends on facts, and these on what counts as finite because it is masked
        facts = _Facts(program, products.keys())
        diagonals = {
            b: facts.unread_beyond(b, as_index(p.rows), as_index(p.columns)) for b, p in products.items()
        }
        masked = {buffer: shape for buffer, shape in products.items() if diagonals[buffer] is not None}
        if len(masked) == len(products):
            break
        products = masked
    definitions = tuple(
        _with_triangle(d, facts.known, diagonals) if _is_plain_product(d) else d for d in program.definitions
    )
    return replace(program, definitions=definitions)


def _has_mask(definition: Definition) -> bool:
    return isinstance(definition, Map) and any(map(compares_indices, walk(definition.value)))


def _is_plain_product(definition: Definition) -> TypeGuard[Product]:
    return (
        isinstance(definition, Product)
        and definition.shape.windows is None
        and definition.shape.groups is None
    )


def _with_triangle(
    product: Product, facts: dict[Buffer, Beyond], diagonals: dict[Buffer, int | None]
) -> Product:
    triangle, unread = _of_operands(product, facts), diagonals.get(product.result)
    if triangle is None and unread is not None:
        triangle = Triangle(Side.RESULT, unread)
    return product if triangle is None else replace(product, shape=replace(product.shape, triangle=triangle))


# Operands.


def _of_operands(product: Product, facts: dict[Buffer, Beyond]) -> Triangle | None:
    p = product.shape
    for buffer, matrix, size, sides, length in (
        (product.left, p.left, (p.rows, p.depth), (Side.LEFT_LOWER, Side.LEFT_UPPER), p.rows),
        (product.right, p.right, (p.depth, p.columns), (Side.RIGHT_LOWER, Side.RIGHT_UPPER), p.columns),
    ):
        fact = facts.get(buffer)
        # no sum is empty
        if (
            fact is not None
            and fact.value.weight
            and fact.diagonal >= 0
            and always_nonnegative(as_index(p.depth) + fact.diagonal - as_index(length))
        ):
            transposed = _transposed(matrix, size, p.batch, fact)
            if transposed is not None:
                return Triangle(sides[transposed], fact.diagonal)
    return None


def _transposed(matrix: Matrix, size: tuple[int, int], batch: int, fact: Beyond) -> bool | None:
    """Whether an operand has the matrices that a fact is about, or their transposes; None if neither."""
    whole = fact.rows * fact.columns
    offset, step = as_index(matrix.offset), as_index(matrix.batch)
    if offset % whole != 0 or (as_index(batch) != 1 and step % whole != 0):
        return None
    found = [as_index(n) for n in (*size, matrix.row, matrix.column)]
    if found == [fact.rows, fact.columns, fact.columns, 1]:
        return False
    if found == [fact.columns, fact.rows, 1, fact.columns]:
        return True
    return None


# Facts.


class _Facts:
    """What is known of buffers beyond a diagonal, and which elements of them anybody reads.

    Results of the products `masked` count as finite, and so does what is made of them and of finite numbers:
    what is wrong with that inside of the triangle does not matter, since facts are about what is beyond.
    """

    def __init__(self, program: Program, masked: Set[Buffer]) -> None:
        self.program = program
        self.known: dict[Buffer, Beyond] = {}
        self.finite = set(masked)
        self._unread: dict[tuple[Buffer, Index, Index], int | None] = {}
        for definition in program.definitions:
            if isinstance(definition, Map) and program.writer(definition.buffer) is definition:
                self._learn(definition)

    def _learn(self, definition: Map) -> None:
        if len(definition.variables) < 2:
            return
        column = definition.variables[-1]
        for limit in limits_of(definition.value, column, self.known):
            known = self._value(definition, column, limit)
            if known is not None and known.number is not None and known.number in SIMPLE:
                heights = {fact.rows for fact in self.known.values()} | extents_in(limit)
                here = Access(definition.buffer, flatten(definition.variables))
                fact = fact_of(here, column, limit, known, heights)
                if fact is not None:
                    self.known[definition.buffer] = fact
                    return
        if any(access.buffer in self.finite for access in loads_in(definition.value)):
            known = self._value(definition, column, as_index(0))  # in all columns
            if known is not None and known.varies:
                self.finite.add(definition.buffer)

    def _value(self, definition: Map | Reduction, column: Var, limit: Index) -> Known | None:
        return ValuesBeyond(column, limit, self.known, {}, self.finite).of(definition.value)

    # Uses.

    def unread_beyond(self, buffer: Buffer, rows: Index, columns: Index) -> int | None:
        """The diagonal of a buffer of matrices beyond which nobody reads them, or masks what is read."""
        key = (buffer, rows, columns)
        if key not in self._unread:
            inside = buffer.memory is MemoryKind.TEMPORARY and self.program.writer(buffer) is not None
            readers = self.program.readers(buffer) if inside else ()
            found = {self._unread_by(reader, buffer, rows, columns) for reader in readers}
            self._unread[key] = found.pop() if len(found) == 1 else None
        return self._unread[key]

    def _unread_by(
        self, reader: Definition | Step, buffer: Buffer, rows: Index, columns: Index
    ) -> int | None:
        """The same, for one reader, which must read along rows."""
        loops = reader.variables if isinstance(reader, Map) else ()
        if isinstance(reader, Reduction) and len(reader.inner) == 1:
            loops = (*reader.outer, *reader.inner)
        if not isinstance(reader, Map | Reduction) or len(loops) < 2 or loops[-1].extent != columns:
            return None
        column = loops[-1]
        read = {_row_in(access, column, rows) for access in loads_in(reader.value) if access.buffer is buffer}
        row = read.pop()
        if read or row is None:
            return None
        for limit in limits_of(reader.value, column, self.known):
            after = (limit - row).constant_value()
            known = None if after is None else self._value(reader, column, limit)
            if after is None or known is None or known.number is None:
                continue
            if isinstance(reader, Map) or NEUTRAL.get(reader.combine) == known.number:
                return after - 1
        if not isinstance(reader, Map):
            return None
        unread = self.unread_beyond(reader.buffer, rows, columns)
        same_row = unread is not None and _row_in(Access(reader.buffer, flatten(loops)), column, rows) == row
        return unread if same_row else None


def _row_in(access: Access, column: Var, rows: Index) -> Index | None:
    """The row of its matrix that an access reads, if it reads along rows."""
    row = None if access.indirect else row_of(access.index, column)
    return None if row is None else row % rows
