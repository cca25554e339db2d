"""Matrix products against torch and NumPy in one run: the native code alone, and compiled layers.

    python benchmarks/matmul.py [--threads N] [--rounds N]

Ratios are ours to torch's, smaller is better. With one thread, times are those of the processor, which a busy
machine disturbs less. The last columns say how long generating and compiling the code took, and how it runs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

SHAPES = [(64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (32, 784, 512), (1024, 128, 512),
          (1024, 512, 128), (1, 784, 512), (8, 512, 512), (100, 100, 100), (512, 1024, 128), (64, 784, 256),
          (64, 256, 128), (1024, 512, 2048)]
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False)}
LAYERS = [(64, 784, 256), (64, 256, 128), (1024, 128, 512), (1024, 512, 2048)]

Clock = Callable[[], float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="time matrix products")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args(arguments)
    wanted = dict.fromkeys(("RUSHLIGHT_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(options.threads))
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        # The libraries look at these when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    import torch
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    products(torch, clock, options.rounds)
    layers(torch, clock, options.rounds)


def best_times(contestants: Mapping[str, Callable[[], object]], clock: Clock,
               rounds: int) -> dict[str, float]:
    """The best time of each, in interleaved rounds of a few hundredths of a second."""
    best = dict.fromkeys(contestants, float("inf"))
    for thunk in contestants.values():
        thunk()
    for _ in range(rounds):
        for name, thunk in contestants.items():
            end = time.perf_counter() + 0.03
            while time.perf_counter() < end:
                start = clock()
                thunk()
                best[name] = min(best[name], clock() - start)
    return best


def row(name: str, best: Mapping[str, float]) -> str:
    times = " ".join(f"{1e6 * seconds:8.1f}us" for seconds in best.values())
    return f"{name:>22} {times}  {best['ours'] / best['torch']:5.2f}"


def aligned(*shape: int) -> np.ndarray:
    from rushlight.runtime.executable import aligned_bytes
    memory = aligned_bytes(4 * int(np.prod(shape))).view(np.float32).reshape(shape)
    memory[...] = np.random.default_rng(0).standard_normal(shape)
    return memory


# The native code of a product.

def products(torch: Any, clock: Clock, rounds: int) -> None:
    print(f"{'m, k, n':>22} {'torch':>10} {'numpy':>10} {'ours':>10}  ratio   GF/s  compile")
    for rows, depth, columns in SHAPES:
        for name, (left, right) in LAYOUTS.items():
            a = aligned(depth, rows).T if left else aligned(rows, depth)
            b = aligned(columns, depth).T if right else aligned(depth, columns)
            out, other = aligned(rows, columns), np.empty((rows, columns), np.float32)
            x, y, z = torch.from_numpy(a), torch.from_numpy(b), torch.empty(rows, columns)
            ours, seconds, plan = native(a, b, out)
            best = best_times({"torch": partial(torch.mm, x, y, out=z),
                               "numpy": partial(np.matmul, a, b, out=other), "ours": ours}, clock, rounds)
            if not np.allclose(out, other, atol=1e-2):
                raise AssertionError(f"a wrong product of {rows}, {depth}, {columns} {name}")
            rate = 2e-9 * rows * depth * columns / best["ours"]
            text = row(f"{rows}, {depth}, {columns} {name}", best)
            print(text, f"{rate:6.0f} {1e3 * seconds:6.1f}ms  {plan}", flush=True)


def native(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[Callable[[], object], float, str]:
    """A function that runs a product, the processor time it took to make, and a description of its plan."""
    from rushlight.codegen.llvm.matmul.plan import plan_product
    from rushlight.codegen.llvm.module import emit_module
    from rushlight.core.dtypes import DTYPES
    from rushlight.loops.index import as_index
    from rushlight.loops.nest import Buffer, Call, Place
    from rushlight.loops.product import MATMUL, Matrix, Product
    from rushlight.runtime.engine import engine
    from rushlight.runtime.threads import pool
    from rushlight.schedule.memory import Workspace
    from rushlight.schedule.schedule import Schedule
    left, right = (Matrix(0, 0, x.strides[0] // x.itemsize, x.strides[1] // x.itemsize) for x in (a, b))
    product = Product(1, out.shape[0], out.shape[1], a.shape[1], left, right, DTYPES["float32"])
    buffers = [Buffer(f"b{i}", product.dtype, as_index(1), Place.INPUT) for i in range(3)]
    call = Call("matmul0", MATMUL, buffers[:2], buffers[2:], {"product": product})
    imports = {"parallel_for": pool().parallel_for_address}
    start = time.thread_time()
    module = emit_module(Schedule([call], Workspace({}, 0)), engine().target)
    library = engine().build(module.text, ["entry0"], imports, use_cache=False)
    seconds = time.thread_time() - start
    block = (ctypes.c_int64 * (1 + len(module.slots)))()
    block[0] = pool().address
    for buffer, array in zip(buffers, (a, b, out), strict=True):
        block[module.slots[buffer]] = array.__array_interface__["data"][0]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["entry0"])
    address = ctypes.addressof(block)
    kept = block, library

    def run() -> object:
        entry(address)
        return kept

    plan = plan_product(product, engine().target)
    packed = "".join(name for name, packs in (("A", plan.pack_left), ("B", plan.pack_right)) if packs)
    tasks = f"{plan.row_tasks}x{plan.column_tasks}"
    return run, seconds, f"{plan.kernel} {plan.height}x{plan.width} packs {packed or 'nothing'} tasks {tasks}"


# Compiled functions.

def layers(torch: Any, clock: Clock, rounds: int) -> None:
    """gelu(x @ w.T + b): a call of a compiled function against torch's two operators."""
    import rushlight as rl
    print("\ngelu(x @ w.T + b): whole calls of torch and of ours")
    functional = torch.nn.functional

    def ours(x: Any, w: Any, b: Any) -> Any:
        return gelu(b.addmm(x, w.t()))

    def theirs(x: Any, w: Any, b: Any) -> Any:
        return functional.gelu(functional.linear(x, w, b))

    for rows, depth, columns in LAYERS:
        arrays = aligned(rows, depth), aligned(columns, depth), aligned(columns)
        compiled = rl.compile(ours, fullgraph=True)
        mine = [rl.from_numpy(array) for array in arrays]
        other = [torch.from_numpy(array) for array in arrays]
        start = time.thread_time()
        result = compiled(*mine)
        seconds = time.thread_time() - start
        if not np.allclose(result.numpy(), theirs(*other).numpy(), atol=1e-2):
            raise AssertionError(f"a wrong layer of {rows}, {depth}, {columns}")
        best = best_times({"torch": partial(theirs, *other), "ours": partial(compiled, *mine)}, clock, rounds)
        print(row(f"{rows}, {depth}, {columns}", best), f"  first call {1e3 * seconds:6.1f}ms", flush=True)


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + (x * 0.5 ** 0.5).erf())


if __name__ == "__main__":
    main()
