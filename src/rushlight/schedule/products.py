"""What is fused with a matrix product: maps over its result run tile by tile, while the tile is in cache.

A map may join a product if it computes one element for each of the product and reads what the product and the
maps that joined before compute only at its own element. The product itself is stored for its own sake only if
somebody else reads it; otherwise its sums pass through the memory of the last map's result.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace

from ..core.index import Index, Var, as_index
from ..loops.definitions import Definition, Map, points, read
from ..loops.expr import Access, Expr, Recorder, loads_in, reindex, substitute, walk
from ..loops.extents import extents, flatten, unflatten
from ..loops.instructions import CHECKS
from ..loops.kernels import Copy, Product
from ..loops.nest import Buffer, MemoryKind, Nest, Phase, Store
from ..loops.product import Groups, ProductShape, Side, transposed
from ..loops.program import Program, Step
from ..loops.rewrite import rename_value, rewrite_nest
from .nests import forwarded


def epilogue_obstacle(product: Product, written: set[Buffer], definition: Definition) -> str:
    """Why `definition` cannot run on the tiles of a product whose group writes `written`; empty if it can."""
    if not isinstance(definition, Map):
        return "a reduction does not run on the tiles of a product"
    triangle = product.shape.triangle
    if product.groups is not None:
        return "where rows of the product are is known when it runs"
    if triangle is not None and triangle.side is Side.RESULT:
        return "of the product only a triangle is of use, and its readers know where rows of that end"
    if as_index(points(definition)) != as_index(product.shape.size):
        return f"{definition.buffer} has not one element for each of the product"
    if any(_is_gather(node) for node in walk(definition.value)):
        return f"{definition.buffer} reads at indices from memory"
    here, moved = _at_product(product, definition)
    for access in loads_in(definition.value):
        if access.buffer in written and access.index.substitute(moved) != here:
            return f"{definition.buffer} reads {access.buffer} at another element than its own"
    return ""


def _loops_of(product: Product) -> tuple[Var, ...]:
    """The loops of the epilogue of a product, the same ones for equal products."""
    shape = product.shape
    extents_of = (("b", shape.batch), ("i", shape.rows), ("j", shape.columns))
    return tuple(Var(f"tile_{name}", extent) for name, extent in extents_of)


def _at_product(product: Product, definition: Map) -> tuple[Index, dict[Var, Index]]:
    """The position of an element of a product, and where the loops of a map are that computes one for it."""
    variables = _loops_of(product)
    here = _without_single(flatten(variables), variables)
    return here, dict(zip(definition.variables, unflatten(here, definition.variables), strict=True))


def _is_gather(node: Expr) -> bool:
    return node.op in CHECKS or (node.op == "load" and bool(node.data.indirect))


def _without_single(index: Index, variables: Sequence[Var]) -> Index:
    return index.substitute({var: 0 for var in variables if var.extent == 1})


def with_epilogue(
    recorder: Recorder, product: Product, maps: Sequence[Map], needed: Callable[[Buffer], bool]
) -> Product:
    """The product with `maps` as its epilogue; `needed` tells whether anything else reads a buffer."""
    shape, result = product.shape, product.result
    variables = _loops_of(product)
    stored: dict[Buffer, tuple[Index, Expr]] = {}
    statements: list[Store] = []
    for member in maps:
        here, moved = _at_product(product, member)
        value = forwarded(recorder, reindex(recorder, member.value, moved), stored)
        stored[member.buffer] = (here, value)
        if needed(member.buffer):
            statements.append(Store(Access(member.buffer, here), value))
    if not statements:  # lowering defined what turned out to be of no use
        return product
    kept = needed(result)
    if not kept and statements[-1].access.buffer.dtype is shape.dtype:
        # No statement after the last store reads the product, so that store may go where the product was.
        taken = statements[-1].access.buffer
        statements = [Store(s.access, rename_value(recorder, s.value, {result: taken})) for s in statements]
        result = taken
        if statements[-1].value.op == "load" and statements[-1].value.data == statements[-1].access:
            statements.pop()  # a copy of the product to where it is
    if not statements:
        return replace(product, result=result)
    nest = Nest(f"{product.name}_epilogue", variables, (Phase((), tuple(statements)),))
    return replace(product, result=result, epilogue=nest, keeps_result=kept)


# Products that are read transposed.


def transpose_products(program: Program) -> Program:
    """Products whose every reader is a map that reads the transposed result compute that one instead, so that
    the map can run on their tiles: the gradient of a weight and the update of the weight, for example. So do
    those of which a part of another tensor is made: it is copied as it lies then."""
    swapped: dict[Buffer, Product] = {}
    for definition in program.definitions:
        if isinstance(definition, Product) and len(definition.outputs) == 1:
            result, shape = definition.result, _transposed(definition.shape)
            users = program.readers(result)
            if (
                users
                and result.memory is MemoryKind.TEMPORARY
                and shape is not None
                and all(_reads_transposed(user, result, shape) for user in users)
            ):
                swapped[result] = replace(
                    definition, shape=shape, left=definition.right, right=definition.left
                )
    if not swapped:
        return program
    found: list[Definition] = []
    for definition in program.definitions:
        if any(buffer in swapped for buffer in read(definition)):
            found.append(_transposed_reader(program.recorder, definition, swapped))
        elif isinstance(definition, Product):
            found.append(swapped.get(definition.result, definition))
        else:
            found.append(definition)
    return replace(program, definitions=tuple(found))


def _loops_and_value(user: Definition | Step) -> tuple[tuple[Var, ...], Expr] | None:
    """Of a map or a part: the loops, and what is computed in them."""
    if isinstance(user, Map):
        return user.variables, user.value
    if isinstance(user, Copy):
        (store,) = user.nest.phases[0].statements
        return user.nest.outer, store.value
    return None


def _transposed_reader(recorder: Recorder, user: Definition, swapped: Container[Buffer]) -> Definition:
    """A map or part that reads transposed products where their elements have its own numbers."""
    loops = _loops_and_value(user)
    assert loops is not None
    value = _read_at(recorder, loops[1], swapped, flatten(loops[0]))
    if isinstance(user, Map):
        return replace(user, value=value)
    assert isinstance(user, Copy)
    return replace(user, nest=rewrite_nest(user.nest, lambda _: value))


def _transposed(p: ProductShape) -> ProductShape | None:
    """The product with rows and columns exchanged, if its kernel can read the operands then."""
    if (
        p.windows
        or p.groups is Groups.ROWS
        or 1 not in (p.left.row, p.left.column)
        or p.rows == 1
        or p.columns == 1
    ):
        return None
    return transposed(p)


def _reads_transposed(user: Definition | Step, result: Buffer, product: ProductShape) -> bool:
    """Whether a map or part reads, at the element of its own number, the element of the transposed product."""
    loops = _loops_and_value(user)
    if loops is None or extents(loops[0]) != as_index(product.size):
        return False
    sizes = (product.batch, product.rows, product.columns)
    batch, row, column = unflatten(
        flatten(loops[0]), tuple(Var(f"t{d}", size) for d, size in enumerate(sizes))
    )
    there = batch * (product.rows * product.columns) + column * product.rows + row
    return all(
        not access.indirect and access.index == there
        for access in loads_in(loops[1])
        if access.buffer is result
    )


def _read_at(recorder: Recorder, value: Expr, buffers: Container[Buffer], here: Index) -> Expr:
    def moved(node: Expr) -> Expr | None:
        if node.op == "load" and node.data.buffer in buffers:
            return recorder.load(Access(node.data.buffer, here), node.dtype)
        return None

    return substitute(recorder, value, moved)
