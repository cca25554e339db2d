"""Writing in place: leaves, views, bases, versions; torch decides what is allowed and what gradients are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def leaf(m, count=4):
    return m.arange(1.0, count + 1).requires_grad_()


Scenario = Callable[[Any, Any], Any]
GOOD: dict[str, Scenario] = {}
BAD: dict[str, tuple[Scenario, str]] = {}


def good(function):
    """A write that is allowed; returns what is differentiated."""
    GOOD[function.__name__] = function
    return function


def bad(message):
    """A write that is refused, at once or in backward."""

    def register(function):
        BAD[function.__name__] = (function, message)
        return function

    return register


@good
def write_to_an_intermediate(m, x):
    return (x * 2).mul_(3)


@good
def write_twice(m, x):
    return (x * 2).mul_(3).add_(x)


@good
def write_through_a_view(m, x):
    y = x * 2
    y[1:3].mul_(5)
    return y


@good
def write_to_the_base_and_read_a_view(m, x):
    y = x * 2
    view = y[:2]
    y.mul_(3)
    return view * view


@good
def write_through_one_view_and_read_another(m, x):
    y = x * 2
    one, other = y[:3], y[1:]
    one.mul_(3)
    return other * other


@good
def write_through_a_view_of_a_view(m, x):
    y = x * 2
    y.view(2, 2)[0].mul_(4)
    return y


@good
def write_through_a_transposed_view(m, x):
    y = x * 2
    y.view(2, 2).t()[0].mul_(y.detach()[0] + 1)
    return y


@good
def write_history_into_a_plain_base(m, x):
    base = m.zeros(4)
    base[1:].add_(x[1:])
    return base * base


@good
def write_history_into_a_plain_base_and_read_another_view(m, x):
    base = m.zeros(4)
    one, other = base[:2], base[1:3]
    one.add_(x[:2])
    return other * 3


@good
def assign_a_slice(m, x):
    y = x * 2
    y[1:3] = x[:2] * 7
    return y


@good
def assign_a_number(m, x):
    y = x * 2
    y[0] = 7.0
    return y


@good
def copy_(m, x):
    return m.zeros(4).copy_(x)


@good
def zero_(m, x):
    return (x * 2).zero_() + x


@good
def fill_(m, x):
    return (x * 2).fill_(3.0) * x


@good
def pow_needs_the_former_value(m, x):
    return (x * 2).pow_(3)


@good
def mul_needs_the_former_value_for_the_other_factor(m, x):
    return (x.detach() * 2).mul_(x)


@good
def sigmoid_needs_its_result(m, x):
    return (x * 0.1).sigmoid_()


@good
def change_the_geometry(m, x):
    return (x * 2).view(2, 2).clone().t_().unsqueeze_(0)


@good
def write_through_a_detached_alias(m, x):
    y = x * 2
    y.detach().mul_(3)
    return y * 2


@pytest.mark.parametrize("name", GOOD)
def test_gradients(same, name):
    def scenario(m):
        x = leaf(m)
        y = GOOD[name](m, x)
        weights = m.arange(1.0, y.numel() + 1).reshape(y.shape)
        (y * weights).sum().backward()
        return y, x.grad

    same(scenario)


@pytest.mark.parametrize("name", GOOD)
def test_second_derivatives(same, name):
    def scenario(m):
        x = leaf(m)
        y = GOOD[name](m, x * x)
        (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
        return g, m.autograd.grad((g * g).sum(), x)

    same(scenario)


@bad(LEAF)
def leaf_itself(m, x):
    x.mul_(2)


@bad(VIEW_OF_LEAF)
def view_of_a_leaf(m, x):
    x[:2].mul_(2)


@bad(VIEW_OF_LEAF)
def assignment_to_a_leaf(m, x):
    x[0] = 1.0


@bad("Output 0 of Split")
def one_of_several_views(m, x):
    (x * 2).split(2)[0].mul_(2)


@bad("returns multiple views")
def view_of_one_of_several(m, x):
    (x * 2).split(2)[0][:1].mul_(2)


@bad("returns multiple views")
def written_base_of_several_views(m, x):
    y = x * 2
    one = y.unbind(0)[0]
    y.mul_(2)
    one.sum()


@bad("created in no_grad mode")
def view_made_without_grad(m, x):
    _no_grad_view(m, x * 2).mul_(2)


@bad("created in no_grad mode")
def view_of_a_plain_base_made_without_grad(m, x):
    _no_grad_view(m, m.zeros(4)).mul_(x[:2])


@bad("is at version 1")
def saved_input(m, x):
    y = x * 2
    z = y * y
    y.add_(1)
    z.sum().backward()


@bad("is at version 1")
def saved_result(m, x):
    y = (x * 2).sigmoid()
    y.mul_(2)
    y.sum().backward()


@bad("is at version 1")
def saved_and_written_through_a_detached_alias(m, x):
    y = x * 2
    z = y * y
    y.detach().add_(1)
    z.sum().backward()


@bad("is at version 1")
def saved_views_of_a_written_base(m, x):
    y = x * 2
    z = y[:2] * y[2:]
    y.add_(1)
    z.sum().backward()


@bad("more than one element")
def expanded(m, x):
    (x[:1] * 2).expand(4).mul_(x)


@bad("Inplace update to inference tensor")
def inference_tensor(m, x):
    _inference(m).add_(1)


@bad("Inference tensors cannot be saved")
def saved_inference_tensor(m, x):
    _inference(m) * x


@bad("detach views in-place")
def detach_of_a_view(m, x):
    (x * 2)[:1].detach_()


def _no_grad_view(m, tensor):
    with m.no_grad():
        return tensor[:2]


def _inference(m):
    with m.inference_mode():
        return m.ones(4)


@pytest.mark.parametrize("name", BAD)
def test_refusals(same, name):
    scenario, message = BAD[name]
    same(lambda m: scenario(m, leaf(m)), message=message)


def test_message_of_a_version_mismatch():
    x = rl.ones(3, requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"of Add, is at version 2; expected version 0.*MulBackward0"):
        z.sum().backward()


def test_versions(same):
    def scenario(m):
        x = m.zeros(4)
        v, d, data = x[:2], x.detach(), x.data
        counts = [x._version]
        v.add_(1)
        counts.append((x._version, v._version, d._version, data._version))
        data.add_(1)
        counts.append((x._version, data._version))
        with m.no_grad():
            x.zero_()
        counts.append(x._version)
        return counts

    same(scenario)


def test_flags_of_views(same):
    def scenario(m):
        x = leaf(m)
        with m.no_grad():
            hidden = x[:2]
        seen = x[:2]
        plain = m.zeros(4)
        a, b = plain[:2], plain[2:]
        before = a.requires_grad, b.requires_grad
        a.add_(x[:2])
        return (
            hidden.requires_grad,
            hidden.grad_fn is None,
            hidden.is_leaf,
            seen.requires_grad,
            seen.is_leaf,
            before,
            plain.requires_grad,
            a.requires_grad,
            b.requires_grad,
            b.is_leaf,
            seen._base is x,
            seen._is_view(),
            type(plain.grad_fn).__name__,
        )

    same(scenario)


def test_write_without_grad_keeps_history(same):
    def scenario(m):
        x = leaf(m)
        y = x * 2
        with m.no_grad():
            y.mul_(3)
        y.sum().backward()
        return y, x.grad

    same(scenario)


def test_retain_grad_follows_a_write(same):
    def scenario(m):
        x = leaf(m)
        y = x * 3
        y.retain_grad()
        y.mul_(2)
        y.sum().backward()
        return x.grad, y.grad, y.retains_grad

    same(scenario)


def test_nothing_is_written_when_a_write_is_refused():
    x = rl.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError):
        x.mul_(2)
    assert x.tolist() == [1.0] * 3
    assert x._version == 0
