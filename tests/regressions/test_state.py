"""State that changes between calls of a compiled function (adversarial A1 to A5)."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import rushlight as rl
import rushlight.nn.functional as F
import rushlight.optim.lr_scheduler as schedulers
from rushlight import nn, optim
from rushlight.testing.agreement import check_agreement

C = Callable[..., Any]

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "ExponentialLR": lambda o: schedulers.ExponentialLR(o, 0.9),
    "StepLR": lambda o: schedulers.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda o: schedulers.MultiStepLR(o, [2, 4, 4], 0.5),
    "ConstantLR": lambda o: schedulers.ConstantLR(o, 0.5, 3),
    "LinearLR": lambda o: schedulers.LinearLR(o, 0.3, 1.0, 4),
    "CosineAnnealingLR": lambda o: schedulers.CosineAnnealingLR(o, 5, 0.01),
    "PolynomialLR": lambda o: schedulers.PolynomialLR(o, 6, 2.0),
    "LambdaLR": lambda o: schedulers.LambdaLR(o, lambda epoch: 0.95**epoch),
    "MultiplicativeLR": lambda o: schedulers.MultiplicativeLR(o, lambda epoch: 0.95),
    "OneCycleLR": lambda o: schedulers.OneCycleLR(o, 0.2, total_steps=10),
    "CyclicLR": lambda o: schedulers.CyclicLR(o, 0.01, 0.1, 3),
    "CosineAnnealingWarmRestarts": lambda o: schedulers.CosineAnnealingWarmRestarts(o, 3),
    "SequentialLR": lambda o: schedulers.SequentialLR(
        o, [schedulers.ConstantLR(o, 0.1, 3), schedulers.ExponentialLR(o, 0.9)], [3]
    ),
    "ChainedScheduler": lambda o: schedulers.ChainedScheduler(
        [schedulers.ConstantLR(o, 0.1, 3), schedulers.ExponentialLR(o, 0.9)]
    ),
}


@pytest.mark.parametrize("first", [False, True], ids=["after the optimizer", "before the optimizer"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a1_scheduler_in_a_compiled_step(name: str, first: bool) -> None:
    def program(compiled: C) -> Iterator[Any]:
        p = nn.Parameter(rl.ones(3))
        o = optim.SGD([p], 0.1, momentum=0.5)
        s = SCHEDULERS[name](o)
        o.step()  # before that of the scheduler

        @compiled
        def step(x: rl.Tensor) -> rl.Tensor:
            o.zero_grad()
            loss = (p * x).pow(2).sum()
            loss.backward()
            if first:
                s.step()
            o.step()
            if not first:
                s.step()
            return loss.detach()

        for i in range(8):
            if i == 5:
                o.param_groups[0]["lr"] *= 2
            loss = step(rl.ones(3) * (1 + i % 2))
            yield loss, p, o.param_groups[0]["lr"], s.get_last_lr(), getattr(s, "last_epoch", None)

    for function in check_agreement(program):
        assert not getattr(function, "eager", None)


def test_a1_plateau_reads_its_loss() -> None:
    def program(compiled: C) -> Iterator[Any]:
        p = nn.Parameter(rl.ones(3))
        o = optim.SGD([p], 0.1)
        s = schedulers.ReduceLROnPlateau(o, patience=1)

        @compiled
        def step(x: rl.Tensor) -> None:
            o.zero_grad()
            loss = (p * x).sum().abs()
            loss.backward()
            o.step()
            s.step(loss)

        for i in range(6):
            step(rl.ones(3) * i)
            yield p, o.param_groups[0]["lr"], s.num_bad_epochs

    check_agreement(program, fullgraph=False)


def test_a1_a_schedule_of_the_users() -> None:
    def program(compiled: C) -> Iterator[Any]:
        p = nn.Parameter(rl.ones(3))
        o = optim.SGD([p], 0.1)

        @compiled
        def step(x: rl.Tensor) -> None:
            o.zero_grad()
            (p * x).sum().backward()
            o.step()
            for group in o.param_groups:
                group["lr"] *= 0.5

        for _ in range(4):
            step(rl.ones(3))
            yield p, o.param_groups[0]["lr"]

    check_agreement(program)


@pytest.mark.parametrize("to_none", [True, False])
def test_a2_gradient_accumulation_with_a_flag(to_none: bool) -> None:
    def program(compiled: C) -> Iterator[Any]:
        m = nn.Linear(3, 2)
        o = optim.Adam(m.parameters(), 0.1)

        @compiled
        def micro(a: rl.Tensor, b: rl.Tensor, last: bool) -> rl.Tensor:
            loss = F.mse_loss(m(a), b) / 3
            loss.backward()
            if last:
                o.step()
                o.zero_grad(to_none)
            return loss.detach()

        for i in range(10):
            yield micro(rl.randn(4, 3), rl.randn(4, 2), i % 3 == 2), m.weight, m.weight.grad

    check_agreement(program)


def hooks_of_modules(compiled: C) -> Iterator[Any]:
    m, k = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), [2.0]
    f = compiled(lambda x: m(x).sum().backward())

    def run() -> Any:
        m.zero_grad()
        f(rl.ones(1, 2, requires_grad=True))
        return m[0].weight.grad

    yield run()
    first = m.register_full_backward_hook(lambda module, given, grads: (given[0] * 2,))
    yield run()
    second = m[0].register_full_backward_pre_hook(lambda module, grads: (grads[0] * k[0],))
    yield run()
    k[0] = 5.0
    yield run()
    second.remove()
    yield run()
    first.remove()
    yield run()
    first = m[0].register_forward_hook(lambda module, args, result: result * 3)
    yield run()
    first.remove()
    first = m[0].register_forward_hook(lambda module, args, result: result * 4)
    yield run()


def hooks_of_tensors(compiled: C) -> Iterator[Any]:
    w, k = rl.ones(3).requires_grad_(), [2.0]
    f = compiled(lambda x: (w * x).sum().backward())

    def run() -> Any:
        w.grad = None
        f(rl.ones(3))
        return w.grad

    yield run()
    handle = w.register_hook(lambda grad: grad * k[0])
    yield run()
    k[0] = 7.0
    yield run()
    handle.remove()
    yield run()

    def scale(p: Any) -> None:
        p.grad.mul_(k[0])

    handle = w.register_post_accumulate_grad_hook(scale)
    yield run()
    k[0] = 3.0
    yield run()
    handle.remove()
    yield run()


def hooks_of_arguments(compiled: C) -> Iterator[Any]:
    f = compiled(lambda x: (x * x).sum().backward())
    x, y = (rl.ones(3).requires_grad_() for _ in range(2))
    y.register_hook(lambda grad: grad * 10)
    for given in (x, y, x, y):
        given.grad = None
        f(given)
        yield given.grad


def hooks_that_write(compiled: C) -> Iterator[Any]:
    m, seen = nn.Linear(2, 2), []
    m.register_forward_hook(lambda module, args, result: seen.append(len(seen)))
    f = compiled(m)
    for _ in range(3):
        yield f(rl.ones(1, 2)), list(seen)


@pytest.mark.parametrize(
    "program",
    [hooks_of_modules, hooks_of_tensors, hooks_of_arguments, hooks_that_write],
    ids=lambda p: p.__name__,
)
def test_a3_hooks(program: Any) -> None:
    check_agreement(program)


def test_a3_a_backward_hook_that_keeps_what_it_sees() -> None:
    m, seen = nn.Linear(2, 2), []
    m.register_full_backward_hook(lambda module, given, grads: seen.append(grads[0].sum().item()))
    f = rl.compile(m)
    for i in range(4):
        f(rl.ones(1, 2, requires_grad=True)).sum().backward()
        assert len(seen) == i + 1
    assert seen == [2.0] * 4


def test_a4_a_function_that_reads_a_variable() -> None:
    def program(compiled: C) -> Iterator[Any]:
        scale = [2.0]

        class Scaled(rl.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: rl.Tensor) -> rl.Tensor:
                return x * scale[0]

            @staticmethod
            def backward(ctx: Any, grad: rl.Tensor) -> rl.Tensor:
                return grad * scale[0] * 10

        f = compiled(lambda x: Scaled.apply(x))
        for k in (2.0, 3.0, 2.0):
            scale[0] = k
            x = rl.ones(2, requires_grad=True)
            y = f(x)
            y.sum().backward()
            yield y, x.grad

    check_agreement(program)


class Output(OrderedDict):
    """As in programs that return their results by name and by attribute."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.__post_init__()

    def __post_init__(self) -> None:
        for name, value in self.items():
            super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@dataclass
class Both(OrderedDict):
    a: Any = None
    b: Any = None

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            if getattr(self, name) is not None:
                self[name] = getattr(self, name)


class Named(dict):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.extra = "more"


class Several(list):
    tag: Any


class Counted(defaultdict):
    pass


def _several(x: rl.Tensor) -> Several:
    made = Several([x + 1, x * 2])
    made.tag = x * 3
    return made


def _counted(x: rl.Tensor) -> Counted:
    made = Counted(list)
    made["a"].append(x + 1)
    return made


@pytest.mark.parametrize(
    ("make", "look"),
    [
        (lambda x: Output(a=x + 1, b=x * 2), lambda r: [list(r), r.a, r["a"], r.b, r.a is r["a"]]),
        (lambda x: Both(a=x + 1), lambda r: [list(r), r.a, r["a"], r.b]),
        (lambda x: Both(a=x + 1, b=(x, x * 2)), lambda r: [list(r), r.a, r["b"], r.b]),
        (lambda x: Named(a=x + 1), lambda r: [list(r), r["a"], r.extra]),
        (_several, lambda r: [list(r), r.tag]),
        (_counted, lambda r: [list(r), r["a"], r["new"]]),
    ],
    ids=["OrderedDict", "data class", "data class with a tuple", "dict", "list", "defaultdict"],
)
def test_a5_containers_of_classes_of_their_own(make: Any, look: Any) -> None:
    def program(compiled: C) -> Iterator[Any]:
        f = compiled(make)
        for i in range(2):
            found = f(rl.ones(2) * i)
            yield type(found).__name__, look(found)

    check_agreement(program)


def test_a5_as_arguments() -> None:
    def program(compiled: C) -> Iterator[Any]:
        f = compiled(lambda out: out["a"] + out.b)
        for i in range(2):
            yield f(Output(a=rl.ones(2), b=rl.ones(2) * i))

    check_agreement(program)
