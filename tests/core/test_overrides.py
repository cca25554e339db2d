"""Classes that decide what functions do with their objects: `__torch_function__` as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch

import rushlight

LIBRARIES = [torch, rushlight]


def derived(library: Any) -> Any:
    class Kept(library.Tensor):
        def hello(self) -> str:
            return "hello"

    return Kept


CALLS = {
    "add": lambda m, x: x + 1,
    "radd": lambda m, x: 1 + x,
    "rpow": lambda m, x: 2**x,
    "matmul": lambda m, x: x @ x.T,
    "item": lambda m, x: x[0],
    "mask": lambda m, x: x[x > 1],
    "sum": lambda m, x: x.sum(),
    "view": lambda m, x: x.view(-1),
    "float": lambda m, x: x.double(),
    "to": lambda m, x: x.to(m.float64),
    "clone": lambda m, x: x.clone(),
    "cat": lambda m, x: m.cat([m.ones(1, 3), x]),
    "max": lambda m, x: x.max(0).values,
    "split": lambda m, x: x.split(1)[1],
    "list": lambda m, x: next(iter(x)),
    "relu": lambda m, x: m.nn.functional.relu(x),
    "linear": lambda m, x: m.nn.functional.linear(x, m.ones(4, 3)),
    "einsum": lambda m, x: m.einsum("ij->ji", x),
    "new": lambda m, x: x.new_zeros(2),
    "like": lambda m, x: m.zeros_like(x),
    "data": lambda m, x: x.data,
    "tensor": lambda m, x: m.tensor(x),
    "as_tensor": lambda m, x: m.as_tensor(x),
    "plain": lambda m, x: x.as_subclass(m.Tensor),
    "compare": lambda m, x: x > 1,
    "where": lambda m, x: m.where(x > 0, x, 0.0),
    "type": lambda m, x: x.type(m.float64),
}


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("name", CALLS)
def test_results_keep_the_class(name: str) -> None:
    kinds, values = [], []
    for library in LIBRARIES:
        result = CALLS[name](library, library.arange(6.0).reshape(2, 3).as_subclass(derived(library)))
        kinds.append(type(result).__name__)
        values.append(result.tolist())
    assert kinds[0] == kinds[1] and values[0] == values[1]


def test_parameters_give_plain_tensors() -> None:
    class Mine(rushlight.nn.Parameter):
        pass

    weight = Mine(rushlight.ones(2))
    assert (
        type(weight) is Mine
        and type(weight + 1) is type(rushlight.nn.Parameter(weight) * 2) is rushlight.Tensor
    )


def test_gradients_do_not_ask() -> None:
    asked = []

    class Loud(rushlight.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = rushlight.ones(3).as_subclass(Loud).requires_grad_()
    y = (x * x).exp()
    before = len(asked)
    rushlight.autograd.backward(y.as_subclass(rushlight.Tensor).sum())
    assert asked[before:] == [] and asked[:before] == ["requires_grad_", "mul", "exp"]
    assert type(x.grad) is rushlight.Tensor


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_function_is_seen(library: Any) -> None:
    seen = []

    class Loud(library.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = library.ones(2, 3).as_subclass(Loud)
    library.cat([library.sum(x + 1, dim=1).reshape(2, 1).mul(2)] * 2, dim=1).exp_()
    assert seen == ["add", "sum", "reshape", "mul", "cat", "exp_"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_classes_that_are_no_tensors(library: Any) -> None:
    class Diagonal:
        def __init__(self, value: float) -> None:
            self.value = value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is library.mean:
                return args[0].value / 2
            if func is library.add:
                return "added", [t.__name__ for t in types]
            return NotImplemented

    d = Diagonal(3.0)
    assert library.mean(d) == 1.5
    assert library.add(library.ones(2), d) == library.add(d, d) == ("added", ["Diagonal"])
    for call in (lambda: library.mul(d, 3), lambda: library.cat([d, d]), lambda: library.sin(input=d)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("library", LIBRARIES)
def test_derived_classes_are_asked_first_and_strangers_refuse(library: Any) -> None:
    Kept = derived(library)

    class More(Kept):
        pass

    class Other(library.Tensor):
        pass

    kept, more, other = (library.ones(2).as_subclass(kind) for kind in (Kept, More, Other))
    assert type(kept + more) is type(more + kept) is More
    with pytest.raises(TypeError):
        kept + other


@pytest.mark.parametrize("library", LIBRARIES)
def test_modes_see_calls_with_plain_tensors(library: Any) -> None:
    seen = []
    mode_class = (torch.overrides if library is torch else rushlight.overrides).TorchFunctionMode

    class Mode(mode_class):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    with Mode():
        with Mode():
            library.ones(2).exp()
        library.add(library.zeros(1), 1)
    library.ones(2).sin()
    assert seen == ["ones", "ones", "exp", "exp", "zeros", "add"]


def test_functions_of_ones_own_ask() -> None:
    overrides = rushlight.overrides

    @overrides.wrap_torch_function(lambda x: (x,))
    def twice(x: Any) -> Any:
        return x * 2

    class Named:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__

    assert twice(Named()) == "twice" and twice(3) == 6
    assert overrides.is_tensor_like(Named()) and overrides.has_torch_function([Named()])
    assert not overrides.has_torch_function([rushlight.ones(1), 3]) and not overrides.is_tensor_like(3)
    assert overrides.resolve_name(rushlight.add) == "rushlight.add"


@pytest.mark.parametrize("library", LIBRARIES)
def test_attributes_of_tensors_are_copied(library: Any) -> None:
    x = library.ones(2)
    x.note = [1]
    for copied in (copy.deepcopy(x), copy.copy(x), pickle.loads(pickle.dumps(x))):
        assert copied.note == [1]
    assert copy.deepcopy(x).note is not x.note
    weight = library.nn.Parameter(x)
    weight.note = 2
    assert not hasattr(copy.deepcopy(weight), "note") and pickle.loads(pickle.dumps(weight)).note == 2


def test_a_derived_tensor_is_printed_with_its_class() -> None:
    texts = [repr(library.arange(4.0).reshape(2, 2).as_subclass(derived(library))) for library in LIBRARIES]
    assert texts[0] == texts[1] and texts[0].startswith("Kept([[0., 1.],\n      [2.")


@pytest.mark.parametrize("value", [0.1, 3, True, 1 + 2j])
def test_a_number_is_formatted_as_one(value: Any) -> None:
    ours, theirs = rushlight.tensor(value), torch.tensor(value)
    assert f"{ours}" == f"{theirs}" and f"{ours:>8}" == f"{theirs:>8}"
    assert f"{ours!s}" == f"{theirs!s}"
    with pytest.raises(TypeError):
        f"{rushlight.nn.Parameter(rushlight.tensor(1.0)):.2f}"


@pytest.mark.parametrize("library", LIBRARIES)
def test_copy_asks_the_class_of_the_source(library: Any) -> None:
    class Kept(library.Tensor):  # type: ignore[name-defined,misc]
        pass

    target = library.zeros(2)
    result = target.copy_(library.ones(2).as_subclass(Kept))
    assert (type(result), type(target)) == (Kept, library.Tensor)
    assert target.tolist() == [1, 1]
