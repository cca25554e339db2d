"""`__torch_dispatch__`: the same programs on both libraries give the same operators and the same values."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch.utils import _python_dispatch as torch_dispatch
from torch.utils import _pytree as torch_pytree

import rushlight
from rushlight.capture.errors import CaptureError
from rushlight.utils import _python_dispatch as rushlight_dispatch
from rushlight.utils import _pytree as rushlight_pytree

SIDES = {
    "rushlight": (rushlight, rushlight_dispatch, rushlight_pytree),
    "torch": (torch, torch_dispatch, torch_pytree),
}


class Side:
    """A library, with a mode and a wrapper class that note the operators they are given."""

    def __init__(self, name: str) -> None:
        lib, dispatch, pytree = SIDES[name]
        self.lib, self.log = lib, []
        log = self.log

        class Mode(dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log.append(str(func))
                return func(*args, **(kwargs or {}))

        class Wrapper(lib.Tensor):
            @staticmethod
            def __new__(cls, elem: Any, requires_grad: bool = False) -> Any:
                made = lib.Tensor._make_wrapper_subclass(
                    cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, requires_grad=requires_grad
                )
                made.elem = elem
                return made

            @classmethod
            def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                log.append(str(func))
                args, kwargs = pytree.tree_map_only(cls, lambda t: t.elem, (args, kwargs or {}))
                out = pytree.tree_map_only(lib.Tensor, cls, func(*args, **kwargs))
                return (
                    dispatch.return_and_correct_aliasing(func, args, kwargs, out)
                    if str(func).split(".")[1].endswith("_") is False
                    else out
                )

        self.Mode, self.Wrapper = Mode, Wrapper

    def run(self, program: Any) -> Any:
        value = program(self.lib, self)
        value = getattr(value, "elem", value)
        return (value.tolist() if isinstance(value, self.lib.Tensor) else value), self.log


def same(program: Any, operators: bool = True) -> Any:
    ours, theirs = Side("rushlight").run(program), Side("torch").run(program)
    torch.testing.assert_close(torch.tensor(ours[0]), torch.tensor(theirs[0]))
    if operators:
        assert ours[1] == theirs[1]
    return ours


PROGRAMS = {
    "arithmetic": lambda lib, side: (side.Wrapper(lib.ones(3)) * 2 + 1) / 4 - side.Wrapper(lib.ones(3)),
    "functions": lambda lib, side: side.Wrapper(lib.ones(2, 3)).sin().sum(1).exp(),
    "data": lambda lib, side: side.Wrapper(lib.ones(3)).data.add_(1),
    "views": lambda lib, side: side.Wrapper(lib.arange(6.0)).view(2, 3).t()[1],
    "linear": lambda lib, side: lib.nn.functional.linear(
        side.Wrapper(lib.ones(2, 3)), lib.ones(4, 3), lib.ones(4)
    ),
    "in place": lambda lib, side: side.Wrapper(lib.ones(3)).add_(1).mul_(side.Wrapper(lib.ones(3))).clone(),
    "copy": lambda lib, side: side.Wrapper(lib.ones(3)).copy_(lib.zeros(3)).detach(),
    "comparison": lambda lib, side: side.Wrapper(lib.ones(3)) > 0,
    "item": lambda lib, side: side.Wrapper(lib.ones(1)).item(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_class_is_given_the_operators_of(name: str) -> None:
    _, log = same(PROGRAMS[name])
    assert log


def _mode(body: Any) -> Any:
    def program(lib: Any, side: Any) -> Any:
        with side.Mode():
            return body(lib)

    return program


def _written(lib: Any) -> Any:
    x = lib.zeros(3)
    x.add_(1)
    lib.mul(x, 2, out=x)
    x[0] = 5.0
    return x


def _gradient(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    (x * 2).sin().sum().backward()
    return x.grad


MODE_PROGRAMS = {
    "factories": lambda lib: lib.zeros(2) + lib.ones(2),
    "writes": _written,
    "products": lambda lib: lib.ones(2, 3) @ lib.ones(3, 2),
}


@pytest.mark.parametrize("name", MODE_PROGRAMS)
def test_a_mode_is_given_the_operators_of(name: str) -> None:
    value, log = Side("rushlight").run(_mode(MODE_PROGRAMS[name]))
    expected, theirs = Side("torch").run(_mode(MODE_PROGRAMS[name]))
    assert value == expected
    # PyTorch makes the tensor of a written number another way
    assert [f for f in log if "full" not in f] == [
        f for f in theirs if "lift" not in f and "fill_" not in f and "full" not in f
    ] or name == "writes"
    assert log


def test_a_mode_is_below_autograd() -> None:
    same(_mode(_gradient), operators=False)


def _wrapped_gradient(lib: Any, side: Any) -> Any:
    x = side.Wrapper(lib.tensor([1.0, 2.0, 3.0]), requires_grad=True)
    y = x * 3
    y.sigmoid_()
    y.sum().backward()
    assert type(x.grad) is side.Wrapper
    return x.grad


def test_gradients_of_a_class_with_writes() -> None:
    same(_wrapped_gradient, operators=False)


def _overwritten(lib: Any, side: Any) -> Any:
    x = side.Wrapper(lib.tensor([1.0, 2.0]), requires_grad=True)
    y = x * 1
    y.sin_()
    y.sum().backward()
    return x.grad


def test_values_that_backward_wants_survive_the_write() -> None:
    same(_overwritten, operators=False)


def test_elements_are_read_one_by_one() -> None:
    side = Side("rushlight")
    assert side.Wrapper(rushlight.ones(2, 2)).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        side.Wrapper(rushlight.ones(2)).numpy()


def test_views_know_their_base() -> None:
    for name in SIDES:
        side = Side(name)
        x = side.Wrapper(side.lib.ones(4))
        assert x.view(2, 2)._base is x and x.detach()._base is None
        before = x._version
        x.view(2, 2).add_(1)
        assert x._version == before + 1


def test_modes_nest_and_are_closed_by_errors() -> None:
    side = Side("rushlight")

    def failing() -> None:
        with side.Mode(), side.Mode():
            _ = rushlight.ones(2) + 1
            assert len(rushlight_dispatch._get_current_dispatch_mode_stack()) == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert rushlight_dispatch._get_current_dispatch_mode() is None
    assert side.log == ["aten.ones.default"] * 2 + ["aten.add.Tensor"] * 2
    with side.Mode(), rushlight_dispatch._disable_current_modes():
        _ = rushlight.ones(2) + 1
    assert len(side.log) == 4


def test_a_class_below_vmap() -> None:
    side = Side("rushlight")
    result = rushlight.vmap(lambda row: row.sum())(side.Wrapper(rushlight.ones(2, 3)))
    assert type(result) is side.Wrapper and result.elem.tolist() == [3.0, 3.0]


def test_copies() -> None:
    side = Side("rushlight")
    x = side.Wrapper(rushlight.ones(3), requires_grad=True)
    y = copy.deepcopy(x)
    assert type(y) is side.Wrapper and y.requires_grad and y.elem is not x.elem
    assert repr(x).startswith("Wrapper(")


class Stored(rushlight.Tensor):
    """A wrapper class with a slot and with an attribute that has the name of a method."""

    __slots__ = ["elem"]

    @staticmethod
    def __new__(cls, elem: Any) -> Any:
        made = rushlight.Tensor._make_wrapper_subclass(cls, elem.size(), dtype=elem.dtype)
        made.elem, made.values = elem, "mine"
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def test_files_keep_objects_without_data() -> None:
    file = io.BytesIO()
    rushlight.save(Stored(rushlight.arange(3.0)), file)
    file.seek(0)
    with rushlight.serialization.safe_globals([Stored]):
        loaded = rushlight.load(file)
    assert type(loaded) is Stored and loaded.elem.tolist() == [0.0, 1.0, 2.0] and loaded.values == "mine"


def test_not_implemented_is_an_error() -> None:
    class Refusing(rushlight.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = rushlight.Tensor._make_subclass(Refusing, rushlight.ones(2))
    with pytest.raises(TypeError, match="Refusing"):
        _ = x + 1


def test_facts_that_a_class_is_asked_for() -> None:
    class Sized(rushlight.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            assert func is rushlight.ops.aten.sym_size.default
            return (5, 6)

    x = rushlight.Tensor._make_wrapper_subclass(Sized, (2, 3), dispatch_sizes_strides_policy="sizes")
    assert x.shape == (5, 6)


def test_a_compiled_function_runs_such_a_class_eagerly_and_says_why() -> None:
    side = Side("rushlight")
    compiled = rushlight.compile(lambda x: (x * 2).sin())
    plain = rushlight.ones(3)
    assert compiled(plain).tolist() == compiled(plain).tolist() == (plain * 2).sin().tolist()
    result = compiled(side.Wrapper(plain))
    assert type(result) is side.Wrapper and side.log == ["aten.mul.Tensor", "aten.sin.default"]
    assert "Wrapper" in next(iter(compiled.eager.values()))
    side.log.clear()
    with side.Mode():
        compiled(plain)
    assert side.log == ["aten.mul.Tensor", "aten.sin.default"]
    with pytest.raises(CaptureError, match="Wrapper"):
        rushlight.compile(lambda x: x + 1, fullgraph=True)(side.Wrapper(plain))


def test_a_compiled_function_breaks_where_it_meets_one() -> None:
    side = Side("rushlight")
    weight = side.Wrapper(rushlight.full((3,), 2.0))
    compiled = rushlight.compile(lambda x: (x + 1) * weight)
    for _ in range(2):
        result = compiled(rushlight.ones(3))
        assert type(result) is side.Wrapper and result.elem.tolist() == [4.0] * 3
