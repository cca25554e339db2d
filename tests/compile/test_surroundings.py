"""Every way in which a compiled program can read, or change, something of Python's: it agrees with eager
runs.

`PLACES` are kinds of places that hold a number; each says how to read it, how to change it between two calls,
and, if a program may, how to change it inside. `WAYS` are ways in which a program comes to run the function
that reads or changes it. Each place is tested in one way and each way with a few places, all pairs with
`-m slow`.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
import os
import random
import time
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.utils.checkpoint import checkpoint

Read = Callable[[], Any]
NUMBER = 2.0


class Place(NamedTuple):
    """A place for a number: how to read it, to set it, and to set it inside of a program (None: not)."""

    read: Callable[[], Any]
    set: Callable[[float], None]
    inside: Callable[[], None] | None = None


class Config:
    scale = 2.0

    def __init__(self) -> None:
        self.k = 2.0

    @property
    def twice(self) -> float:
        return self.k * 2

    def method(self) -> float:
        return self.k + 1

    def __call__(self) -> float:
        return self.k

    def __getitem__(self, key: int) -> float:
        return self.k

    def __enter__(self) -> float:
        return self.k

    def __exit__(self, *exception: object) -> None:
        pass


class Slotted:
    __slots__ = ("k",)

    def __init__(self) -> None:
        self.k = 2.0


@dataclasses.dataclass
class Record:
    k: float = 2.0


class Descriptor:
    value = 2.0

    def __get__(self, instance: Any, owner: Any) -> float:
        return self.value


class Described:
    k = Descriptor()


def a_global() -> Place:
    def put(value: float) -> None:
        global NUMBER
        NUMBER = value

    def add() -> None:
        global NUMBER
        NUMBER += 1

    put(2.0)
    return Place(lambda: NUMBER, put, add)


def a_cell() -> Place:
    k = 2.0

    def put(value: float) -> None:
        nonlocal k
        k = value

    def add() -> None:
        nonlocal k
        k += 1

    return Place(lambda: k, put, add)


def _container(made: Any, key: Any) -> Place:
    def add() -> None:
        made[key] += 1

    return Place(lambda: made[key], functools.partial(made.__setitem__, key), add)


def a_list() -> Place:
    return _container([2.0], 0)


def a_dict() -> Place:
    return _container({"k": 2.0}, "k")


def a_deque() -> Place:
    return _container(collections.deque([2.0]), 0)


def an_ordered_dict() -> Place:
    return _container(collections.OrderedDict(k=2.0), "k")


def a_long_list() -> Place:
    return _container([2.0] * 5000, 4000)


def an_array() -> Place:
    return _container(np.array([2.0]), 0)


def a_length() -> Place:
    items = [0, 0]

    def put(value: float) -> None:
        items[:] = [0] * int(value)

    return Place(lambda: len(items), put, lambda: items.append(0))


def a_set() -> Place:
    items = {1, 2}

    def put(value: float) -> None:
        items.clear()
        items.update(range(int(value)))

    return Place(lambda: len(items), put)


def _attribute(thing: Any, read: Any, inside: bool = True) -> Place:
    def put(value: float) -> None:
        thing.k = value

    def add() -> None:
        thing.k += 1

    return Place(read, put, add if inside else None)


def an_attribute() -> Place:
    c = Config()
    return _attribute(c, lambda: c.k)


def a_property() -> Place:
    c = Config()
    return _attribute(c, lambda: c.twice)


def a_method() -> Place:
    c = Config()
    return _attribute(c, lambda: c.method())


def a_method_of_an_unnamed_object() -> Place:
    items = [Config()]
    return _attribute(items[0], lambda: sum(each.method() for each in items))


def an_object_that_is_called() -> Place:
    c = Config()
    return _attribute(c, lambda: c())


def a_special_method() -> Place:
    c = Config()
    return _attribute(c, lambda: c[0])


def a_context() -> Place:
    c = Config()

    def read() -> float:
        with c as k:
            return k

    return _attribute(c, read)


def a_slot() -> Place:
    c = Slotted()
    return _attribute(c, lambda: c.k)


def a_record() -> Place:
    c = Record()
    return _attribute(c, lambda: c.k)


def an_attribute_by_name() -> Place:
    c, name = Config(), "k"
    return _attribute(c, lambda: getattr(c, name))


def a_namespace() -> Place:
    c = types.SimpleNamespace(k=2.0)
    return _attribute(c, lambda: c.k)


def an_attribute_of_what_a_function_returns() -> Place:
    c = Config()

    def get() -> Config:
        return c

    return _attribute(c, lambda: get().k)


def a_class_attribute() -> Place:
    class Own(Config):
        k = 2.0

        def __init__(self) -> None:
            pass

    c = Own()

    def put(value: float) -> None:
        Own.k = value

    return Place(lambda: c.k + Own.k, put)


def a_class_attribute_of_a_new_object() -> Place:
    class Own:
        k = 2.0

        def get(self) -> float:
            return self.k

    def put(value: float) -> None:
        Own.k = value

    return Place(lambda: Own().get(), put)


def a_descriptor() -> Place:
    c = Described()

    def put(value: float) -> None:
        Described.__dict__["k"].value = value

    put(2.0)
    return Place(lambda: c.k, put)


def a_default() -> Place:
    def read(k: float = 2.0) -> float:
        return k

    def put(value: float) -> None:
        read.__defaults__ = (value,)

    return Place(read, put)


def a_keyword_default() -> Place:
    def read(*, k: float = 2.0) -> float:
        return k

    def put(value: float) -> None:
        read.__kwdefaults__["k"] = value

    return Place(read, put)


def a_partial() -> Place:
    k = [2.0]
    read = functools.partial(lambda items: items[0], k)
    return Place(read, functools.partial(k.__setitem__, 0))


def a_function_in_a_table() -> Place:
    k = [2.0]
    table = {"f": lambda: k[0]}
    return Place(lambda: table["f"](), functools.partial(k.__setitem__, 0))


def another_function() -> Place:
    table: dict[str, Callable[[], float]] = {"f": lambda: 2.0}

    def put(value: float) -> None:
        table["f"] = lambda: value

    return Place(lambda: table["f"](), put)


def a_module() -> Place:
    m = nn.ReLU()
    m.k = 2.0
    return _attribute(m, lambda: m.k)


def a_mode() -> Place:
    m = nn.Dropout()

    def put(value: float) -> None:
        m.train(value != 2.0)

    put(2.0)
    return Place(lambda: 3.0 if m.training else 2.0, put)


def the_environment() -> Place:
    def put(value: float) -> None:
        os.environ["A_NUMBER"] = str(value)

    put(2.0)
    return Place(lambda: float(os.environ["A_NUMBER"]), put)


def an_optimizer() -> Place:
    o = optim.SGD([rl.zeros(1)], 2.0)

    def put(value: float) -> None:
        o.param_groups[0]["lr"] = value

    def scale() -> None:
        for group in o.param_groups:
            group["lr"] *= 2

    return Place(lambda: o.param_groups[0]["lr"], put, scale)


def an_iterator() -> Place:
    numbers = itertools.count(1)
    return Place(lambda: next(numbers), lambda value: None)


def pythons_random_numbers() -> Place:
    random.seed(0)
    return Place(lambda: random.random(), lambda value: None)


def numpys_random_numbers() -> Place:
    generator = np.random.default_rng(0)
    return Place(lambda: float(generator.uniform()), lambda value: None)


def numpys_global_random_numbers() -> Place:
    np.random.seed(0)
    return Place(lambda: float(np.random.rand()), lambda value: None)


PLACES = [
    a_global,
    a_cell,
    a_list,
    a_dict,
    a_deque,
    an_ordered_dict,
    a_long_list,
    an_array,
    a_length,
    a_set,
    an_attribute,
    a_property,
    a_method,
    a_method_of_an_unnamed_object,
    an_object_that_is_called,
    a_special_method,
    a_context,
    a_slot,
    a_record,
    an_attribute_by_name,
    a_namespace,
    an_attribute_of_what_a_function_returns,
    a_class_attribute,
    a_class_attribute_of_a_new_object,
    a_descriptor,
    a_default,
    a_keyword_default,
    a_partial,
    a_function_in_a_table,
    another_function,
    a_module,
    a_mode,
    the_environment,
    an_optimizer,
    an_iterator,
    pythons_random_numbers,
    numpys_random_numbers,
    numpys_global_random_numbers,
]


# Ways: each gives a function of a tensor, whose result and gradient depend on what `act(x)` returns.

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


def shown(place: Callable[[], Place], way: Way, compiled: Any, inside: bool) -> list[Any]:
    """What a program shows in several calls, with changes between them; and what the place holds then."""
    read, put, change = place()

    def reading(x: rl.Tensor) -> rl.Tensor:
        return x * read()

    def changing(x: rl.Tensor) -> rl.Tensor:
        change()  # type: ignore[misc]
        return x * 2

    show = way(changing if inside else reading, compiled)
    found: list[Any] = []
    for value in (2.0, 2.0, 3.0, 3.0, 2.0):
        put(value)
        found.append(show())
        if inside:
            found.append(show())
            found.append(read())
    return found


def agree(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


FEW = [a_list, an_attribute]
PAIRS = [*((place, directly) for place in PLACES), *((place, way) for place in FEW for way in WAYS[1:])]
OTHERS = [pair for pair in itertools.product(PLACES, WAYS) if pair not in PAIRS]


def cases(pairs: Any) -> Any:
    return pytest.mark.parametrize(("place", "way"), pairs, ids=lambda f: f.__name__)


@cases(PAIRS)
def test_what_is_read(place: Callable[[], Place], way: Way) -> None:
    agree(shown(place, way, rl.compile, False), shown(place, way, lambda f: f, False))


def changed_inside(pairs: Any) -> list[Any]:
    return [(place, way) for place, way in pairs if place().inside is not None]


@cases(changed_inside(PAIRS))
def test_what_is_changed(place: Callable[[], Place], way: Way) -> None:
    agree(shown(place, way, rl.compile, True), shown(place, way, lambda f: f, True))


@pytest.mark.slow
@cases(OTHERS)
def test_what_is_read_in_all_ways(place: Callable[[], Place], way: Way) -> None:
    test_what_is_read(place, way)


@pytest.mark.slow
@cases(changed_inside(OTHERS))
def test_what_is_changed_in_all_ways(place: Callable[[], Place], way: Way) -> None:
    test_what_is_changed(place, way)


def test_a_clock() -> None:
    f = rl.compile(lambda x: x * time.perf_counter())
    assert f(rl.ones(1).double()).item() < f(rl.ones(1).double()).item()
    assert "clock" in next(iter(f.eager.values()))
