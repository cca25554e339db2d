"""Kinds of places that hold a number, which a compiled program reads or changes."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import os
import random
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rushlight as rl
from rushlight import nn, optim

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


def a_kept_normal_number() -> Place:
    """NumPy draws two at a time and keeps the second, which changes no word of the generator when it is read."""
    np.random.seed(0)
    np.random.standard_normal()
    return Place(lambda: float(np.random.standard_normal()), lambda value: None)


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
    a_kept_normal_number,
]
