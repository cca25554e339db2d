"""Declaring derivatives: names are checked at once, and say what is in scope."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.core.errors import RegistrationError
from rushlight.core.registry import REGISTRY
from rushlight.derivatives.declare import AUTO_ELEMENTWISE, AUTO_LINEAR, NOT_DIFFERENTIABLE, derivative


@pytest.fixture
def undeclared():
    """Operators without a derivative, for a while."""
    names = ("mul.Tensor", "mul.Scalar", "sum.dim_IntList", "cat", "sort.stable", "split_with_sizes")
    saved = {name: REGISTRY[name].derivative for name in names}
    for name in names:
        REGISTRY[name].derivative = None
    yield
    for name, entry in saved.items():
        REGISTRY[name].derivative = entry


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: derivative("mull.Tensor", self=lambda grad: grad),
            r"test_declare.py:\d+: there is no operator mull.Tensor",
        ),
        (
            lambda: derivative("mul.Tensor", self=lambda grad, othr: grad * othr),
            r"test_declare.py:\d+: the derivative of mul.Tensor asks for othr; in scope are grad, grads, needs",
        ),
        (
            lambda: derivative("mul.Tensor", selff=lambda grad: grad),
            "has no tensor argument selff; its tensor arguments are self, other",
        ),
        (
            lambda: derivative("mul.Tensor", self=lambda grad: grad, result=lambda self_t, x_t: self_t),
            "asks for x_t",
        ),
        (lambda: derivative("mul.Tensor", self=lambda grad1: grad1), "asks for grad1"),
        (lambda: derivative("mul.Tensor", self=lambda grad, alpha_shape: grad), "asks for alpha_shape"),
        (lambda: derivative("mul.Tensor"), "no formula; say NOT_DIFFERENTIABLE"),
        (lambda: derivative("mul.Tensor", NOT_DIFFERENTIABLE, self=lambda grad: grad), "has no formulas"),
        (
            lambda: derivative(
                "mul.Tensor", ("self", "other"), lambda grad: (grad, grad), other=lambda grad: grad
            ),
            "two formulas for other",
        ),
        (
            lambda: derivative(
                "mul.Tensor", ("self", "other"), lambda grad: (grad, grad), result=AUTO_ELEMENTWISE
            ),
            "one reverse formula per argument",
        ),
        (
            lambda: derivative(["mul.Tensor", "mul.Scalar"], ("self", "other"), lambda grad: (grad, grad)),
            "lacks other",
        ),
        (lambda: derivative("mul.Tensor", self=3), "must be a function or NOT_DIFFERENTIABLE"),
        (lambda: derivative("mul.Tensor", self=lambda *args: args), r"cannot take \*args"),
        (
            lambda: derivative("sort.stable", self=lambda grad: grad, result3=lambda self_t: self_t),
            "no output result3",
        ),
        (
            lambda: derivative("mul.Tensor", self=NOT_DIFFERENTIABLE, result=AUTO_LINEAR),
            "no differentiable argument",
        ),
    ],
)
def test_mistakes(undeclared, declare, message):
    with pytest.raises(RegistrationError, match=message):
        declare()


def test_twice(undeclared):
    derivative("mul.Tensor", self=lambda grad, other: grad * other, other=lambda grad, self: grad * self)
    with pytest.raises(RegistrationError, match=r"already has a derivative, from .*test_declare.py:\d+"):
        derivative("mul.Tensor", self=lambda grad, other: grad * other)


def test_plans_save_only_what_is_needed(undeclared):
    derivative("mul.Tensor", self=lambda grad, other: grad * other, other=lambda grad, self: grad * self)
    entry = REGISTRY["mul.Tensor"].derivative
    assert [index for _, index, _ in entry.plan(0b01).captures] == [1]
    assert [index for _, index, _ in entry.plan(0b10).captures] == [0]
    assert len(entry.plan(0b11).captures) == 2


def test_shapes_save_no_tensor(undeclared):
    derivative("sum.dim_IntList", self=lambda grad, self_shape: grad.expand(self_shape))
    assert not REGISTRY["sum.dim_IntList"].derivative.plan(1).saves_tensors


def test_numbers_of_overloads_count_as_tensors(undeclared):
    derivative(
        ["mul.Tensor", "mul.Scalar"],
        self=lambda grad, other: grad * other,
        other=lambda grad, self: grad * self,
    )
    assert REGISTRY["mul.Scalar"].derivative.targets == (0,)
    assert REGISTRY["mul.Scalar"].derivative.node_name == REGISTRY["mul.Tensor"].derivative.node_name


def test_facts_of_a_list_of_outputs(undeclared):
    """`results_shape`, or `result_shape`, of an operator that returns a list is a tuple; no tensor is saved."""
    seen = []

    def backward(grads, self_shape, results_shape, result_dtype, dim):
        seen.append((results_shape, result_dtype))
        made = [
            rl.zeros(shape, dtype=dtype) if grad is None else grad
            for grad, shape, dtype in zip(grads, results_shape, result_dtype, strict=True)
        ]
        return rl.cat(made, dim)

    derivative("split_with_sizes", self=backward)
    x = rl.arange(6.0).reshape(2, 3).requires_grad_()
    parts = x.split([1, 2], 1)
    parts[1].sum().backward()
    assert seen == [(((2, 1), (2, 2)), (rl.float32, rl.float32))]
    assert x.grad.tolist() == [[0, 1, 1], [0, 1, 1]]
    assert not REGISTRY["split_with_sizes"].derivative.plan(1).saves_tensors
