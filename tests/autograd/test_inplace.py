"""Writing in place: leaves, views, bases, versions; torch decides what is allowed and what the gradients are."""

from __future__ import annotations

import pytest

import rushlight as rl

LEAF = "a leaf Variable that requires grad is being used in an in-place operation"
VIEW_OF_LEAF = "a view of a leaf Variable that requires grad is being used in an in-place operation"


def leaf(m, count=4):
    return m.arange(1.0, count + 1).requires_grad_()


GOOD = {
    "write to an intermediate": lambda m, x: (x * 2).mul_(3),
    "write twice": lambda m, x: (x * 2).mul_(3).add_(x),
    "write through a view": lambda m, x: (lambda y: (y[1:3].mul_(5), y)[1])(x * 2),
    "write to the base, read a view": lambda m, x: (lambda y: (lambda v: (y.mul_(3), v * v)[1])(y[:2]))(x * 2),
    "write through one view, read another": lambda m, x: (
        lambda y: (lambda v, u: (v.mul_(3), u * u)[1])(y[:3], y[1:]))(x * 2),
    "view of a view": lambda m, x: (lambda y: (y.view(2, 2)[0].mul_(4), y)[1])(x * 2),
    "transposed view": lambda m, x: (lambda y: (y.view(2, 2).t()[0].mul_(y.detach()[0] + 1), y)[1])(x * 2),
    "base without history": lambda m, x: (lambda a: (a[1:].add_(x[1:]), a * a)[1])(m.zeros(4)),
    "base without history, other view": lambda m, x: (
        lambda a: (lambda v, u: (v.add_(x[:2]), u * 3)[1])(a[:2], a[1:3]))(m.zeros(4)),
    "setitem": lambda m, x: _set(x * 2, slice(1, 3), x[:2] * 7),
    "setitem with a number": lambda m, x: _set(x * 2, 0, 7.0),
    "copy_": lambda m, x: m.zeros(4).copy_(x),
    "zero_": lambda m, x: (x * 2).zero_() + x,
    "fill_": lambda m, x: (x * 2).fill_(3.0) * x,
    "pow_ needs the former value": lambda m, x: (x * 2).pow_(3),
    "mul_ needs the former value for the other factor": lambda m, x: (x.detach() * 2).mul_(x),
    "sigmoid_ needs its result": lambda m, x: (x * 0.1).sigmoid_(),
    "squeeze_ and t_": lambda m, x: (x * 2).view(2, 2).clone().t_().unsqueeze_(0),
    "detached alias": lambda m, x: (lambda y: (y.detach().mul_(3), y * 2)[1])(x * 2),
}


def _set(tensor, index, value):
    tensor[index] = value
    return tensor


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
        g, = m.autograd.grad((y * y).sum(), x, create_graph=True)
        return g, m.autograd.grad((g * g).sum(), x)
    same(scenario)


BAD = {
    "leaf": (lambda m, x: x.mul_(2), LEAF),
    "view of a leaf": (lambda m, x: x[:2].mul_(2), VIEW_OF_LEAF),
    "setitem on a leaf": (lambda m, x: _set(x, 0, 1.0), VIEW_OF_LEAF),
    "several views": (lambda m, x: (x * 2).split(2)[0].mul_(2), "Output 0 of Split"),
    "view of one of several": (lambda m, x: (x * 2).split(2)[0][:1].mul_(2), "returns multiple views"),
    "written base of several views": (lambda m, x: (lambda y: (lambda v: (y.mul_(2), v.sum())[1])(y.unbind(0)[0]))(x * 2),
                                      "returns multiple views"),
    "view made without grad": (lambda m, x: _no_grad_view(m, x * 2).mul_(2), "created in no_grad mode"),
    "view made without grad of a plain base": (lambda m, x: _no_grad_view(m, m.zeros(4)).mul_(x[:2]),
                                               "created in no_grad mode"),
    "saved input": (lambda m, x: (lambda y: (y * y, y.add_(1))[0].sum().backward())(x * 2), "is at version 1"),
    "saved result": (lambda m, x: (lambda y: (y.sigmoid(), y)[0])(x * 2).mul_(2).sum().backward(), "is at version 1"),
    "saved through a detached alias": (lambda m, x: (lambda y: (y * y, y.detach().add_(1))[0].sum().backward())(x * 2),
                                       "is at version 1"),
    "saved, then base written": (lambda m, x: (lambda y: (y[:2] * y[2:], y.add_(1))[0].sum().backward())(x * 2),
                                 "is at version 1"),
    "expanded": (lambda m, x: (x[:1] * 2).expand(4).mul_(x), "more than one element"),
    "inference tensor": (lambda m, x: _inference(m).add_(1), "Inplace update to inference tensor"),
    "saved inference tensor": (lambda m, x: _inference(m) * x, "Inference tensors cannot be saved"),
    "detach_ of a view": (lambda m, x: (x * 2)[:1].detach_(), "detach views in-place"),
}


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
    with pytest.raises(RuntimeError, match=r"output 0 of Add, is at version 2; expected version 0 instead.*MulBackward0"):
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
        return (hidden.requires_grad, hidden.grad_fn is None, hidden.is_leaf, seen.requires_grad, seen.is_leaf, before,
                plain.requires_grad, a.requires_grad, b.requires_grad, b.is_leaf, seen._base is x, seen._is_view(),
                type(plain.grad_fn).__name__)
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
