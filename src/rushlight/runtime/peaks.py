"""What this machine can do at most, measured: operations a second, and bytes a second from memory and from cache.

Two small loops run on as many threads as compiled programs use: one of nothing but multiply-adds on independent
registers, one that adds two arrays. They take a quarter of a second; the result is kept in the cache on disk.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass

import numpy as np

from .cache import key_of
from .engine import engine
from .target import Target
from .threads import pool

CHAINS = 12  # independent multiply-adds, enough to hide their latency
UNROLL = 4  # vectors of an array in one turn of the loop
CACHED = 96 * 1024  # bytes of the three arrays of a thread that stay in its cache
LARGE = 96 * 1024 * 1024  # bytes of those that do not stay in any
ROUNDS = 7
VERSION = 1


@dataclass(frozen=True)
class Peaks:
    """Of all threads together, and of one."""

    threads: int
    flops: float  # float32 operations a second
    flops_of_one: float
    memory: float  # bytes a second
    memory_of_one: float
    cache: float
    cache_of_one: float


def peaks(*, again: bool = False) -> Peaks:
    """The peaks of this machine, measured once for its number of threads. `again`: measured once more, and the
    best of both kept, for a machine that was busy with something else may have been less so."""
    threads = pool().size
    key = key_of(("peaks", str(VERSION), str(threads), engine().identity()))
    data = engine().cache.load(key, stays=False)
    known = None if data is None else Peaks(**json.loads(data))
    if known is None or again:
        found = _measure(threads)
        if known is not None:
            found = Peaks(threads, *map(max, astuple(known)[1:], astuple(found)[1:]))
        engine().cache.store(key, json.dumps(asdict(found)).encode(), stays=False)
        known = found
    return known


def _measure(threads: int) -> Peaks:
    target = engine().target
    library = engine().build(_text(target), ["multiply_add", "add_arrays"])
    flop = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_int64)(library.addresses["multiply_add"])
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    add = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, number, number)(library.addresses["add_arrays"])
    turns = 400_000
    operations = 2 * CHAINS * target.lanes(4) * turns

    def compute(count: int) -> float:
        return count * operations / _best([lambda: flop(turns)] * count)

    def move(count: int, size: int, times: int) -> float:
        arrays = [[np.ones(size // 12 // 1024 * 1024, np.float32) for _ in range(3)] for _ in range(count)]
        calls = [_call(add, three, times) for three in arrays]
        return count * times * 3 * arrays[0][0].nbytes / _best(calls)

    one, several = (
        (compute(n), move(n, LARGE // n, 1), move(n, CACHED, 2000 if n == 1 else 1000)) for n in (1, threads)
    )
    return Peaks(threads, several[0], one[0], several[1], one[1], several[2], one[2])


def _call(add: Callable[..., None], arrays: list[np.ndarray], times: int) -> Callable[[], None]:
    first, second, result = arrays
    return lambda: add(first.ctypes.data, second.ctypes.data, result.ctypes.data, first.size, times)


def _best(calls: Sequence[Callable[[], object]]) -> float:
    """The least time of several rounds in which all calls run at once, each on a thread of its own."""
    times = []
    for _ in range(ROUNDS):
        barrier = threading.Barrier(len(calls))
        spans: list[tuple[float, float]] = []

        def run(
            call: Callable[[], object], together: threading.Barrier, seen: list[tuple[float, float]]
        ) -> None:
            together.wait()
            start = time.perf_counter()
            call()
            seen.append((start, time.perf_counter()))

        workers = [threading.Thread(target=run, args=(call, barrier, spans)) for call in calls]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        times.append(max(end for _, end in spans) - min(start for start, _ in spans))
    return min(times)


def _text(target: Target) -> str:
    """The two loops."""
    return _multiply_add(target.lanes(4)) + _add_arrays(target.lanes(4))


def _multiply_add(lanes: int) -> str:
    vector, name = f"<{lanes} x float>", f"@llvm.fmuladd.v{lanes}f32"
    one = ", ".join(["float 0x3FF0000020000000"] * lanes)
    phis = [
        f"  %a{c} = phi {vector} [ <{', '.join([f'float {c + 1}.0'] * lanes)}>, %entry ], [ %b{c}, %loop ]"
        for c in range(CHAINS)
    ]
    steps = [
        f"  %b{c} = call {vector} {name}({vector} %a{c}, {vector} <{one}>, {vector} %a0)"
        for c in range(CHAINS)
    ]
    sums = [f"  %s0 = fadd {vector} %b0, %b1"]
    sums += [f"  %s{c} = fadd {vector} %s{c - 1}, %b{c + 1}" for c in range(1, CHAINS - 1)]
    newline = "\n"
    return f"""
declare {vector} {name}({vector}, {vector}, {vector})
define float @multiply_add(i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{newline.join(phis)}
{newline.join(steps)}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
{newline.join(sums)}
  %result = extractelement {vector} %s{CHAINS - 2}, i32 0
  ret float %result
}}
"""


def _add_arrays(lanes: int) -> str:
    vector = f"<{lanes} x float>"
    moves = []
    for u in range(UNROLL):
        moves += [
            f"  %i{u} = add i64 %i, {u * lanes}",
            f"  %p{u} = getelementptr float, ptr %x, i64 %i{u}",
            f"  %q{u} = getelementptr float, ptr %y, i64 %i{u}",
            f"  %r{u} = getelementptr float, ptr %z, i64 %i{u}",
            f"  %v{u} = load {vector}, ptr %p{u}, align 4",
            f"  %w{u} = load {vector}, ptr %q{u}, align 4",
            f"  %t{u} = fadd {vector} %v{u}, %w{u}",
            f"  store {vector} %t{u}, ptr %r{u}, align 4",
        ]
    newline = "\n"
    return f"""
define void @add_arrays(ptr noalias %x, ptr noalias %y, ptr noalias %z, i64 %n, i64 %times) {{
entry:
  br label %round
round:
  %k = phi i64 [ 0, %entry ], [ %k1, %after ]
  br label %loop
loop:
  %i = phi i64 [ 0, %round ], [ %next, %loop ]
{newline.join(moves)}
  %next = add i64 %i, {UNROLL * lanes}
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %after
after:
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %times
  br i1 %again, label %round, label %done
done:
  ret void
}}
"""
