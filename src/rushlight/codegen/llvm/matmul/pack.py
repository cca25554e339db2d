"""Copies of panels and tiles into a layout that a kernel walks through in order.

A packed panel of the right operand holds, for every k, its columns; a packed tile of the left operand holds, for every k,
its rows, padded to whole vectors. Padding is never stored to the result, and nothing outside of the operands is read.
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


def _square(module: Any, target: Target, element: Any, masked: bool) -> Any:
    """square(source, stride, count, target, step, depth): target[k step + i] = source[min(i, count - 1) stride + k].

    For k below the number of lanes; if `masked`, those from `depth` on are 0 and not read.
    """
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    lanes = target.lanes(bits_of(element) // 8)
    kind = vector(element, lanes)

    def body(e: Emitter, source: Any, stride: Any, count: Any, out: Any, step: Any, depth: Any) -> None:
        mask = e.tail_mask(depth, lanes) if masked else None
        rows = []
        for i in range(lanes):
            at = e.minimum(e.i64(i), e.sub(count, 1)) if i else e.i64(0)
            address = e.address(source, e.mul(at, stride), element)
            rows.append(e.load(address, kind) if mask is None else e.load_masked(address, kind, mask))
        for k, column in enumerate(transpose(e, rows)):
            e.store(column, e.address(out, e.mul(step, k), element))

    name = f"transpose_{element}{'_masked' if masked else ''}"
    return define(module, name, [pointer, i64, i64, pointer, i64, i64], target, body)


def packer(module: Any, target: Target, element: Any, across: bool, ragged: bool) -> Any:
    """pack(source, stride, count, out, step, depth): out[k * step + i] = source at (i, k), i < step, k < depth.

    `across`: the source is contiguous along k and `stride` leads from i to i + 1; else it is contiguous along i, and `stride`
    leads from k to k + 1. Beyond `count` anything is written; `step` is a whole number of vectors. `ragged`: depth or count
    is not a whole number of vectors. The target has room for a whole number of vectors along k.
    """
    pointer, i64 = ir.PointerType(), ir.IntType(64)
    lanes = target.lanes(bits_of(element) // 8)
    kind = vector(element, lanes)

    def transposed(e: Emitter, source: Any, stride: Any, count: Any, out: Any, step: Any, depth: Any) -> None:
        whole = e.and_(depth, -lanes)
        with e.loop(0, count, lanes) as i:
            start = e.address(source, e.mul(i, stride), element)
            column = e.address(out, i, element)
            left = e.sub(count, i)
            with e.loop(0, whole, lanes) as k:
                e.call(_square(module, target, element, False), [
                    e.address(start, k, element), stride, left, e.address(column, e.mul(k, step), element), step, depth])
            if ragged:
                with e.when(e.compare("<", whole, depth)):
                    e.call(_square(module, target, element, True), [
                        e.address(start, whole, element), stride, left,
                        e.address(column, e.mul(whole, step), element), step, e.sub(depth, whole)])

    def copied(e: Emitter, source: Any, stride: Any, count: Any, out: Any, step: Any, depth: Any) -> None:
        whole = e.and_(count, -lanes)
        with e.loop(0, depth, 1) as k:
            start = e.address(source, e.mul(k, stride), element)
            row = e.address(out, e.mul(k, step), element)
            with e.loop(0, whole, lanes) as i:
                e.store(e.load(e.address(start, i, element), kind), e.address(row, i, element))
            if ragged:
                with e.when(e.compare("<", whole, count)):
                    mask = e.tail_mask(e.sub(count, whole), lanes)
                    e.store(e.load_masked(e.address(start, whole, element), kind, mask), e.address(row, whole, element))

    name = f"pack_{element}{'_across' if across else ''}{'_ragged' if ragged else ''}"
    return define(module, name, [pointer, i64, i64, pointer, i64, i64], target, transposed if across else copied)
