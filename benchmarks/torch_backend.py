"""torch.compile with our backend, beside Inductor and eager mode: inference and training of small models.

    python benchmarks/torch_backend.py [--threads 1] [--rounds 20] [--rows encoder]
    python benchmarks/torch_backend.py --calls

A unit of work is one call of the model, or one forward and backward pass; `first call` is what the first one of
a process takes longer. `--calls`: what a call of our graph takes of the processor's time, without the guards and
wrappers of PyTorch, for models whose arithmetic takes little of it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from rushlight.torch_backend import rushlight
from rushlight.torch_backend.run import CompiledGraph

CONTESTANTS: dict[str, Any] = {"rushlight": rushlight, "inductor": "inductor", "eager": None}


def encoder() -> tuple[nn.Module, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(8, 128, 256)


def convolutions() -> tuple[nn.Module, torch.Tensor]:
    def block(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*block(3, 32), *block(32, 32), nn.MaxPool2d(2), *block(32, 64), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 10)), torch.randn(16, 3, 32, 32)


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), torch.randn(4, 8)


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "transformer encoder": encoder,
    "convolutional network": convolutions,
    "tiny MLP (overhead)": mlp,
}


def work(model: nn.Module, x: torch.Tensor, backend: Any, training: bool) -> Callable[[], Any]:
    """One unit of work."""
    model.train(training)
    run: Any = model if backend is None else torch.compile(model, backend=backend)
    if training:

        def step() -> None:
            model.zero_grad()
            run(x).square().mean().backward()

        return step

    def infer() -> Any:
        with torch.no_grad():
            return run(x)

    return infer


def measured(name: str, training: bool, rounds: int) -> dict[str, tuple[float, float]]:
    """(best seconds, seconds of the first call) of each contestant, in turns."""
    thunks, first, best = {}, {}, dict.fromkeys(CONTESTANTS, float("inf"))
    for contestant, backend in CONTESTANTS.items():
        torch.manual_seed(0)
        thunks[contestant] = work(*MODELS[name](), backend, training)
        start = time.perf_counter()
        thunks[contestant]()
        first[contestant] = time.perf_counter() - start
        thunks[contestant]()
    for _ in range(rounds):
        for contestant, thunk in thunks.items():
            thunk()
            start = time.perf_counter()
            thunk()
            best[contestant] = min(best[contestant], time.perf_counter() - start)
    return {contestant: (best[contestant], first[contestant]) for contestant in CONTESTANTS}


CALLS, PER_ROUND = 40, 200  # rounds, and calls of a graph in each


def calls() -> None:
    """Print what a call of each graph takes."""
    made = CompiledGraph.__call__
    met: dict[CompiledGraph, list[Any]] = {}

    def keep(graph: CompiledGraph, args: list[Any]) -> list[Any]:
        met[graph] = list(args)
        return made(graph, args)

    for layers in (2, 12):
        model = nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(8, 8), nn.ReLU())])
        met.clear()
        torch._dynamo.reset()
        with patch.object(CompiledGraph, "__call__", keep):
            for training in (False, True):
                work(model, torch.randn(4, 8), rushlight, training)()
        for graph, args in met.items():
            best = float("inf")
            for _ in range(CALLS):
                given = [list(args) for _ in range(PER_ROUND)]
                start = time.thread_time()
                results = [len(graph(each)) for each in given]
                best = min(best, (time.thread_time() - start) / PER_ROUND)
            print(f"{layers} layers: {len(args)} arguments, {results[0]} results: {1e6 * best:.1f} us")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", default="", help="only models whose names contain this")
    parser.add_argument("--calls", action="store_true", help="of graphs alone")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.calls:
        calls()
        return
    title = f"torch.compile, {options.threads} thread(s): ratios are a peer's time over ours"
    table = Table(title=title, title_justify="left")
    for column in ("model", "ours", "inductor / ours", "eager / ours", "first call: ours", "inductor"):
        table.add_column(column, justify="left" if column == "model" else "right")
    for name in MODELS:
        for training in (False, True) if options.rows in name else ():
            torch._dynamo.reset()
            found = measured(name, training, options.rounds)
            ours, first = found["rushlight"]
            ratios = [f"{found[peer][0] / ours:.2f}" for peer in ("inductor", "eager")]
            firsts = [f"{seconds:.1f} s" for seconds in (first, found["inductor"][1])]
            row = f"{name}, {'training' if training else 'inference'}"
            table.add_row(row, f"{1e3 * ours:.3f} ms", *ratios, *firsts)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
