"""Vector mathematics: nanoseconds per element, errors in ulp, and the time against NumPy and torch.

    python benchmarks/vector_math.py [--dtypes float32,float64] [--rounds N] [--registers N] [--only exp,log]

Every function is a kernel of its own over an array that fits into the second cache, on one thread, in vectors
of some registers: more than one hide the latency of long chains of dependent instructions. Peers run the same
array with one thread, in interleaved rounds; the best of each counts. Errors are the largest over a sample of
the interval, against NumPy's longdouble where it is more precise.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
import numpy as np
import scipy.special

from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.math import FUNCTIONS, imports
from rushlight.codegen.llvm.types import vector
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import Engine

COUNT = 16384
INTERVALS = {
    "log": (1e-3, 1e3),
    "log1p": (-0.9, 50.0),
    "rsqrt": (1e-3, 1e3),
    "sqrt": (1e-3, 1e3),
    "exp": (-20.0, 20.0),
    "expm1": (-20.0, 20.0),
    "log2": (1e-3, 1e3),
    "pow": (0.1, 9.0),
}
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "sin": np.sin,
    "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "atan": np.arctan,
    "gelu": lambda x: x * scipy.special.erfc(-x / np.sqrt(np.asarray(2, x.dtype))) / 2,
}


def gelu(e: Emitter, x: Any) -> Any:
    """As the compiler emits it for the exact gelu: half of x times one more than erf."""
    half = e.mul(x, 0.5)
    return e.mul(half, e.add(FUNCTIONS["erf"](e, e.mul(x, 0.5**0.5)), 1.0))


EMITTED: dict[str, Any] = {name: FUNCTIONS[name] for name in EXACT if name in FUNCTIONS} | {"gelu": gelu}
Kernel = Callable[[np.ndarray, np.ndarray], None]


def compiled(dtype: str, names: Sequence[str], registers: int) -> tuple[dict[str, Kernel], Any]:
    """A kernel for each function: (source, target) of COUNT elements."""
    engine = Engine(ObjectCache(None))
    element = ir.FloatType() if dtype == "float32" else ir.DoubleType()
    lanes = registers * engine.target.lanes(np.dtype(dtype).itemsize)
    module = ir.Module("vector_math")
    for name in names:
        pointer = ir.PointerType()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer, pointer]), name)
        for argument in function.args:
            argument.add_attribute("noalias")
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), engine.target)
        with e.loop(0, COUNT, lanes) as i:
            x = e.load(e.address(function.args[0], i, element), vector(element, lanes))
            e.store(EMITTED[name](e, x), e.address(function.args[1], i, element))
        e.builder.ret_void()
    library = engine.build(str(module), list(names), imports(module), use_cache=False)
    signature = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

    def callable_of(name: str) -> Kernel:
        code = signature(library.addresses[name])
        return lambda source, target: code(source.ctypes.data, target.ctypes.data)

    return {name: callable_of(name) for name in names}, (engine, library)


def peers(name: str, dtype: str, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    numpy_name = {"atan": "arctan"}.get(name, name)
    found: dict[str, Callable[[], Any]] = {}
    target = np.empty_like(x)
    if hasattr(np, numpy_name):
        found["numpy"] = lambda: getattr(np, numpy_name)(x, out=target)
    elif hasattr(scipy.special, name):
        found["numpy"] = lambda: getattr(scipy.special, name)(x, out=target)
    try:
        import torch
    except ImportError:
        return found
    torch.set_num_threads(1)
    tensor, out = torch.from_numpy(x), torch.empty(COUNT, dtype=getattr(torch, dtype))
    if name == "gelu":
        found["torch"] = lambda: torch.nn.functional.gelu(tensor)
    else:
        found["torch"] = lambda: getattr(torch, name)(tensor, out=out)
    return found


def ulps(got: np.ndarray, exact: np.ndarray, floor: np.ndarray | None = None) -> float:
    """The largest error in units in the last place of the result, or of `floor` where that is larger."""
    wide = np.abs(exact).astype(got.dtype)
    wide = wide if floor is None else np.maximum(wide, floor)
    return float(np.max(np.abs(got.astype(np.longdouble) - exact) / np.spacing(wide)))


def best(thunks: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The least nanoseconds per element of each, in interleaved rounds."""
    found = dict.fromkeys(thunks, float("inf"))
    for _ in range(rounds):
        for name, thunk in thunks.items():
            start = time.perf_counter()
            for _ in range(4):
                thunk()
            found[name] = min(found[name], (time.perf_counter() - start) / 4 / COUNT * 1e9)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="time vector mathematics")
    parser.add_argument("--dtypes", default="float32,float64")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--registers", type=int, default=2, help="registers that a vector fills")
    parser.add_argument("--only", default=",".join(EXACT))
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    print(f"{'function':10} {'dtype':8} {'ns/element':>10} {'ulp':>6} {'numpy':>8} {'torch':>8} {'ratio':>6}")
    for dtype in given.dtypes.split(","):
        kernels, _keep = compiled(dtype, names, given.registers)
        for name in names:
            low, high = INTERVALS.get(name, (-8.0, 8.0))
            x = np.random.default_rng(0).uniform(low, high, COUNT).astype(dtype)
            target = np.empty_like(x)
            kernels[name](x, target)
            # SciPy's functions of longdouble compute in double: no better than a float64 result.
            exact = EXACT[name](x.astype(np.float64 if name in ("erf", "erfc", "gelu") else np.longdouble))
            # gelu is x (1 + erf) / 2, also in eager code and in torch: below 0 the sum cancels.
            error = ulps(target, exact.astype(np.longdouble), np.abs(x) / 2 if name == "gelu" else None)
            kernel = kernels[name]
            times = best(
                {"ours": lambda k=kernel, x=x, t=target: k(x, t), **peers(name, dtype, x)},  # type: ignore[misc]
                given.rounds,
            )
            others = [times[p] for p in ("numpy", "torch") if p in times]
            print(
                f"{name:10} {dtype:8} {times['ours']:10.3f} {error:6.2f} {times.get('numpy', 0):8.3f} "
                f"{times.get('torch', 0):8.3f} {times['ours'] / min(others):6.2f}"
            )


if __name__ == "__main__":
    main()
