"""Rows for control flow: a recurrent network as a scan, whose body is compiled once.

The time to compile must not depend on the number of steps, and a compiled loop must beat the loop in Python.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import rushlight as rl
from compiled import use_new_cache
from rushlight._higher_order_ops import scan
from timing import OURS, FirstCall, Row, Thunk, timed

BATCH, FEATURES = 8, 64
SHORT, LONG = 20, 2000


def _network(steps: int, gradient: bool) -> tuple[Callable[..., Any], tuple[Any, Any]]:
    """A recurrent network, or the gradient of its weight, and its arguments."""
    rl.manual_seed(0)
    weight = (rl.randn(FEATURES, FEATURES) * 0.1).requires_grad_(gradient)

    def step(h: Any, x: Any) -> Any:
        h = (h @ weight + x).tanh()
        return h, h.clone()

    def function(h: Any, xs: Any) -> Any:
        last, ys = scan(step, h, xs)
        return rl.autograd.grad(ys.sum() + last.sum(), weight) if gradient else (last, ys)

    return function, (rl.zeros(BATCH, FEATURES), rl.randn(steps, BATCH, FEATURES))


def _compiled(steps: int, gradient: bool) -> Thunk:
    function, arguments = _network(steps, gradient)
    compiled = rl.compile(function, fullgraph=True)
    return lambda: compiled(*arguments)


def _cold(steps: int, gradient: bool) -> FirstCall:
    def fresh() -> Thunk:
        use_new_cache()
        return _compiled(steps, gradient)

    return FirstCall(fresh)


def compile_row(name: str, quick: bool) -> Row:
    """The first call of a long loop beyond the next ones, against that of a short one."""
    gradient = "gradient" in name
    short = f"rushlight, {SHORT} steps"
    contestants = {OURS: _cold(LONG, gradient), short: _cold(SHORT, gradient)}
    return Row(name, contestants, {short: 1.5}, 2 if quick else 5)


def run_row(name: str, quick: bool) -> Row:
    """A compiled loop against the same in Python, eagerly, and against PyTorch's."""
    gradient = "gradient" in name
    function, arguments = _network(LONG, gradient)
    eager = "rushlight, eager"
    contestants = {OURS: timed(_compiled(LONG, gradient)), eager: timed(lambda: function(*arguments))}
    if importlib.util.find_spec("torch") is not None:
        contestants["torch"] = timed(_torch_loop(gradient))
    return Row(name, contestants, {eager: 0.2, "torch": 0.5}, 3 if quick else 10)


def _torch_loop(gradient: bool) -> Thunk:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)
    weight = (torch.randn(FEATURES, FEATURES) * 0.1).requires_grad_(gradient)
    start, xs = torch.zeros(BATCH, FEATURES), torch.randn(LONG, BATCH, FEATURES)

    def loop() -> Any:
        h, ys = start, []
        for x in xs:
            h = (h @ weight + x).tanh()
            ys.append(h)
        stacked = torch.stack(ys)
        return torch.autograd.grad(stacked.sum() + h.sum(), weight) if gradient else (h, stacked)

    return loop


CONTROL_FLOW: dict[str, Callable[[str, bool], Row]] = {
    f"{title}, recurrent network of 2,000 steps{kind}": make
    for title, make in (("cold compile", compile_row), ("compiled scan", run_row))
    for kind in ("", " with its gradient")
}
