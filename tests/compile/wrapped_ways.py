"""Ways in which functions of Rushlight that take a function run it: decorators, transforms, modules, optimizers,
schedulers, modes. Captures look into the program's own function behind each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight import func, nn, optim
from rushlight._higher_order_ops import associative_scan, scan, while_loop
from rushlight._higher_order_ops import map as map_rows
from rushlight.nn.utils import parametrize
from rushlight.overrides import TorchFunctionMode
from rushlight.utils.checkpoint import checkpoint

from .ways import Act, Shown, Way, _leaf, _plain, _stepping

# What a program has decorated before it is compiled: a function of a tensor made of another one.
WRAPPERS: dict[str, Callable[[Act], Callable[..., Any]]] = {
    "no_grad": lambda act: rl.no_grad()(act),
    "no_grad without parentheses": lambda act: rl.no_grad(act),
    "enable_grad": lambda act: rl.enable_grad()(act),
    "set_grad_enabled": lambda act: rl.set_grad_enabled(False)(act),
    "inference_mode": lambda act: rl.inference_mode()(act),
    "autocast": lambda act: rl.autocast("cpu", enabled=False)(act),
    "record_function": lambda act: rl.autograd.profiler.record_function("act")(act),
    "allow_in_graph": lambda act: rl.compiler.allow_in_graph(act),
    "nested_compile_region": lambda act: rl.compiler.nested_compile_region(act),
    "functionalize": lambda act: func.functionalize(act),
    "vmap": lambda act: lambda x: func.vmap(act)(x),
    "vmap made outside": lambda act: func.vmap(act),
    "grad": lambda act: func.grad(lambda x: act(x).sin().sum()),
    "grad_and_value": lambda act: lambda x: func.grad_and_value(lambda y: act(y).sin().sum())(x)[0],
    "vjp": lambda act: lambda x: func.vjp(act, x)[1](rl.ones(3))[0],
    "jvp": lambda act: lambda x: func.jvp(act, (x,), (rl.ones(3),))[1],
    "linearize": lambda act: lambda x: func.linearize(act, x)[1](rl.ones(3)),
    "jacrev": lambda act: func.jacrev(act),
    "jacfwd": lambda act: func.jacfwd(act),
    "hessian": lambda act: func.hessian(lambda x: act(x).pow(2).sum()),
    "functional.jacobian": lambda act: lambda x: rl.autograd.functional.jacobian(act, x),
    "functional.vjp": lambda act: lambda x: rl.autograd.functional.vjp(act, x, rl.ones(3))[1],
    "checkpoint, reentrant": lambda act: (
        lambda x: checkpoint(act, x + rl.zeros(3, requires_grad=True), use_reentrant=True).detach()
    ),
    "checkpoint_sequential": lambda act: (
        lambda x: rl.utils.checkpoint.checkpoint_sequential([act, rl.sin], 2, x, use_reentrant=False)
    ),
    "map": lambda act: lambda x: map_rows(lambda row: act(row) + 1, x),
    "scan": lambda act: lambda x: scan(lambda c, row: (c + row, act(row)), x.new_zeros(()), x)[1],
    "associative_scan": lambda act: (
        lambda x: associative_scan(lambda a, b: act(a) + b, x, 0, combine_mode="generic")
    ),
    "while_loop": lambda act: (
        lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, act(y)), (rl.tensor(0), x))[1]
    ),
    "cond": lambda act: lambda x: rl.cond(x.sum() > 0, act, lambda y: y + 1, (x,)),
    "jit.script_if_tracing": lambda act: rl.jit.script_if_tracing(act),
}


# Bodies of control flow are captured once, however often they run: a body writes to nothing of Python's.
BODIES = ("map", "scan", "associative_scan", "while_loop", "cond")


def _wrapped(name: str) -> Way:
    def way(act: Act, compiled: Any) -> Shown:
        wrapper = WRAPPERS[name](act)
        return _plain(lambda x: wrapper(x) * 1, compiled)

    way.__name__ = f"behind {name}"
    return way


def in_a_parametrization(act: Act, compiled: Any) -> Shown:
    class P(nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return act(x)

    m = nn.Linear(3, 1, bias=False)
    nn.init.ones_(m.weight)
    parametrize.register_parametrization(m, "weight", P(), unsafe=True)
    return _plain(m, compiled)


def in_an_activation(act: Act, compiled: Any) -> Shown:
    m = nn.TransformerEncoderLayer(4, 1, 8, 0.0, act, batch_first=True, norm_first=True)
    for p in m.parameters():
        nn.init.constant_(p, 0.1)
    f = compiled(m)
    given = rl.arange(8.0).view(1, 2, 4)
    return lambda: f(given).tolist()


def in_a_distance(act: Act, compiled: Any) -> Shown:
    m = nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: act((a - b).square().sum(-1)))
    a, b, c = (rl.arange(6.0).view(2, 3) * k for k in (1, 2, 1.5))
    f = compiled(m)
    return lambda: [f(a, b, c).item()]


def in_functional_call(act: Act, compiled: Any) -> Shown:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(rl.ones(3))

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return act(x * self.w)

    m = M()
    return _plain(lambda x: func.functional_call(m, {"w": rl.full((3,), 2.0)}, (x,)), compiled)


def in_hooks_of_saved_tensors(act: Act, compiled: Any) -> Shown:
    def f(x: rl.Tensor) -> None:
        with rl.autograd.graph.saved_tensors_hooks(lambda t: t, act):
            y = x.sin()
        y.sum().backward()

    return _stepping(f, compiled)


def in_a_mode(act: Act, compiled: Any) -> Shown:
    class Mode(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            return act(found) if function is rl.sin else found

    def f(x: rl.Tensor) -> rl.Tensor:
        with Mode():
            return rl.sin(x)

    return _plain(f, compiled)


def in_a_class_of_tensors(act: Act, compiled: Any) -> Shown:
    class T(rl.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = super().__torch_function__(function, types, args, kwargs or {})
            return act(found) if function is rl.sin else found

    f = compiled(lambda x: rl.sin(x))
    return lambda: f(rl.arange(3.0).as_subclass(T)).as_subclass(rl.Tensor).tolist()


def _training(compiled: Any, w: rl.Tensor, step: Callable[[], Any]) -> Shown:
    f = compiled(step)

    def show() -> list[Any]:
        f()
        return w.tolist()

    return show


def in_an_optimizer(act: Act, compiled: Any) -> Shown:
    class Descent(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})

        @rl.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    p.sub_(act(p.grad), alpha=group["lr"])

    w = _leaf()
    o = Descent([w])

    def step() -> None:
        o.zero_grad()
        w.square().sum().backward()
        o.step()

    return _training(compiled, w, step)


def in_a_learning_rate(act: Act, compiled: Any) -> Shown:
    w = _leaf()
    o = optim.SGD([w], 0.01)
    s = optim.lr_scheduler.LambdaLR(o, lambda epoch: float(act(rl.ones(())).item()) if epoch else 1.0)

    def step() -> None:
        o.zero_grad()
        w.sum().backward()
        o.step()

    f = compiled(step)

    def show() -> list[Any]:
        f()
        s.step()
        return w.tolist()

    return show


def in_averaging(act: Act, compiled: Any) -> Shown:
    m = nn.Linear(3, 1, bias=False)
    nn.init.ones_(m.weight)
    averaged = optim.swa_utils.AveragedModel(m, avg_fn=lambda mean, p, n: mean + act(p) / 4)
    averaged.update_parameters(m)
    return _training(compiled, averaged.module.weight, lambda: averaged.update_parameters(m))


def in_flex_attention(act: Act, compiled: Any) -> Shown:
    q = rl.linspace(-1, 1, 16).view(1, 1, 4, 4)
    f = compiled(
        lambda q: nn.attention.flex_attention.flex_attention(q, q, q, lambda score, b, h, i, j: act(score))
    )
    return lambda: f(q).tolist()


WITHOUT_WRITES: list[Way] = [*(_wrapped(name) for name in BODIES), in_flex_attention]
WRAPPED: list[Way] = [
    *(_wrapped(name) for name in WRAPPERS if name not in BODIES),
    in_a_parametrization,
    in_an_activation,
    in_a_distance,
    in_functional_call,
    in_hooks_of_saved_tensors,
    in_a_mode,
    in_a_class_of_tensors,
    in_an_optimizer,
    in_a_learning_rate,
    in_averaging,
]
