"""Compiled functions against torch eager, torch.compile and jax.jit, on the same data in the same run.

A program is written once over a library's module (`lib`), which serves Rushlight, PyTorch and, for the pure
programs, JAX's NumPy with a few names adapted. `torch.compile` takes part unless the run is quick: its
first call takes many seconds.

A `Case` is made anew for every cold compile; `cold_row` times what the first call of it takes beyond the next
ones (imports and the compilers themselves are warmed up by another program, our object cache is empty),
`cached_row` the same when our object cache has its code. Training steps are in training.py.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from timing import BEST, OURS, FirstCall, Row, only_once, timed
from training import Case, conv_case, gpt_case, gpt_multiplications, mlp_case, peak_memory

Program = Callable[..., Any]
TORCH, INDUCTOR, JAX = "torch", "torch.compile", "jax.jit"


def random_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def peers(quick: bool) -> list[str]:
    """The peers that are installed; with torch.compile unless the run is quick."""
    found = []
    if importlib.util.find_spec("torch") is not None:
        found += [TORCH] if quick or not shutil.which("g++") else [TORCH, INDUCTOR]
    return found + ([JAX] if importlib.util.find_spec("jax") is not None else [])


class JaxNames:
    """The few functions that the programs use, under the names of the other libraries."""

    def __getattr__(self, name: str) -> Any:
        import jax

        special = {
            "sigmoid": jax.nn.sigmoid,
            "erf": jax.lax.erf,
            "rsqrt": jax.lax.rsqrt,
            "softmax": lambda x, dim: jax.nn.softmax(x, axis=dim),
            "mean_keep": lambda x: x.mean(-1, keepdims=True),
        }
        return special.get(name) or getattr(jax.numpy, name)


def mean_keep(lib: Any, x: Any) -> Any:
    return lib.mean_keep(x) if isinstance(lib, JaxNames) else x.mean(-1, keepdim=True)


def gelu(lib: Any, x: Any) -> Any:
    return x * 0.5 * (1 + lib.erf(x * math.sqrt(0.5)))


# --- programs --------------------------------------------------------------------------------------


def softmax(lib: Any) -> Program:
    return lambda x: lib.softmax(x, 1)


def layer_norm_gelu(lib: Any) -> Program:
    def run(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - mean_keep(lib, x)
        variance = mean_keep(lib, centred * centred)
        return gelu(lib, centred * lib.rsqrt(variance + 1e-5) * weight + bias)

    return run


def chain(lib: Any) -> Program:
    def run(x: Any, y: Any) -> Any:
        for _ in range(4):
            x = lib.tanh(x * y + 0.1) * lib.sigmoid(y)
        return x

    return run


def linear_gelu(lib: Any) -> Program:
    return lambda x, weight, bias: gelu(lib, x @ weight.T + bias)


def small(lib: Any) -> Program:
    return lambda x, y: x + y


# --- cases: a function of a library and what it is called with, ready for its first call -----------


def pure_case(program: Callable[[Any], Program], shapes: Sequence[tuple[int, ...]]) -> Case:
    """A program without state."""
    arrays = random_arrays(*shapes)

    def make(contestant: str) -> Callable[[], Any]:
        if contestant == JAX:
            import jax

            jitted, given = jax.jit(program(JaxNames())), [jax.numpy.asarray(a) for a in arrays]
            return lambda: jax.block_until_ready(jitted(*given))
        lib = importlib.import_module("rushlight" if contestant == OURS else "torch")
        function = program(lib)
        if contestant != TORCH:
            function = lib.compile(function, fullgraph=True)
        tensors = [lib.tensor(a) for a in arrays]
        return lambda: function(*tensors)

    return make


# (the case, bars for a call)
CASES: dict[str, tuple[Callable[[], Case], dict[str, float]]] = {
    "softmax 4096x1024": (lambda: pure_case(softmax, [(4096, 1024)]), {BEST: 1 / 1.5}),
    "layer_norm+gelu 4096x768": (
        lambda: pure_case(layer_norm_gelu, [(4096, 768), (768,), (768,)]),
        {BEST: 1 / 1.4},
    ),
    "chain, 1M elements": (lambda: pure_case(chain, [(1_000_000,), (1_000_000,)]), {BEST: 1 / 1.6}),
    "chain, 1k elements": (lambda: pure_case(chain, [(1000,), (1000,)]), {BEST: 1 / 2}),
    "linear+gelu 1024x512x2048": (
        lambda: pure_case(linear_gelu, [(1024, 512), (2048, 512), (2048,)]),
        {BEST: 1 / 1.15},
    ),
    "MLP training step": (mlp_case, {BEST: 1 / 1.3}),
    "GPT training step": (gpt_case, {BEST: 1 / 1.5}),
    "conv net training step": (conv_case, {BEST: 1 / 1.2}),
    "call overhead, a + b of 4 elements": (
        lambda: pure_case(small, [(4,), (4,)]),
        {INDUCTOR: 1 / 4, JAX: 1 / 2},
    ),
}


# --- rows ------------------------------------------------------------------------------------------

# Bars for a cold compile, beside that against jax.jit.
COLD_BARS = {"MLP training step": {INDUCTOR: 1 / 20}, "GPT training step": {INDUCTOR: 1 / 15}}


def run_row(name: str, quick: bool) -> Row:
    """The time of a call, after the first."""
    make_case, bars = CASES[name]
    case = make_case()
    return Row(
        f"compiled {name}",
        {each: timed(case(each)) for each in (OURS, *peers(quick))},
        bars,
        5 if quick else 50,
    )


def floor_row(name: str, quick: bool) -> Row:
    """One large product of as many multiplications as the GPT training step has: what remains of the step if
    everything else takes no time."""
    case = pure_case(lambda lib: lib.matmul, [(1024, 1024), (1024, gpt_multiplications() // 1024**2)])
    contestants = {each: timed(case(each)) for each in (OURS, *peers(quick)) if each != INDUCTOR}
    return Row(name, contestants, {}, 5 if quick else 30)


def cold_row(name: str, quick: bool) -> Row:
    """The time of the first call beyond that of the next ones, with nothing in our object cache."""
    case = CASES[name][0]()
    contestants: dict[str, Any] = {OURS: _first_call(case, OURS, use_new_cache)}
    for peer in peers(quick):
        forget = functools.partial(forget_compiled, peer)
        if peer == INDUCTOR:
            contestants[peer] = only_once(_first_call(case, peer, forget))
        elif peer == JAX:
            contestants[peer] = _first_call(case, peer, forget)
    return Row(f"cold compile, {name}", contestants, {JAX: 1.0, **COLD_BARS.get(name, {})}, 2 if quick else 5)


def cached_row(name: str, quick: bool) -> Row:
    """The time of the first call with our code on disk, against that without."""
    case = CASES[name][0]()

    def from_disk() -> None:
        _use_cache(_kept_directory())
        case(OURS)()  # fills the cache, the first time
        _use_cache(_kept_directory())

    return Row(
        f"from disk, {name}",
        {OURS: _first_call(case, OURS, from_disk), "rushlight, cold": _first_call(case, OURS, use_new_cache)},
        {BEST: 1 / 3},
        3 if quick else 6,
    )


def memory_row(name: str, quick: bool) -> Row:
    """The peak memory of a step, in a process of its own."""
    contestants = {
        each: functools.partial(peak_memory, name, each) for each in (OURS, *peers(quick)) if each != INDUCTOR
    }
    return Row(
        f"peak memory, {name}",
        contestants,
        {TORCH: 1.0} if name != "MLP training step" else {},
        1 if quick else 2,
        unit="B",
    )


def _first_call(case: Case, contestant: str, prepare: Callable[[], None]) -> FirstCall:
    def fresh() -> Callable[[], Any]:
        warm_up(contestant)
        prepare()
        return case(contestant)

    return FirstCall(fresh)


def first_call(make: Callable[[], Callable[[], Any]]) -> FirstCall:
    """The first call beyond the next ones of what `make` gives, with nothing in our object cache."""

    def fresh() -> Callable[[], Any]:
        warm_up(OURS)
        use_new_cache()
        return make()

    return FirstCall(fresh)


@functools.cache
def warm_up(contestant: str) -> None:
    """Load what a compiler needs, by compiling something else."""
    pure_case(lambda lib: lambda x: lib.exp(x) + 1, [(5,)])(contestant)()


def _use_cache(directory: Path) -> None:
    """Use an object cache of our own, and forget what this process has compiled."""
    from rushlight.runtime import known_programs
    from rushlight.runtime.cache import ObjectCache
    from rushlight.runtime.engine import engine

    engine().cache = ObjectCache(directory)
    known_programs.forget()


def _new_directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="rushlight-bench-"))


_kept_directory = functools.cache(_new_directory)


def use_new_cache() -> None:
    _use_cache(_new_directory())


def forget_compiled(contestant: str) -> None:
    """Let a contestant compile anew what it has compiled before."""
    if contestant == OURS:
        use_new_cache()
    elif contestant == JAX:
        import jax

        jax.clear_caches()
    elif contestant == INDUCTOR:
        import torch
        from torch._inductor import config

        torch._dynamo.reset()
        config.force_disable_caches = True
