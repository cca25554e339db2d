"""Compiled functions against torch eager, torch.compile and jax.jit, on the same data in the same run.

A program is written once over a library's module (`lib`), which serves Rushlight, PyTorch and, for the pure
programs, JAX's NumPy with a few names adapted. `torch.compile` takes part unless the run is quick: its
first call takes many seconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import math
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from timing import OURS, Row, timed

Program = Callable[..., Any]


def random_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def contestants(
    program: Callable[[Any], Program], arrays: Sequence[np.ndarray], quick: bool
) -> dict[str, Any]:
    """The program compiled by each library that is installed, ready to be timed."""
    import rushlight

    ours = rushlight.compile(program(rushlight), fullgraph=True)
    tensors = [rushlight.tensor(a) for a in arrays]
    found: dict[str, Any] = {OURS: timed(lambda: ours(*tensors))}
    if importlib.util.find_spec("torch") is not None:
        import torch

        eager, theirs = program(torch), [torch.tensor(a) for a in arrays]
        found["torch"] = timed(lambda: eager(*theirs))
        if not quick and shutil.which("g++"):
            compiled = torch.compile(eager)
            found["torch.compile"] = timed(lambda: compiled(*theirs))
    if importlib.util.find_spec("jax") is not None:
        found["jax.jit"] = _jax(program, arrays)
    return found


def _jax(program: Callable[[Any], Program], arrays: Sequence[np.ndarray]) -> Any:
    import jax

    compiled = jax.jit(program(JaxNames()))
    given = [jax.numpy.asarray(a) for a in arrays]
    return timed(lambda: jax.block_until_ready(compiled(*given)))


class JaxNames:
    """The few functions that the programs use, under the names of the other libraries."""

    def __getattr__(self, name: str) -> Any:
        import jax

        special = {"sigmoid": jax.nn.sigmoid, "erf": jax.lax.erf, "rsqrt": jax.lax.rsqrt,
                   "softmax": lambda x, dim: jax.nn.softmax(x, axis=dim),
                   "mean_keep": lambda x: x.mean(-1, keepdims=True)}
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


# (program, shapes of its arguments, bar: our time over the best peer's)
PROGRAMS: dict[str, tuple[Callable[[Any], Program], list[tuple[int, ...]], float]] = {
    "compiled softmax 4096x1024": (softmax, [(4096, 1024)], 1 / 1.5),
    "compiled layer_norm+gelu 4096x768": (layer_norm_gelu, [(4096, 768), (768,), (768,)], 1 / 1.4),
    "compiled chain, 1M elements": (chain, [(1_000_000,), (1_000_000,)], 1 / 1.6),
    "compiled chain, 1k elements": (chain, [(1000,), (1000,)], 1 / 2),
    "compiled linear+gelu 1024x512x2048": (linear_gelu, [(1024, 512), (2048, 512), (2048,)], 1 / 1.15),
    "compiled a + b, 4 elements": (small, [(4,), (4,)], 1 / 2),
}


def compiled_row(name: str, quick: bool) -> Row:
    """A program of PROGRAMS, compiled."""
    program, shapes, bar = PROGRAMS[name]
    return Row(name, contestants(program, random_arrays(*shapes), quick), bar, 5 if quick else 30)


# --- a training step -------------------------------------------------------------------------------

SIZES = (784, 256, 128, 10)


def training_step(
    lib: Any, parameters: Sequence[Any], moments: Sequence[tuple[Any, Any]], count: Any
) -> Program:
    """Forward, backward and AdamW of a three-layer perceptron, written with tensors and autograd alone."""
    def step(x: Any, target: Any) -> Any:
        hidden = x
        for k in range(3):
            hidden = hidden @ parameters[2 * k].t() + parameters[2 * k + 1]
            hidden = hidden.relu() if k < 2 else hidden
        loss = -hidden.log_softmax(1).gather(1, target.unsqueeze(1)).mean()
        loss.backward()
        with lib.no_grad():
            count.add_(1)
            first_scale, second_scale = 1 - 0.9 ** count, 1 - 0.999 ** count
            for parameter, (first, second) in zip(parameters, moments, strict=True):
                gradient = parameter.grad
                first.mul_(0.9).add_(gradient, alpha=0.1)
                second.mul_(0.999).add_(gradient * gradient, alpha=0.001)
                parameter.mul_(1 - 1e-5)
                parameter.sub_(1e-3 * (first / first_scale) / ((second / second_scale).sqrt() + 1e-8))
                parameter.grad = None
        return loss

    return step


def mlp_step(name: str, quick: bool) -> Row:
    """One training step of an MLP 784-256-128-10 at batch 64: ours compiled whole, PyTorch's eagerly."""
    return Row(name, {OURS: _mlp("rushlight", compiled=True), **(
        {"torch": _mlp("torch", compiled=False)} if importlib.util.find_spec("torch") else {})}, 1 / 1.3,
        5 if quick else 30)


def _mlp(module: str, *, compiled: bool) -> Any:
    lib = importlib.import_module(module)
    arrays = random_arrays(*[shape for i, o in itertools.pairwise(SIZES) for shape in ((o, i), (o,))])
    parameters = [lib.tensor(a / math.sqrt(a.shape[-1])) for a in arrays]
    moments = [(lib.zeros_like(p), lib.zeros_like(p)) for p in parameters]
    for parameter in parameters:
        parameter.requires_grad_()
    step = training_step(lib, parameters, moments, lib.tensor(0.0))
    x = lib.tensor(random_arrays((64, 784))[0])
    target = lib.tensor(np.arange(64) % 10)
    run = lib.compile(step, fullgraph=True) if compiled else step
    return timed(lambda: run(x, target))
