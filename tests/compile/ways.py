"""Ways in which a compiled program comes to run a function that reads or changes something of Python's.

Each gives a function of a tensor, whose result and gradient depend on what `act(x)` returns.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight import nn, optim
from rushlight.utils.checkpoint import checkpoint

Act = Callable[[rl.Tensor], rl.Tensor]
Shown = Callable[[], list[Any]]
Way = Callable[[Act, Callable[[Any], Any]], Shown]


def _leaf() -> rl.Tensor:
    return rl.arange(3.0).add(1).requires_grad_()


def _plain(program: Callable[[rl.Tensor], rl.Tensor], compiled: Any) -> Shown:
    f = compiled(program)

    def show() -> list[Any]:
        return f(rl.arange(3.0)).tolist()

    return show


def _stepping(program: Callable[[rl.Tensor], Any], compiled: Any) -> Shown:
    """A program that runs its own backward pass."""
    x, f = _leaf(), compiled(program)

    def show() -> list[Any]:
        x.grad = None
        f(x)
        return x.grad.tolist()

    return show


def directly(act: Act, compiled: Any) -> Shown:
    return _plain(act, compiled)


def by_name(act: Act, compiled: Any) -> Shown:
    def inner(x: rl.Tensor) -> rl.Tensor:
        return act(x) * 2

    return _plain(lambda x: inner(x) + 1, compiled)


def in_a_list(act: Act, compiled: Any) -> Shown:
    functions = [act, rl.sin]

    def f(x: rl.Tensor) -> rl.Tensor:
        for function in functions:
            x = function(x)
        return x

    return _plain(f, compiled)


def as_an_argument(act: Act, compiled: Any) -> Shown:
    f = compiled(lambda function, x: function(x))
    return lambda: f(act, rl.ones(3)).tolist()


def decorated(act: Act, compiled: Any) -> Shown:
    def decorator(function: Act) -> Act:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args) * 3

        return wrapper

    return _plain(decorator(act), compiled)


def in_a_generator(act: Act, compiled: Any) -> Shown:
    def f(x: rl.Tensor) -> rl.Tensor:
        def parts() -> Any:
            yield act(x)
            yield x

        return sum(parts())

    return _plain(f, compiled)


def in_a_context(act: Act, compiled: Any) -> Shown:
    @contextlib.contextmanager
    def around(x: rl.Tensor) -> Any:
        yield act(x)

    def f(x: rl.Tensor) -> rl.Tensor:
        with around(x) as y:
            return y + 1

    return _plain(f, compiled)


def in_a_module(act: Act, compiled: Any) -> Shown:
    class M(nn.Module):
        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return act(x)

    return _plain(nn.Sequential(M(), nn.Tanh()), compiled)


def in_a_forward_hook(act: Act, compiled: Any) -> Shown:
    m = nn.Tanh()
    m.register_forward_hook(lambda module, args, result: act(result))
    return _plain(m, compiled)


def in_a_hook_of_all_modules(act: Act, compiled: Any) -> Shown:
    m, f = nn.Tanh(), None

    def show() -> list[Any]:
        nonlocal f
        with nn.modules.module.register_module_forward_pre_hook(lambda module, args: (act(args[0]),)):
            f = f or compiled(lambda x: m(x))
            return f(rl.ones(3)).tolist()

    return show


def in_a_tensor_hook(act: Act, compiled: Any) -> Shown:
    def f(x: rl.Tensor) -> None:
        y = x * 2
        y.register_hook(act)
        y.sin().sum().backward()

    return _stepping(f, compiled)


def in_a_hook_of_a_leaf(act: Act, compiled: Any) -> Shown:
    w = _leaf()
    w.register_hook(act)
    f = compiled(lambda x: (w * x).sum().backward())

    def show() -> list[Any]:
        w.grad = None
        f(rl.ones(3))
        return w.grad.tolist()

    return show


def in_a_hook_after_accumulation(act: Act, compiled: Any) -> Shown:
    w = _leaf()

    def hook(p: Any) -> None:
        p.grad.copy_(act(p.grad))

    w.register_post_accumulate_grad_hook(hook)
    f = compiled(lambda x: (w * x).sum().backward())

    def show() -> list[Any]:
        w.grad = None
        f(rl.ones(3))
        return w.grad.tolist()

    return show


def in_a_backward_hook(act: Act, compiled: Any) -> Shown:
    m = nn.Tanh()
    m.register_full_backward_hook(lambda module, given, grads: (act(given[0]),))
    return _stepping(lambda x: m(x).sum().backward(), compiled)


def in_a_function(act: Act, compiled: Any) -> Shown:
    class F(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
            return act(x)

        @staticmethod
        def backward(ctx: Any, grad: rl.Tensor) -> rl.Tensor:
            return grad

    return _plain(lambda x: F.apply(x), compiled)


def in_the_backward_of_a_function(act: Act, compiled: Any) -> Shown:
    class F(rl.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: rl.Tensor) -> rl.Tensor:
            return act(grad)

    return _stepping(lambda x: F.apply(x).sum().backward(), compiled)


def in_a_checkpoint(act: Act, compiled: Any) -> Shown:
    return _stepping(
        lambda x: checkpoint(lambda y: act(y).sin(), x, use_reentrant=False).sum().backward(), compiled
    )


def in_vmap(act: Act, compiled: Any) -> Shown:
    f = compiled(lambda x: rl.vmap(act)(x))
    return lambda: f(rl.ones(2, 3)).tolist()


def in_a_closure_of_an_optimizer(act: Act, compiled: Any) -> Shown:
    w = _leaf()
    o = optim.SGD([w], 0.1)

    def step() -> None:
        def closure() -> rl.Tensor:
            o.zero_grad()
            loss = act(w).sum()
            loss.backward()
            return loss

        o.step(closure)

    f = compiled(step)

    def show() -> list[Any]:
        f()
        return w.tolist()

    return show


def in_a_hook_of_an_optimizer(act: Act, compiled: Any) -> Shown:
    w = _leaf()
    o = optim.SGD([w], 0.1)

    def hook(*given: Any) -> None:
        w.grad.copy_(act(w.grad))

    o.register_step_pre_hook(hook)

    def step() -> None:
        w.sum().backward()
        o.step()
        o.zero_grad()

    f = compiled(step)

    def show() -> list[Any]:
        f()
        return w.tolist()

    return show


WAYS = [
    directly,
    by_name,
    in_a_list,
    as_an_argument,
    decorated,
    in_a_generator,
    in_a_context,
    in_a_module,
    in_a_forward_hook,
    in_a_hook_of_all_modules,
    in_a_tensor_hook,
    in_a_hook_of_a_leaf,
    in_a_hook_after_accumulation,
    in_a_backward_hook,
    in_a_function,
    in_the_backward_of_a_function,
    in_a_checkpoint,
    in_vmap,
    in_a_closure_of_an_optimizer,
    in_a_hook_of_an_optimizer,
]
