"""Operators outside of compiled functions, against PyTorch's: forward, and forward with backward.

A case is written once over a library's module (`lib`): a function of it that gives what is timed. Names of rows
begin with "eager"; `summary` is the geometric mean over all of them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from timing import OURS, Outcome, Row, timed
from training import OURS_EAGER, TRAINING, tensor, training_step

TORCH = "torch"
LONGEST = 2.5  # of PyTorch's time, for any row
LONGEST_STEPS = {  # of PyTorch's time, for training steps
    "MLP training step": 1 / 0.7,
    "GPT training step": 1.0,
    "conv net training step": 1.0,
    "LSTM training step": 1 / 0.7,
    "GNN training step": 1 / 0.7,
}
MOST_WARMUP = 20.0  # seconds of one row, compilation included

Thunk = Callable[[], Any]
EagerCase = Callable[[Any], Thunk]  # by the library: what is timed

SIDES = {"4": 2, "1k": 32, "64k": 256, "1M": 1024}  # of square matrices with so many elements

POINTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: x + y,
    "add a row": lambda lib, x, y: x + y[0],
    "mul by a number": lambda lib, x, y: x * 1.5,
    "div": lambda lib, x, y: x / y,
    "exp": lambda lib, x, y: lib.exp(x),
    "tanh": lambda lib, x, y: lib.tanh(x),
    "sigmoid": lambda lib, x, y: lib.sigmoid(x),
    "relu": lambda lib, x, y: lib.relu(x),
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x),
    "where": lambda lib, x, y: lib.where(x > 0, x, y),
    "transposed add": lambda lib, x, y: x + y.t(),
}
ROWS_OF_MATRICES: dict[str, Callable[..., Any]] = {
    "sum": lambda lib, x, y: x.sum(),
    "sum of rows": lambda lib, x, y: x.sum(1),
    "mean of columns": lambda lib, x, y: x.mean(0),
    "softmax": lambda lib, x, y: lib.softmax(x, 1),
    "layer_norm": lambda lib, x, y: lib.nn.functional.layer_norm(x, x.shape[1:], y[0], y[1]),
    "cumsum": lambda lib, x, y: x.cumsum(1),
    "cat": lambda lib, x, y: lib.cat([x, y], 1),
    "matmul": lambda lib, x, y: x @ y,
}
FORWARD_ONLY: dict[str, Callable[..., Any]] = {
    "argmax": lambda lib, x, y: x.argmax(1),
    "topk": lambda lib, x, y: x.topk(2, 1),
    "sort": lambda lib, x, y: x.sort(1),
    "randn": lambda lib, x, y: lib.randn(x.shape),
    "in-place add": lambda lib, x, y: x.add_(y),
}
INTEGERS: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: x + y,
    "mul": lambda lib, x, y: x * y,
    "sum of rows": lambda lib, x, y: x.sum(1),
    "less than": lambda lib, x, y: x < y,
}
HALVES: dict[str, Callable[..., Any]] = {
    "add": lambda lib, x, y: x + y,
    "gelu": lambda lib, x, y: lib.nn.functional.gelu(x),
    "softmax": lambda lib, x, y: lib.softmax(x, 1),
    "matmul": lambda lib, x, y: x @ y,
}


def matrices(side: int, dtype: str = "float32") -> list[np.ndarray]:
    generator = np.random.default_rng(side)
    if dtype == "int64":
        return [generator.integers(-9, 9, (side, side)) for _ in range(2)]
    return [generator.standard_normal((side, side)).astype(np.float32) for _ in range(2)]


def operator_case(
    function: Callable[..., Any], side: int, dtype: str = "float32", *, backward: bool = False
) -> EagerCase:
    """A function of the library and two square matrices."""

    def make(lib: Any) -> Thunk:
        x, y = (lib.tensor(a).to(getattr(lib, dtype)) for a in matrices(side, dtype))
        return _trained(lambda: function(lib, x, y), [x, y]) if backward else lambda: function(lib, x, y)

    return make


def _trained(forward: Thunk, leaves: Sequence[Any]) -> Thunk:
    """The forward with its backward; gradients are freed as `zero_grad` does."""
    for leaf in leaves:
        leaf.requires_grad_()
    gradient = forward().detach() * 0 + 1

    def run() -> None:
        forward().backward(gradient)
        for leaf in leaves:
            leaf.grad = None

    return run


def layer_case(
    function: Callable[..., Any], *shapes: tuple[int, ...], classes: int = 0, backward: bool = False
) -> EagerCase:
    """A function of the library, tensors of these shapes and, with `classes`, as many labels as rows."""

    def make(lib: Any) -> Thunk:
        generator = np.random.default_rng(0)
        tensors = [lib.tensor(generator.standard_normal(shape).astype(np.float32)) for shape in shapes]
        labels = [lib.tensor(generator.integers(0, classes, shapes[0][0]))] if classes else []
        forward = functools.partial(function, lib.nn.functional, *tensors, *labels)
        return _trained(forward, tensors) if backward else forward

    return make


LAYERS: dict[str, Callable[..., EagerCase]] = {
    "linear 256x256": functools.partial(
        layer_case, lambda F, x, w, b: F.linear(x, w, b), (256, 256), (256, 256), (256,)
    ),
    "conv2d 8x32x32x32": functools.partial(
        layer_case, lambda F, x, w, b: F.conv2d(x, w, b, padding=1), (8, 32, 32, 32), (64, 32, 3, 3), (64,)
    ),
    "max_pool2d 8x32x32x32": functools.partial(layer_case, lambda F, x: F.max_pool2d(x, 2), (8, 32, 32, 32)),
    "batch_norm 8x32x32x32": functools.partial(
        layer_case,
        lambda F, x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        (8, 32, 32, 32),
        (32,),
        (32,),
    ),
    "attention 8x4x64x32": functools.partial(
        layer_case,
        lambda F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *[(8, 4, 64, 32)] * 3,
    ),
    "embedding 512 of 128x64": functools.partial(
        layer_case, lambda F, x, w, i: F.embedding(i, w), (512,), (128, 64), classes=128
    ),
    "cross_entropy 256x100": functools.partial(
        layer_case, lambda F, x, i: F.cross_entropy(x, i), (256, 100), classes=100
    ),
}


def gather_case(side: int, *, backward: bool = False) -> EagerCase:
    def make(lib: Any) -> Thunk:
        x = lib.tensor(matrices(side)[0])
        index = lib.tensor(np.random.default_rng(1).integers(0, side, (side, side)))
        return _trained(lambda: x.gather(1, index), [x]) if backward else lambda: x.gather(1, index)

    return make


# --- training steps --------------------------------------------------------------------------------


def step_case(name: str) -> EagerCase:
    """A training step of training.py, not compiled."""
    return lambda lib: TRAINING[name]()(TORCH if lib.__name__ == "torch" else OURS_EAGER)


def _stepped(lib: Any, build: Callable[[Any], Any], *inputs: np.ndarray) -> Thunk:
    """A step of the module that `build(lib)` gives, whose weights come from the same numbers in all libraries."""
    generator = np.random.default_rng(0)
    weights = {
        name: (generator.standard_normal(tuple(p.shape)) / 8).astype(np.float32)
        for name, p in build(lib).named_parameters()
    }
    contestant = TORCH if lib.__name__ == "torch" else OURS_EAGER
    step = training_step(contestant, build, None, weights)  # type: ignore[arg-type]
    *given, target = (tensor(contestant, array) for array in inputs)
    return lambda: step(given[0] if len(given) == 1 else given, target)


def lstm_case(lib: Any) -> Thunk:
    """An LSTM of width 64 over 8 sequences of 20 steps."""

    class Reader(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.scores = lib.nn.LSTM(32, 64, batch_first=True), lib.nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            return self.scores(self.recurrent(x)[0][:, -1])

    x = np.random.default_rng(1).standard_normal((8, 20, 32)).astype(np.float32)
    return _stepped(lib, lambda lib: Reader(), x, np.arange(8) % 10)


def gnn_case(lib: Any) -> Thunk:
    """Two layers that sum over 4,000 edges of 1,000 vertices."""
    generator = np.random.default_rng(1)
    edges = generator.integers(0, 1000, (2, 4000))

    class Graph(lib.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = lib.nn.Linear(32, 64), lib.nn.Linear(64, 10)

        def forward(self, given: Any) -> Any:
            x, source, target = given
            for layer in (self.first, self.second):
                messages = layer(x)[source]
                summed = lib.zeros(x.shape[0], messages.shape[1]).index_add(0, target, messages)
                x = lib.relu(summed) if layer is self.first else summed
            return x

    x = generator.standard_normal((1000, 32)).astype(np.float32)
    return _stepped(lib, lambda lib: Graph(), x, edges[0], edges[1], np.arange(1000) % 10)


# --- rows ------------------------------------------------------------------------------------------


def _cases() -> dict[str, EagerCase]:
    found: dict[str, EagerCase] = {}
    both = POINTWISE | ROWS_OF_MATRICES
    for (size, side), (name, function) in itertools.product(SIDES.items(), (both | FORWARD_ONLY).items()):
        found[f"{name}, {size}"] = operator_case(function, side)
        if name in both:
            found[f"{name}, {size}, with backward"] = operator_case(function, side, backward=True)
    for size, side in SIDES.items():
        found[f"gather, {size}"] = gather_case(side)
        found[f"gather, {size}, with backward"] = gather_case(side, backward=True)
        for title, dtype, table in (("int64", "int64", INTEGERS), ("bf16", "bfloat16", HALVES)):
            for name, function in table.items():
                found[f"{title} {name}, {size}"] = operator_case(function, side, dtype)
    for name, make in LAYERS.items():
        found[name] = make()
        found[f"{name}, with backward"] = make(backward=True)
    for name in TRAINING:
        found[name] = step_case(name)
    found["LSTM training step"], found["GNN training step"] = lstm_case, gnn_case
    return found


def settle(thunk: Thunk) -> None:
    """Call it until whatever the background makes for such calls is there: none of them runs on NumPy's kernel
    because its own is still to come."""
    worker = importlib.import_module("rushlight.eager.worker")
    calls = importlib.import_module("rushlight.eager.calls")
    began, waiting = time.perf_counter(), -1.0
    for passes in itertools.count(1):
        start = time.perf_counter()
        while time.perf_counter() - start < 0.05:
            thunk()
        worker.wait(120)
        before, waiting = waiting, calls.seconds_on_numpy()
        if (passes >= 3 and waiting == before) or time.perf_counter() - began > MOST_WARMUP:
            return


def _row(case: EagerCase, name: str, quick: bool) -> Row:
    libraries = {OURS: "rushlight"}
    if importlib.util.find_spec("torch") is not None:
        libraries[TORCH] = "torch"
    contestants = {}
    for contestant, module in libraries.items():
        lib = importlib.import_module(module)
        thunk = case(lib)
        if contestant == OURS:
            settle(thunk)
        contestants[contestant] = timed(thunk, seconds=0.005 if quick else 0.02)
    bar = LONGEST_STEPS.get(name.removeprefix("eager "), LONGEST)
    return Row(name, contestants, {TORCH: bar}, 5 if quick else 20)


EAGER_ROWS: dict[str, Callable[[str, bool], Row]] = {
    f"eager {name}": functools.partial(_row, case) for name, case in _cases().items()
}


def summary(outcomes: Sequence[Outcome]) -> str:
    """How much of PyTorch's speed the rows of this file have."""
    ratios = [o.ratio(TORCH) for o in outcomes if o.row.name in EAGER_ROWS]
    speeds = [1 / ratio for ratio in ratios if ratio]
    if not speeds:
        return ""
    mean = math.exp(sum(map(math.log, speeds)) / len(speeds))
    ahead = sum(speed >= 1 for speed in speeds)
    return (
        f"eager: geometric mean {mean:.2f} of {TORCH}'s speed over {len(speeds)} rows, lowest {min(speeds):.2f}, "
        f"{ahead} ahead"
    )
