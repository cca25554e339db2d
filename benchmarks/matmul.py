"""Matrix products against torch and NumPy in one run: the native code alone, and compiled functions with an epilogue.

    python benchmarks/matmul.py [--threads N] [--rounds N]

Ratios are ours to torch's, smaller is better. With one thread, times are those of the processor, which a busy machine disturbs
less. The last columns say how long generating and compiling the code took, and how it runs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SHAPES = [(64, 64, 64), (256, 256, 256), (1024, 1024, 1024), (32, 784, 512), (1024, 128, 512), (1024, 512, 128), (1, 784, 512),
          (8, 512, 512), (100, 100, 100), (512, 1024, 128), (64, 784, 256), (64, 256, 128), (1024, 512, 2048)]
LAYOUTS = {"nn": (False, False), "nt": (False, True), "tn": (True, False)}
LAYERS = [(64, 784, 256), (64, 256, 128), (1024, 128, 512), (1024, 512, 2048)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="time matrix products")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args(arguments)
    threads = {name: str(options.threads) for name in ("RUSHLIGHT_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    if any(os.environ.get(name) != value for name, value in threads.items()):  # they are read when libraries are loaded
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **threads})
    import torch
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    products(torch, clock, options.rounds)
    layers(torch, clock, options.rounds)


def best_times(contestants: dict[str, Callable[[], object]], clock: Callable[[], float], rounds: int) -> dict[str, float]:
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


def aligned(*shape: int) -> np.ndarray:
    from rushlight.runtime.executable import aligned_bytes
    memory = aligned_bytes(4 * int(np.prod(shape))).view(np.float32).reshape(shape)
    memory[...] = np.random.default_rng(0).standard_normal(shape)
    return memory


# The native code of a product.

def products(torch: Any, clock: Callable[[], float], rounds: int) -> None:
    print(f"{'m, k, n':>18} {'':2} {'torch':>10} {'numpy':>10} {'ours':>10}  ratio   GF/s  compile")
    for rows, depth, columns in SHAPES:
        for name, (left, right) in LAYOUTS.items():
            a = aligned(depth, rows).T if left else aligned(rows, depth)
            b = aligned(columns, depth).T if right else aligned(depth, columns)
            out, other = aligned(rows, columns), np.empty((rows, columns), np.float32)
            x, y, z = torch.from_numpy(a), torch.from_numpy(b), torch.empty(rows, columns)
            ours, seconds, plan = native(a, b, out)
            best = best_times({"torch": lambda x=x, y=y, z=z: torch.mm(x, y, out=z),
                               "numpy": lambda a=a, b=b, o=other: np.matmul(a, b, out=o), "ours": ours}, clock, rounds)
            assert np.allclose(out, z.numpy(), atol=1e-2)
            print(f"{f'{rows}, {depth}, {columns}':>18} {name} " + " ".join(f"{1e6 * t:8.1f}us" for t in best.values()),
                  f" {best['ours'] / best['torch']:5.2f} {2e-9 * rows * depth * columns / best['ours']:6.0f}",
                  f"{1e3 * seconds:5.1f}ms  {plan}", flush=True)


def native(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[Callable[[], None], float, str]:
    """A function that runs a product, how long it took to make in processor time, and a description of its plan."""
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
    left, right = (Matrix(0, 0, *(s // x.itemsize for s in x.strides)) for x in (a, b))
    product = Product(1, *out.shape, a.shape[1], left, right, DTYPES["float32"])
    buffers = [Buffer(f"b{i}", product.dtype, as_index(1), Place.INPUT) for i in range(3)]
    call = Call("matmul0", MATMUL, buffers[:2], buffers[2:], {"product": product})
    engine(), pool()
    start = time.thread_time()
    module = emit_module(Schedule([call], Workspace({}, 0)), engine().target)
    library = engine().build(module.text, ["entry0"], {"parallel_for": pool().parallel_for_address}, use_cache=False)
    seconds = time.thread_time() - start
    block = (ctypes.c_int64 * (1 + len(module.slots)))()
    block[0] = pool().address
    for buffer, array in zip(buffers, (a, b, out), strict=True):
        block[module.slots[buffer]] = array.__array_interface__["data"][0]
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["entry0"])
    address = ctypes.addressof(block)
    plan = plan_product(product, engine().target)
    packed = "".join(name for name, packs in (("A", plan.pack_left), ("B", plan.pack_right)) if packs)
    text = f"{plan.kernel} {plan.height}x{plan.width} packs {packed or 'nothing'} tasks {plan.row_tasks}x{plan.column_tasks}"
    return lambda keep=(block, library): entry(address), seconds, text  # type: ignore[misc]


# Compiled functions.

def layers(torch: Any, clock: Callable[[], float], rounds: int) -> None:
    """gelu(x @ w.T + b), a call of a compiled function against torch's two operators."""
    import rushlight as rl
    print("\ngelu(x @ w.T + b): torch, ours (whole calls)")
    for rows, depth, columns in LAYERS:
        arrays = aligned(rows, depth), aligned(columns, depth), aligned(columns)
        compiled = rl.compile(lambda x, w, b: gelu(rl, b.addmm(x, w.t())), fullgraph=True)
        ours = [rl.from_numpy(array) for array in arrays]
        start = time.thread_time()
        result = compiled(*ours)
        seconds = time.thread_time() - start
        theirs = [torch.from_numpy(array) for array in arrays]
        functional = torch.nn.functional
        best = best_times({"torch": lambda t=theirs: functional.gelu(functional.linear(*t)),
                           "ours": lambda c=compiled, t=ours: c(*t)}, clock, rounds)
        assert np.allclose(result.numpy(), functional.gelu(functional.linear(*theirs)).numpy(), atol=1e-2)
        print(f"{f'{rows}, {depth}, {columns}':>18}    " + " ".join(f"{1e6 * t:8.1f}us" for t in best.values()),
              f" {best['ours'] / best['torch']:5.2f}          first call {1e3 * seconds:5.1f}ms", flush=True)


def gelu(rl: Any, x: Any) -> Any:
    return x * 0.5 * (1 + (x * 0.5 ** 0.5).erf())


if __name__ == "__main__":
    main()
