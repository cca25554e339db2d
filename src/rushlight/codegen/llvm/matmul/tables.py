"""The fields of a product's tasks as numbers, from its plan.

A product of fixed sizes has them as constants in the module. One whose sizes change has them in the table of
sizes: `template_of` says, as plain data, all that they follow from, and `product_numbers` works them out for the
sizes of a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ....core.dtypes import DTYPES
from ....core.index_data import evaluate_data, to_data
from ....loops.kernels import Product
from ....loops.product import Groups, Matrix, ProductShape, Side, Triangle, Windows, hints_of
from ....plan.cost import MOST_OTHERS
from ....plan.packing import PackPlan, plan_pack
from ....plan.product import EpilogueMode, EpiloguePlan, ProductPlan, Tile, TileKernel
from ....plan.tiling import fit_plan
from ....runtime.target import Target
from .fields import PackFields, ProductFields, TableFields


@dataclass(frozen=True)
class ProductSlots:
    """Where in the block of addresses everything is that a product touches."""

    out: int
    left: int
    right: int
    scratch: int
    scratch_offset: int  # bytes
    others: tuple[int, ...]  # matrices that go with the result
    row: int  # that goes with each of its rows, or 0
    groups: int = 0  # where groups of rows or of the depth end


# Fields from a plan.


def product_fields(plan: ProductPlan, slots: ProductSlots) -> ProductFields:
    p, size = plan.shape, plan.shape.dtype.itemsize
    others = [*slots.others, *[0] * (MOST_OTHERS - len(slots.others))]
    return ProductFields(
        batch=p.batch,
        rows=p.rows,
        columns=p.columns,
        depth=p.depth,
        height=plan.tile.height,
        tiles=plan.tiles,
        width=plan.tile.width,
        panels=plan.panels,
        block=plan.block,
        chunk=plan.chunk,
        batch_tasks=plan.grid.batch,
        row_tasks=plan.grid.rows,
        column_tasks=plan.grid.columns,
        lead=plan.lead,
        lead_step=plan.lead_step,
        out=slots.out,
        out_batch=0 if p.groups is Groups.ROWS else p.rows * p.columns * size,
        out_row=p.columns * size,
        size=size,
        triangle=0 if p.triangle is None else p.triangle.side,
        diagonal=0 if p.triangle is None else p.triangle.diagonal,
        reach=plan.reach,
        epilogue=plan.epilogue.mode,
        **{f"other{k}": slot for k, slot in enumerate(others)},
        row=slots.row,
        grouped=0 if p.groups is None else p.groups,
        groups=slots.groups,
        **_left_fields(plan, slots),
        **_right_fields(plan, slots),
    )


def _left_fields(plan: ProductPlan, slots: ProductSlots) -> dict[str, int]:
    """Where the left operand is, in its own memory or packed, and its tables."""
    p, size = plan.shape, plan.shape.dtype.itemsize
    tables = {"offsets": 0, "offsets_offset": 0, "segments_offset": 0, "segment_depth": p.depth}
    if plan.left is not None:
        return {
            "left": slots.scratch,
            "left_offset": slots.scratch_offset,
            "left_batch": plan.left.slabs * plan.left.room if p.left.batch else 0,
            "left_tile": plan.left.room,
            "left_row": size,
            "left_depth": plan.tile.height * size,
            **tables,
        }
    if p.windows is not None:
        rows, segments = _tables(plan, slots)
        tables = {
            "offsets": slots.scratch,
            "offsets_offset": rows,
            "segments_offset": segments,
            "segment_depth": p.depth // p.windows.segments,
        }
    return {
        "left": slots.left,
        "left_offset": p.left.offset * size,
        "left_batch": p.left.batch * size,
        "left_tile": plan.tile.height * p.left.row * size if p.windows is None else 0,
        "left_row": p.left.row * size,
        "left_depth": p.left.column * size,
        **tables,
    }


def _right_fields(plan: ProductPlan, slots: ProductSlots) -> dict[str, int]:
    """Where the right operand is, and the packed copy of some of its panels."""
    p, size = plan.shape, plan.shape.dtype.itemsize
    copy = plan.table_offset if plan.right is None else plan.right.offset
    return {
        "right": slots.right,
        "right_offset": p.right.offset * size,
        "right_batch": p.right.batch * size,
        "right_panel": plan.tile.width * p.right.column * size,
        "right_depth": p.right.row * size,
        "right_column": p.right.column * size,
        "direct": plan.direct,
        "copy": slots.scratch,
        "copy_offset": slots.scratch_offset + copy,
        "copy_batch": plan.right.slabs * plan.right.room if plan.right and p.right.batch else 0,
        "copy_panel": plan.right_room,
        "copy_depth": plan.tile.width * size,
    }


def _tables(plan: ProductPlan, slots: ProductSlots) -> tuple[int, int]:
    """Where in scratch memory the tables of rows and of runs of columns are."""
    rows = slots.scratch_offset + plan.table_offset
    return rows, rows + 8 * plan.tiles * plan.tile.height


def table_fields(plan: ProductPlan, slots: ProductSlots) -> TableFields:
    """Of the task that writes the tables of a left operand with windows."""
    windows, size = plan.shape.windows, plan.shape.dtype.itemsize
    assert windows is not None
    rows, segments = _tables(plan, slots)
    dimensions: dict[str, int] = {}
    for kind, dims in (("row", windows.positions), ("tap", windows.taps)):
        for d, (extent, stride) in enumerate([(1, 0)] * (4 - len(dims)) + list(dims)):
            dimensions |= {f"{kind}{d}_extent": extent, f"{kind}{d}_stride": stride * size}
    return TableFields(
        out=slots.scratch,
        row_offset=rows,
        rows=plan.shape.rows,
        padded=plan.tiles * plan.tile.height,
        tap_offset=segments,
        **dimensions,
    )


def pack_fields(plan: ProductPlan, pack: PackPlan, slots: ProductSlots) -> PackFields:
    """Of a task that packs units of an operand."""
    p, size = plan.shape, plan.shape.dtype.itemsize
    matrix, source = (p.left, slots.left) if pack.side == "left" else (p.right, slots.right)
    unit, depth_step = (matrix.row, matrix.column) if pack.side == "left" else (matrix.column, matrix.row)
    return PackFields(
        source=source,
        offset=(matrix.offset + pack.first * unit) * size,
        batch_step=matrix.batch * size,
        unit=unit * size,
        depth_step=depth_step * size,
        units=pack.units,
        depth=p.depth,
        out=slots.scratch,
        out_offset=slots.scratch_offset + pack.offset,
        out_batch=pack.slabs * pack.room,
        width=pack.width,
        room=pack.room,
        groups=pack.groups,
        group_units=pack.group_units,
        parts=pack.parts,
        part_depth=pack.part_depth,
        size=size,
    )


def pack_template(plan: ProductPlan, target: Target) -> PackPlan:
    """How panels of the right operand are packed, if any are: which routine does it depends on the tile alone."""
    p = hints_of(plan.shape)
    return plan_pack(p, "right", 0, plan.tile.width, 0, target.lanes(p.dtype.itemsize))


# Sizes that change.


class _Part(NamedTuple):
    """Where in the numbers of a product the number of tasks of a phase is, and where its fields begin."""

    tasks: int
    fields: int


_PRODUCT, _PACK = len(ProductFields.FIELDS), len(PackFields.FIELDS)
PARTS = {
    "product": _Part(0, 4),
    "left": _Part(1, 4 + _PRODUCT),
    "right": _Part(2, 4 + _PRODUCT + _PACK),
    "table": _Part(3, 4 + _PRODUCT + 2 * _PACK),
}


def count_of_numbers(windows: Any) -> int:
    """How many numbers a product has in the table of sizes."""
    return PARTS["table"].fields + (0 if windows is None else len(TableFields.FIELDS))


def template_of(plan: ProductPlan, slots: ProductSlots) -> dict[str, Any]:
    """All that the numbers of a product follow from, as plain data."""
    p = plan.shape
    triangle = None if p.triangle is None else [int(p.triangle.side), to_data(p.triangle.diagonal)]
    windows = None
    if p.windows is not None:
        dims = p.windows.positions, p.windows.taps
        windows = [[[to_data(n) for n in pair] for pair in pairs] for pairs in dims]
    return {
        "sizes": [to_data(n) for n in (p.batch, p.rows, p.columns, p.depth)],
        "left": [to_data(n) for n in (p.left.offset, p.left.batch, p.left.row, p.left.column)],
        "right": [to_data(n) for n in (p.right.offset, p.right.batch, p.right.row, p.right.column)],
        "dtype": p.dtype.name,
        "windows": windows,
        "triangle": triangle,
        "groups": None if p.groups is None else int(p.groups),
        "tile": [plan.tile.kernel.value, plan.tile.height, plan.tile.width],
        "packs_left": plan.left is not None,
        "reach": plan.reach if plan.product.near_diagonal else None,
        "shares": to_data(plan.shares),
        "epilogue": int(plan.epilogue.mode),
        "slots": [
            slots.out,
            slots.left,
            slots.right,
            slots.scratch,
            slots.scratch_offset,
            list(slots.others),
            slots.row,
            slots.groups,
        ],
    }


def product_numbers(template: Mapping[str, Any], sizes: Mapping[str, int], target: Target) -> list[int]:
    """The numbers of a product: how many tasks each phase has, then the fields of each."""

    def numbers(data: Any) -> list[int]:
        return [evaluate_data(n, sizes) for n in data]

    triangle, windows = template["triangle"], template["windows"]
    if windows is not None:
        positions, taps = (tuple([(n, m) for n, m in map(numbers, pairs)]) for pairs in windows)
        windows = Windows(positions, taps)
    batch, rows, columns, depth = numbers(template["sizes"])
    if 0 in (batch, rows, columns, depth):  # no tasks; of no depth there are none either (lowering/matmul.py)
        return [0] * count_of_numbers(windows)
    shape = ProductShape(
        batch,
        rows,
        columns,
        depth,
        Matrix(*numbers(template["left"])),
        Matrix(*numbers(template["right"])),
        DTYPES[template["dtype"]],
        windows,
        None if triangle is None else Triangle(Side(triangle[0]), evaluate_data(triangle[1], sizes)),
        None if template["groups"] is None else Groups(template["groups"]),
    )
    kernel, height, width = template["tile"]
    out, left, right, scratch, offset, others, row, groups = template["slots"]
    slots = ProductSlots(out, left, right, scratch, offset, tuple(others), row, groups)
    product: Any = Product("sized", shape, *[None] * 3)  # type: ignore[arg-type]
    shares = evaluate_data(template["shares"], sizes)
    plan = fit_plan(product, Tile(TileKernel(kernel), height, width), target, shares, template["packs_left"])
    reach = plan.reach if template["reach"] is None else template["reach"]
    plan = replace(plan, epilogue=EpiloguePlan(EpilogueMode(template["epilogue"])), reach=reach)
    packs = [(pack, pack_fields(plan, pack, slots)) if pack else None for pack in (plan.left, plan.right)]
    counts = [0 if pack is None else pack[0].tasks for pack in packs]
    fields = [[0] * _PACK if pack is None else pack[1].values() for pack in packs]
    found = [plan.grid.tasks, *counts, int(windows is not None)]
    found += [*map(int, product_fields(plan, slots).values()), *fields[0], *fields[1]]
    return found if windows is None else [*found, *table_fields(plan, slots).values()]
