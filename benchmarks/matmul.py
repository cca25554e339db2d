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

# Batch, rows, depth, columns, and which operands are transposed.
CASES = [
    (1, 64, 64, 64, "nn"),
    (1, 64, 64, 64, "nt"),
    (1, 100, 100, 100, "nn"),
    (1, 256, 256, 256, "nn"),
    (1, 256, 256, 256, "nt"),
    (1, 256, 256, 256, "tn"),
    (1, 1024, 1024, 1024, "nn"),
    (1, 1024, 1024, 1024, "nt"),
    (1, 32, 784, 512, "nn"),
    (1, 32, 784, 512, "nt"),
    (1, 8, 512, 512, "nn"),
    (1, 8, 512, 512, "nt"),
    (1, 1, 784, 512, "nn"),
    (1, 1, 784, 512, "nt"),
    (1, 1, 1024, 1024, "nt"),
    # a layer of the examples, forward and backward
    (1, 1024, 512, 2048, "nn"),
    (1, 1024, 512, 2048, "nt"),
    (1, 512, 1024, 2048, "tn"),
    (1, 1024, 2048, 512, "nn"),
    # the multilayer perceptron
    (1, 64, 784, 256, "nt"),
    (1, 64, 256, 128, "nt"),
    (1, 64, 128, 10, "nt"),
    (1, 256, 64, 784, "tn"),
    (1, 128, 64, 256, "tn"),
    (1, 10, 64, 128, "tn"),
    (1, 64, 10, 128, "nn"),
    (1, 64, 128, 256, "nn"),
    # few panels whose rows are a kilobyte apart: a model of width 256
    (1, 1024, 512, 256, "tn"),
    (1, 256, 512, 256, "tn"),
    (1, 512, 1024, 256, "nn"),
    # the transformer
    (1, 1024, 128, 128, "nt"),
    (1, 1024, 128, 512, "nt"),
    (1, 1024, 512, 128, "nt"),
    (1, 1024, 128, 96, "nt"),
    (1, 1024, 512, 128, "nn"),
    (1, 128, 1024, 512, "tn"),
    (1, 512, 1024, 128, "tn"),
    (1, 128, 1024, 128, "tn"),
    (32, 128, 32, 128, "nt"),
    (32, 128, 128, 32, "nn"),
    (32, 128, 128, 32, "tn"),
]
LAYERS = [(64, 784, 256), (64, 256, 128), (1024, 128, 512), (1024, 512, 2048)]

Clock = Callable[[], float]
RESOLUTION = 1e-9  # seconds: of a clock that stood still


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="time matrix products")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    parser.add_argument("--only", choices=("products", "layers"))
    options = parser.parse_args(arguments)
    wanted = dict.fromkeys(("RUSHLIGHT_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(options.threads))
    wanted["OPENBLAS_THREAD_TIMEOUT"] = "4"  # NumPy's threads are not to spin while others are measured
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        # The libraries look at these when they are loaded.
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **wanted})
    import torch

    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    if options.only != "layers":
        products(torch, clock, options.rounds, np.dtype(options.dtype))
    if options.only != "products":
        layers(torch, clock, options.rounds)


def best_times(
    contestants: Mapping[str, Callable[[], object]], clock: Clock, rounds: int
) -> dict[str, float]:
    """The best time of each, in interleaved rounds of a few hundredths of a second."""
    best = dict.fromkeys(contestants, float("inf"))
    for thunk in contestants.values():
        thunk()
    for _ in range(rounds):
        for name, thunk in contestants.items():
            time.sleep(0.003)  # until the threads of the one before are asleep
            thunk()
            end = time.perf_counter() + 0.03
            while time.perf_counter() < end:
                start = clock()
                thunk()
                best[name] = min(best[name], max(clock() - start, RESOLUTION))
    return best


def row(name: str, best: Mapping[str, float]) -> str:
    times = " ".join(f"{1e6 * seconds:8.1f}us" for seconds in best.values())
    return f"{name:>22} {times}  {best['ours'] / best['torch']:5.2f}"


def aligned(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    from rushlight.runtime.executable import aligned_bytes

    memory = aligned_bytes(np.dtype(dtype).itemsize * int(np.prod(shape))).view(dtype).reshape(shape)
    memory[...] = np.random.default_rng(0).standard_normal(shape)
    return memory


# The native code of a product.


def products(torch: Any, clock: Clock, rounds: int, dtype: np.dtype) -> None:
    print(f"{'batch, m, k, n':>22} {'torch':>10} {'numpy':>10} {'ours':>10}  ratio   GF/s  compile")
    ratios = []
    for batch, rows, depth, columns, kind in CASES:
        a = aligned(batch, *((depth, rows) if kind[0] == "t" else (rows, depth)), dtype=dtype)
        b = aligned(batch, *((columns, depth) if kind[1] == "t" else (depth, columns)), dtype=dtype)
        a, b = (x.swapaxes(1, 2) if letter == "t" else x for x, letter in zip((a, b), kind, strict=True))
        out, other = aligned(batch, rows, columns, dtype=dtype), np.empty((batch, rows, columns), dtype)
        x, y, z = (torch.from_numpy(array) for array in (a, b, np.empty_like(out)))
        multiply = torch.bmm
        if batch == 1:
            x, y, z, multiply = x[0], y[0], z[0], torch.mm
        ours, seconds, plan = native(a, b, out)
        best = best_times(
            {
                "torch": partial(multiply, x, y, out=z),
                "numpy": partial(np.matmul, a, b, out=other),
                "ours": ours,
            },
            clock,
            rounds,
        )
        if not np.allclose(out, other, atol=1e-2):
            raise AssertionError(f"a wrong product of {batch}, {rows}, {depth}, {columns} {kind}")
        rate = 2e-9 * batch * rows * depth * columns / best["ours"]
        text = row(f"{batch}, {rows}, {depth}, {columns} {kind}", best)
        ratios.append(best["ours"] / best["torch"])
        print(text, f"{rate:6.0f} {1e3 * seconds:6.1f}ms  {plan}", flush=True)
    print(f"geometric mean of the ratios {np.exp(np.mean(np.log(ratios))):.2f}")


def native(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[Callable[[], object], float, str]:
    """A function that runs a product, the processor time it took to make, and a description of its plan."""
    from rushlight.codegen.llvm.module import emit_module
    from rushlight.core.dtypes import DTYPES
    from rushlight.core.index import as_index
    from rushlight.loops.kernels import Product
    from rushlight.loops.nest import Buffer, MemoryKind
    from rushlight.loops.product import Matrix, ProductShape
    from rushlight.plan.passes import plan_program
    from rushlight.plan.product import ProductPlan
    from rushlight.runtime.engine import engine
    from rushlight.runtime.executable import aligned_bytes
    from rushlight.runtime.linking import addresses_of
    from rushlight.runtime.threads import pool
    from rushlight.schedule.passes import staged

    left, right = (Matrix(0, *(step // x.itemsize for step in x.strides)) for x in (a, b))
    batch, rows, columns = out.shape
    product = ProductShape(batch, rows, columns, a.shape[2], left, right, DTYPES[out.dtype.name])
    x, y, z = buffers = [Buffer(f"b{i}", product.dtype, as_index(1), MemoryKind.INPUT) for i in range(3)]
    schedule = staged([Product("matmul0", product, x, y, z)])
    start = time.thread_time()
    program = plan_program(schedule, engine().target)
    module = emit_module(program)
    imports = addresses_of(module.imports)
    library = engine().build(module.text, ["entry0"], imports, use_cache=False)
    seconds = time.thread_time() - start
    block = (ctypes.c_int64 * (1 + len(module.slots)))()
    block[0] = pool().address
    for buffer, array in zip(buffers, (a, b, out), strict=True):
        block[module.slots[buffer]] = array.__array_interface__["data"][0]
    scratch = aligned_bytes(program.workspace.size)
    for buffer, offset in program.workspace.offsets.items():
        block[module.slots[buffer]] = scratch.__array_interface__["data"][0] + offset
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["entry0"])
    address = ctypes.addressof(block)
    kept = block, library, scratch

    def run() -> object:
        entry(address)
        return kept

    plan = program.plans["matmul0"]
    assert isinstance(plan, ProductPlan)
    packed = "".join(name for name, pack in (("A", plan.left), ("B", plan.right)) if pack is not None)
    return run, seconds, f"{plan.tile} packs {packed or 'nothing'}, {plan.grid}"


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
    return x * 0.5 * (1 + (x * 0.5**0.5).erf())


if __name__ == "__main__":
    main()
