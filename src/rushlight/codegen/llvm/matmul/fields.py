"""The fields of the tasks of a product: all that its routines know of it.

Sizes are in elements, steps and offsets in bytes; a slot is the number of an address in the block.
"""

from __future__ import annotations

from typing import Any

from ..struct import I64, Ptr, Struct


class TaskArgs(Struct):
    """What a task is called with."""

    fields: Ptr
    block: Ptr  # addresses of buffers
    number: I64  # of the task


class ProductArgs(TaskArgs):
    """A task of a product: also the routines that it calls."""

    kernel: Ptr  # of TileArgs
    move: Ptr  # of MoveArgs
    clear: Ptr  # of ClearArgs
    epilogue: Ptr  # of EpilogueArgs, or null
    slots: Ptr  # of the epilogue's buffers


class PackingArgs(TaskArgs):
    """A task of a packing."""

    pack: Ptr  # of PackArgs


class EpilogueArgs(Struct):
    """A range of rows and columns of one matrix."""

    slots: Ptr  # of the buffers that it takes
    block: Ptr
    matrix: I64
    row: I64
    rows_end: I64
    column: I64
    columns_end: I64


class ProductFields(Struct):
    """A product and its plan."""

    batch: I64
    rows: I64
    columns: I64
    depth: I64
    height: I64  # rows of a tile
    tiles: I64
    width: I64  # columns of a panel
    panels: I64
    block: I64  # depth of a block
    chunk: I64  # tiles that meet a panel one after the other
    batch_tasks: I64
    row_tasks: I64
    column_tasks: I64
    left: I64  # slot
    left_offset: I64
    left_batch: I64
    left_tile: I64
    left_row: I64
    left_depth: I64
    lead: I64  # what kernels fetch of it
    lead_step: I64
    right: I64  # slot
    right_offset: I64
    right_batch: I64
    right_panel: I64
    right_depth: I64
    right_column: I64
    direct: I64  # panels that are read where they are; the others are in a copy
    copy: I64  # slot
    copy_offset: I64
    copy_batch: I64
    copy_panel: I64
    copy_depth: I64
    # where rows and runs of columns of the left operand start: 0, or the slot of a table
    offsets: I64
    offsets_offset: I64
    segments_offset: I64
    segment_depth: I64
    out: I64  # slot
    out_batch: I64
    out_row: I64
    size: I64  # bytes of an element
    epilogue: I64  # an EpilogueMode
    triangle: I64  # a Side, or 0
    diagonal: I64
    reach: I64  # columns beyond the triangle that are looked at
    other0: I64  # slots of what goes with the result, as it lies
    other1: I64
    other2: I64
    row: I64  # the slot of a row that goes with each of its rows
    grouped: I64  # Groups, or 0
    groups: I64  # the slot of where groups end

    def others(self) -> list[Any]:
        return [self.other0, self.other1, self.other2]


class TableFields(Struct):
    """A table of where rows of a left operand with windows start, and where its runs of columns start.

    Extents and strides of up to four dimensions of the rows, and of the taps.
    """

    out: I64  # slot
    row_offset: I64
    rows: I64
    padded: I64  # rows of whole tiles
    tap_offset: I64
    row0_extent: I64
    row0_stride: I64
    row1_extent: I64
    row1_stride: I64
    row2_extent: I64
    row2_stride: I64
    row3_extent: I64
    row3_stride: I64
    tap0_extent: I64
    tap0_stride: I64
    tap1_extent: I64
    tap1_stride: I64
    tap2_extent: I64
    tap2_stride: I64
    tap3_extent: I64
    tap3_stride: I64

    def dimensions(self, kind: str) -> list[tuple[Any, Any]]:
        """The extent and the stride of each dimension, of "row" or "tap"."""
        return [(getattr(self, f"{kind}{d}_extent"), getattr(self, f"{kind}{d}_stride")) for d in range(4)]


class PackFields(Struct):
    """An operand and how it is packed (plan/packing.py)."""

    source: I64  # slot
    offset: I64
    batch_step: I64
    unit: I64  # from unit to unit
    depth_step: I64  # from k to k + 1
    units: I64
    depth: I64
    out: I64  # slot
    out_offset: I64
    out_batch: I64
    width: I64  # units of a slab
    room: I64  # from slab to slab
    groups: I64
    group_units: I64
    parts: I64
    part_depth: I64
    size: I64  # bytes of an element
