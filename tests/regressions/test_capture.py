"""Defects of compiled programs: writes, out=, views of another dtype, the state of generators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError
from rushlight.testing.agreement import check_agreement


def agrees(function: Callable[..., Any], *makers: Callable[[], rl.Tensor], fullgraph: bool = True) -> None:
    """Compiled and eager calls on two sets of arguments agree, gradients of the results included."""

    def program(compiled: Callable[..., Any]):
        run = compiled(function)
        for seed in (1, 2):
            rl.manual_seed(seed)
            arguments = [make() for make in makers]
            found = run(*arguments)
            yield found, arguments
            different = [t for t in (found if isinstance(found, tuple) else (found,)) if t.requires_grad]
            if different:
                sum((t.abs() if t.is_complex() else t).sum() for t in different).backward()
                yield [argument.grad for argument in arguments]

    check_agreement(program, fullgraph=fullgraph)


def normal(*shape: int, dtype: rl.dtype = rl.float32, requires_grad: bool = False) -> Callable[[], rl.Tensor]:
    return lambda: rl.randn(*shape, dtype=dtype, requires_grad=requires_grad)


def variable(*shape: int, dtype: rl.dtype = rl.float32) -> Callable[[], rl.Tensor]:
    return normal(*shape, dtype=dtype, requires_grad=True)


def power(x):
    y = x + 1
    y **= 2
    return y


def normalised(x):
    y = x + 1
    y /= y.sum()
    return y


def multiplied(x):
    y = x + 1
    y.mul_(x)
    return y


def through_a_view(x):
    y = x + 1
    y[1:].mul_(x[:-1]).exp_()
    return y


@pytest.mark.parametrize(
    "function", [lambda x: (x + 1).sin_(), power, normalised, multiplied, through_a_view]
)
def test_d1_in_place_operators_that_save_their_input(function):
    agrees(function, variable(4))


@pytest.mark.parametrize(
    "kind",
    [
        nn.SiLU,
        nn.Mish,
        nn.Hardswish,
        nn.Hardsigmoid,
        nn.LeakyReLU,
        nn.ELU,
        nn.ReLU6,
        nn.Hardtanh,
        nn.SELU,
        nn.CELU,
    ],
)
def test_d1_activations_in_place(kind):
    activation = kind(inplace=True)
    agrees(lambda x: activation(x * 2), variable(4, 4))


def test_d1_in_place_inside_of_func_grad():
    agrees(lambda x: rl.func.grad(lambda z: (z * 1).sin_().sum())(x), normal(3))


def add_to_itself(x):
    y = x * 2
    rl.add(y, 1, out=y)
    return y


def sorted_into(x):
    values, places = rl.empty(3), rl.empty(3, dtype=rl.int64)
    rl.sort(x, out=(values, places))
    return values, places


@pytest.mark.parametrize(
    "function",
    [
        lambda x: rl.add(x, 1, out=rl.empty(3)),
        lambda x: rl.add(x, 1, out=rl.empty(0)),
        add_to_itself,
        sorted_into,
    ],
)
def test_d2_out_of_the_programs_own(function):
    agrees(function, normal(3))


def test_d2_out_among_the_arguments():
    agrees(lambda x, y: rl.add(x, 1, out=y), normal(3), normal(3))
    agrees(lambda x, y: rl.add(x, 1, out=y[::2]), normal(3), normal(5))


def test_d2_out_that_must_grow():
    agrees(lambda x, y: rl.add(x, 1, out=y), normal(3), normal(0), fullgraph=False)


def test_d2_out_in_forward_mode_is_refused():
    for function in (lambda x: rl.add(x, 1, out=rl.empty(3)), lambda x: rl.add(rl.ones(3), 1, out=x * 2)):
        with pytest.raises(NotImplementedError, match="because it is an out= function"):
            rl.func.jvp(function, (rl.ones(3),), (rl.ones(3),))


def set_real(x, y):
    y = y * 1
    y.real = x
    y.imag.mul_(2)
    return y


def first_of_real(x, y):
    y = y * 1
    rl.view_as_real(y)[..., 0].copy_(x)
    return y


@pytest.mark.parametrize("make", [normal, variable])
@pytest.mark.parametrize("function", [set_real, first_of_real])
def test_d3_parts_of_complex_numbers(function, make):
    agrees(function, make(3), make(3, dtype=rl.complex64))


def without_imaginary_part(y):
    y = y * 1
    y.imag.zero_()
    return y


def through_conjugates(y):
    z = y * 2
    z.conj().imag.copy_(rl.ones(3))
    z.conj().mul_(2j)
    z.imag[0] = 4
    y.conj().imag.fill_(1)
    return z, y + 1


def test_d3_conjugates_and_their_parts():
    agrees(without_imaginary_part, normal(3, dtype=rl.complex64))
    agrees(through_conjugates, normal(3, dtype=rl.complex64))


@pytest.mark.parametrize("make", [normal, variable])
def test_d3_reals_as_complex_numbers(make):
    def function(x):
        y = x * 2
        rl.view_as_complex(y).mul_(1j)
        return y

    agrees(function, make(3, 2))


def as_integers(y):
    y = y * 1
    y.view(rl.int32).fill_(0)
    return y


def argument_as_integers(y):
    y.view(rl.int32)[1:].fill_(7)
    return y + 1


def halves_of_a_part(y):
    y[1:].view(rl.int16)[1::2].fill_(7)
    return y.view(rl.int32)


def transposed_bytes(y):
    z = (y + 1).t()
    z.t().view(rl.uint8)[:, ::4].fill_(3)
    return z


@pytest.mark.parametrize("function", [as_integers, argument_as_integers, halves_of_a_part, transposed_bytes])
def test_d3_views_of_another_dtype(function):
    agrees(function, normal(3, 3))


def test_d3_elements_that_cover_several():
    def function(y):
        y[:8].view(rl.int64)[1] = 5
        return y * 1

    agrees(function, lambda: rl.randint(0, 5, (9,), dtype=rl.int16))
    agrees(function, lambda: rl.randint(0, 5, (13,), dtype=rl.int16)[4:])


def state_between(x):
    a = x + rl.rand(3)
    state = rl.get_rng_state()
    b = rl.rand(3)
    return a, state.float().sum(), b


def state_of_a_seed(x):
    rl.manual_seed(5)
    a = x + rl.rand(3)
    return a, rl.get_rng_state()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum() + rl.get_rng_state().sum(),
        lambda x: rl.get_rng_state(),
        state_between,
        state_of_a_seed,
    ],
)
def test_d5_state_of_a_generator_as_data(function):
    agrees(function, normal(3), fullgraph=False)


def test_d5_state_of_one_generator_for_another():
    first, second = rl.Generator().manual_seed(3), rl.Generator().manual_seed(4)

    def function(x):
        second.set_state(first.get_state())
        return x + rl.rand(3, generator=second)

    expected = rl.rand(3, generator=rl.Generator().manual_seed(3))
    with pytest.raises(CaptureError, match="state of a random generator"):
        rl.compile(function, fullgraph=True)(rl.zeros(3))
    assert rl.equal(rl.compile(function)(rl.zeros(3)), expected)


# Programs that are left in the middle.


def test_a7_values_are_laid_out_as_recorded_when_a_program_is_left():
    def function(x, factor):
        row = x.select(1, -1)
        with rl.no_grad():
            x.sub_(x, alpha=0.125)
        return row * factor, row  # a differentiable view of what was written has no place in a graph

    agrees(function, lambda: rl.randn(2, 3).t().detach().requires_grad_(), variable(1), fullgraph=False)


def test_a6_history_from_a_write_into_a_view():
    def part(x, y):
        y[-1] = x

    def other_view(x, y):
        whole = y.unflatten(0, (1, -1))
        y[1:].sub_(x, alpha=2)
        return whole

    for function in (part, other_view):
        for make in (normal(5), lambda: rl.randn(7)[2:]):

            def program(compiled, function=function, make=make):
                rl.manual_seed(0)
                x, y = rl.randn((), requires_grad=True), make()
                found = compiled(function)(x, y)
                yield found, y
                y.sum().backward()
                yield x.grad

            check_agreement(program, fullgraph=False)


# Operators by their ATen names.


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "true_divide"])
def test_d22_two_numbers_in_place_of_tensors(name):
    compiled = rl.compile(lambda a, b: getattr(rl.ops.aten, name)(a, b), fullgraph=True)
    for a, b in ((4, 3.3), (3.3, 4), (7, 2), (6, 2.5), (2.5, 1.5)):
        expected = getattr(torch.ops.aten, name)(a, b)
        for found in (getattr(rl.ops.aten, name)(a, b), compiled(a, b)):
            assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
            assert found.item() == expected.item()


def test_d22_dtypes_and_layouts_by_number():
    for number in (0, 3, 4, 6, 7, 9, 11, 15):
        expected = torch.ops.aten.new_ones(torch.ones(1), [2], dtype=number, layout=0)
        found = rl.ops.aten.new_ones(rl.ones(1), [2], dtype=number, layout=0)
        assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    with pytest.raises(TypeError):
        rl.ones(2, dtype=6)


def test_a6_strides_of_a_tensor_with_gaps():
    def function(x):
        made = rl.empty_strided(x.size(), x.stride())
        made[:] = x + x
        return made

    agrees(function, lambda: rl.randn(16, 16)[:, :8])


def test_a6_write_through_a_view_of_an_argument_with_history():
    def function(x):
        b = x + 1
        x.view(64).copy_(rl.tensor([66.0]))
        return b, x + 2

    def program(compiled):
        rl.manual_seed(0)
        leaf = rl.randn(1, 64, requires_grad=True)
        x = leaf + 1
        found = compiled(function)(x)
        yield found, x
        (found[0].sum() + found[1].sum()).backward()
        yield leaf.grad

    check_agreement(program, fullgraph=False)
