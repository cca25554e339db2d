"""tinygrad on the rows of README's table: `TinyJit` on its CPU device, with the models of training.py.

    pip install tinygrad            # it needs clang
    python benchmarks/readme.py --tinygrad

A model is written by hand over the same weights, as for JAX; `losses` gives its first losses, which agree with
ours.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Context, Device, Tensor, TinyJit
from tinygrad.nn.optim import AdamW

from training import (
    BETAS,
    BLOCKS,
    CHARACTERS,
    CONTEXT,
    DECAY,
    EPSILON,
    HEADS,
    LAST,
    LAYERS,
    RATE,
    SIZES,
    Arrays,
    conv_arrays,
    gpt,
    mlp_arrays,
    texts,
)

assert Device.DEFAULT == "CPU", "set DEV=CPU: rows are measured on the CPU"

Parameters = dict[str, Any]


def _linear(p: Parameters, x: Any, name: str) -> Any:
    return x.linear(p[f"{name}.weight"].transpose(), p.get(f"{name}.bias"))


def _norm(p: Parameters, x: Any, name: str) -> Any:
    return x.layernorm() * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp_scores(p: Parameters, x: Any) -> Any:
    for k in range(len(SIZES) - 1):
        x = _linear(p, x, str(2 * k))
        x = x.relu() if k < len(SIZES) - 2 else x
    return x


def gpt_scores(p: Parameters, text: Any) -> Any:
    batch, length = text.shape
    width = p["places"].shape[1]
    x = p["tokens.weight"][text] + p["places"][:length]
    for layer in range(LAYERS):
        name = f"blocks.{layer}"
        parts = _linear(p, _norm(p, x, f"{name}.norm1"), f"{name}.qkv")
        q, k, v = parts.reshape(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        mixed = q.scaled_dot_product_attention(k, v, is_causal=True)
        x = x + _linear(p, mixed.transpose(1, 2).reshape(batch, length, width), f"{name}.project")
        inner = _linear(p, _norm(p, x, f"{name}.norm2"), f"{name}.expand")
        inner = 0.5 * inner * (1 + (inner * 0.5**0.5).erf())
        x = x + _linear(p, inner, f"{name}.contract")
    return _linear(p, _norm(p, x, "norm"), "scores").reshape(-1, CHARACTERS)


def conv_scores(p: Parameters, x: Any) -> Any:
    for k in range(BLOCKS):
        x = x.conv2d(p[f"{4 * k}.weight"], p[f"{4 * k}.bias"], padding=1)
        centred = x - x.mean((0, 2, 3), keepdim=True)
        scale = ((centred * centred).mean((0, 2, 3), keepdim=True) + 1e-5).rsqrt()
        weight, bias = (p[f"{4 * k + 1}.{part}"].reshape(1, -1, 1, 1) for part in ("weight", "bias"))
        x = (centred * scale * weight + bias).relu().max_pool2d()
    return _linear(p, x.flatten(1), str(LAST))


def training(
    scores: Callable[..., Any], weights: Arrays, x: np.ndarray, target: np.ndarray
) -> Callable[[], Any]:
    """A training step that is run and waited for."""
    parameters = {name: Tensor(array).contiguous().realize() for name, array in weights.items()}
    optimizer = AdamW(
        list(parameters.values()), lr=RATE, b1=BETAS[0], b2=BETAS[1], eps=EPSILON, weight_decay=DECAY
    )
    inputs, labels = Tensor(x).realize(), Tensor(target.astype(np.int32)).realize()

    def step(inputs: Any, labels: Any) -> Any:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            loss = scores(parameters, inputs).sparse_categorical_crossentropy(labels).backward()
            return loss.realize(*optimizer.schedule_step())

    jitted = TinyJit(step)

    def run() -> Any:
        loss = jitted(inputs, labels)
        Device["CPU"].synchronize()
        return loss

    return run


def _expression(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Any]:
    jitted = TinyJit(lambda *given: function(*given).realize())
    given = [Tensor.randn(*shape).realize() for shape in shapes]

    def run() -> None:
        jitted(*given)
        Device["CPU"].synchronize()

    return run


PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {
    "compiled call overhead, a + b of 4 elements": lambda: _expression(lambda a, b: a + b, (4,), (4,)),
    "compiled softmax 4096x1024": lambda: _expression(lambda x: x.softmax(-1), (4096, 1024)),
    "compiled layer_norm+gelu 4096x768": lambda: _expression(lambda x: x.layernorm().gelu(), (4096, 768)),
    "compiled MLP training step": lambda: training(mlp_scores, *mlp_arrays()),
    "compiled GPT training step": lambda: training(gpt_scores, gpt(LAYERS, CONTEXT)[2], *texts(CONTEXT)),
    "compiled conv net training step": lambda: training(conv_scores, *conv_arrays()),
}
COLD = {"compiled GPT training step": "cold compile, GPT training step"}


def losses(run: Callable[[], Any], steps: int = 3) -> list[float]:
    return [run().item() for _ in range(steps)]


def measure(rounds: int = 12) -> dict[str, float]:
    """Best seconds of each row, and of its first calls (a `TinyJit` captures in the second one)."""
    found = {"import": min(_import_seconds() for _ in range(5))}
    for row, make in PROGRAMS.items():
        start = time.perf_counter()
        run = make()
        for _ in range(3):
            run()
        first = time.perf_counter() - start
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        found[row] = min(times)
        if row in COLD:
            found[COLD[row]] = first - 2 * min(times)
        print(f"{row}: {min(times):.3g} s, the first three calls {first:.3g} s", flush=True)
    return found


def _import_seconds() -> float:
    code = "import time; t = time.perf_counter(); import tinygrad; print(time.perf_counter() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)
