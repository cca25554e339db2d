"""Native functions that fill memory with random numbers: the streams of core/generator.py, bit for bit.

In:  (memory, seed, first block, blocks): whole Philox blocks, `STEP` at a time.
Out: four float32 or two float64 for each block, uniform or normal.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .emitter import Emitter
from .philox import Philox, box_muller, uniform_of_bits

ir = LazyModule("llvmlite.ir")

STEP = 8  # blocks in one step, whose lanes are side by side
STREAMS = ("rand_float32", "rand_float64", "randn_float32", "randn_float64")


def emit_streams(target: Target) -> str:
    """The text of a module with a function for each of `STREAMS`."""
    module = ir.Module("rushlight_streams")
    word = ir.IntType(64)
    for name in STREAMS:
        kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(), word, word, word])
        function = ir.Function(module, kind, name)
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
        _emit_stream(e, function, name)
        e.builder.ret_void()
    return str(module)


def _emit_stream(e: Emitter, function: Any, name: str) -> None:
    memory, seed, first, count = function.args
    stream = Philox(e, seed)
    lanes = e.iota(ir.VectorType(e.i64, STEP))

    def step(i: Any) -> list[Any]:
        low, high = stream.blocks(e.add(e.splat(e.add(first, i), STEP), lanes))
        address = e.builder.gep(memory, [e.shift_left(i, 4)], source_etype=ir.IntType(8))
        e.builder.store(_numbers(e, name, low, high), address, align=4)
        return []

    e.fold(0, count, STEP, [], step)


def _numbers(e: Emitter, name: str, low: Any, high: Any) -> Any:
    """The numbers of blocks, in order."""
    if name == "randn_float64":
        return _in_turn(e, *box_muller(e, low, high))
    both = _in_turn(e, low, high)
    if name == "rand_float64":
        return uniform_of_bits(e, both, "float64")
    words = e.builder.bitcast(both, ir.VectorType(e.i32, 4 * STEP))
    if name == "rand_float32":
        return uniform_of_bits(e, words, "float32")
    a, b = (e.shuffle(words, range(start, 4 * STEP, 2)) for start in (0, 1))
    return _in_turn(e, *box_muller(e, a, b))


def _in_turn(e: Emitter, a: Any, b: Any) -> Any:
    """Lanes of `a` and `b`, one of each in turn."""
    count = a.type.count
    return e.shuffle(a, [lane for i in range(count) for lane in (i, count + i)], b)
