"""Copies of panels of the right operand into a layout that a kernel walks through in order.

A packed panel holds, for every k, its columns. Columns beyond the last one of the matrix hold anything, and
are never stored to the result; nothing outside of the operand is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....core.lazy import LazyModule
from ....runtime.target import Target
from ..emitter import Emitter
from ..types import bits_of, vector
from .kernels import define

ir = LazyModule("llvmlite.ir")


def copy_panels(module: Any, target: Target, element: Any, width: int, ragged: bool) -> Any:
    """pack(source, stride, columns, out, room, depth): panels of contiguous rows, `stride` apart.

    Panel n goes to out + n * room. Row by row through all of them: rows may be a page apart. `ragged`: the
    last panel may have fewer columns than `width`.
    """
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    lanes = target.lanes(bits_of(element) // 8)
    kind = vector(element, lanes)

    def body(e: Emitter, source: Any, stride: Any, columns: Any, out: Any, room: Any, depth: Any) -> None:
        panels = e.builder.udiv(e.add(columns, width - 1), e.i64(width))
        with e.loop(0, depth, 1) as k:
            row = e.address(source, e.mul(k, stride), element)
            start = e.address(out, e.mul(k, width), element)
            with e.loop(0, panels, 1) as n:
                first = e.mul(n, width)
                panel = e.address(start, e.mul(n, room), element)
                for at in range(0, width, lanes):
                    column = e.add(first, at)
                    address = e.address(row, column, element)
                    if ragged:
                        x = e.load_masked(address, kind, e.tail_mask(e.sub(columns, column), lanes))
                    else:
                        x = e.load(address, kind)
                    e.store(x, e.address(panel, at, element))

    name = f"copy_panels_{element}_{width}{'_ragged' if ragged else ''}"
    return define(module, name, [pointer, i64, i64, pointer, i64, i64], target, body)


def transpose_panel(module: Any, target: Target, element: Any, width: int, ragged: bool) -> Any:
    """pack(source, stride, columns, out, room, depth): a panel of contiguous columns, `stride` apart.

    `ragged`: the depth is not a whole number of vectors; the copy has room for one that is.
    """
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    lanes = target.lanes(bits_of(element) // 8)

    def body(e: Emitter, source: Any, stride: Any, columns: Any, out: Any, room: Any, depth: Any) -> None:
        whole = e.and_(depth, -lanes)
        with e.loop(0, columns, lanes) as column:
            start = e.address(source, e.mul(column, stride), element)
            panel = e.address(out, column, element)
            last = e.sub(e.sub(columns, column), 1)

            def square(k: Any, masked: bool) -> None:
                function = _square(module, target, element, width, masked)
                left = e.sub(depth, k)
                e.call(function, [e.address(start, k, element), stride, last,
                                  e.address(panel, e.mul(k, width), element), left])

            with e.loop(0, whole, lanes) as k:
                square(k, False)
            if ragged:
                with e.when(e.compare("<", whole, depth)):
                    square(whole, True)

    name = f"transpose_panel_{element}_{width}{'_ragged' if ragged else ''}"
    return define(module, name, [pointer, i64, i64, pointer, i64, i64], target, body)


def _square(module: Any, target: Target, element: Any, width: int, masked: bool) -> Any:
    """square(source, stride, last, out, depth): out[k * width + i] = source[min(i, last) * stride + k].

    For i and k below the number of lanes; if `masked`, from k = depth on it is 0, and nothing is read.
    """
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    lanes = target.lanes(bits_of(element) // 8)
    kind = vector(element, lanes)

    def body(e: Emitter, source: Any, stride: Any, last: Any, out: Any, depth: Any) -> None:
        mask = e.tail_mask(depth, lanes) if masked else None
        rows = []
        for i in range(lanes):
            address = e.address(source, e.mul(e.minimum(e.i64(i), last), stride), element) if i else source
            rows.append(e.load(address, kind) if mask is None else e.load_masked(address, kind, mask))
        for k, column in enumerate(transpose(e, rows)):
            e.store(column, e.address(out, k * width, element))

    name = f"transpose_{element}_{width}{'_masked' if masked else ''}"
    return define(module, name, [pointer, i64, i64, pointer, i64], target, body)


def transpose(e: Emitter, rows: Sequence[Any]) -> list[Any]:
    """The columns of a square of as many vectors as they have lanes, in log2 rounds of interleaving."""
    lanes = len(rows)
    current = list(rows)
    step = 1
    while step < lanes:
        low = [b + t for b in range(0, lanes, 2 * step) for t in (*range(step), *range(lanes, lanes + step))]
        high = [lane + step for lane in low]
        following = list(current)
        for i in range(lanes):
            if not i & step:
                following[i] = e.shuffle(current[i], low, current[i + step])
                following[i + step] = e.shuffle(current[i], high, current[i + step])
        current = following
        step *= 2
    return current
