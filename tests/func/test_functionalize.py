"""functionalize: no operator below it writes, values and writes to arguments are those of the function itself."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode as TorchMode

import rushlight as rl
import rushlight.func
from rushlight.utils._python_dispatch import TorchDispatchMode as Mode


def start(m):
    return m.arange(8.0)


PROGRAMS = {
    "argument": lambda m, x: x.mul_(2).add_(1),
    "view of an argument": lambda m, x: _last(x.view(4, 2)[0].add_(m.ones(2)), x),
    "several views": lambda m, x: _last(x[2:].mul_(3), x.view(2, 4)[:, 1].fill_(7.0), x),
    "view made before the write": lambda m, x: [x.view(2, 4), x.add_(1)],
    "split": lambda m, x: _last([a.add_(b) for a, b in [x.split(4)]], x),
    "split with sizes": lambda m, x: _last(x.split([3, 5])[1].zero_(), x),
    "unbind": lambda m, x: _last(x.unbind(0)[2].fill_(7.0), x),
    "diagonal": lambda m, x: _last(x.view(2, 4).diagonal(1).zero_(), x),
    "transposed": lambda m, x: _last(x.view(2, 4).t()[1].mul_(5), x.view(2, 4).transpose(0, 1)[0].add_(1), x),
    "permuted": lambda m, x: _last(x.view(2, 2, 2).permute(2, 0, 1)[1].mul_(3), x),
    "squeezed": lambda m, x: _last(x.unsqueeze(0).squeeze(0).unsqueeze(1).squeeze()[3].mul_(9), x),
    "strided": lambda m, x: _last(x.as_strided((2, 2), (4, 1), 1).mul_(2), x),
    "expanded": lambda m, x: _last(x.expand(1, 8).mul_(2), x),
    "other dtype": lambda m, x: _last(x.view(m.int32).add_(1), x),
    "complex": lambda m, x: _last(
        m.view_as_complex(x.view(4, 2)).mul_(1j), m.view_as_real(x * 1j)[:, 1].zero_(), x
    ),
    "conjugate": lambda m, x: _conjugate(m, x),
    "imaginary": lambda m, x: _imaginary(x * 1j),
    "shape in place": lambda m, x: [x.view(2, 4).t_().mul_(2), x],
    "made inside": lambda m, x: _last(m.zeros(8).copy_(x).mul_(2)),
    "cast": lambda m, x: m.zeros(8, dtype=m.int64).copy_(x * 1.5),
    "index": lambda m, x: _indexed(m, x),
    "out": lambda m, x: _last(m.add(x, 1, out=x), x),
    "resized": lambda m, x: _last([y := x + 1, y[:4], y.resize_(2, 3)[1].zero_()], [y]),
    "resized to grow": lambda m, x: m.empty(0).resize_(2, 3).fill_(2),
    "out resized": lambda m, x: m.add(x, x, out=m.empty(0)),
    "random": lambda m, x: m.rand(3).zero_(),
    "batch norm": lambda m, x: _batch_norm(m, x),
    "data-dependent": lambda m, x: x.add_(1) if x.sum().item() > 3 else x,
    "returned twice": lambda m, x: [x.add_(1), x, x[1:]],
    "no tensor": lambda m, x: None,
}


def _last(*values):
    return values[-1]


def _conjugate(m, x):
    z = x * (1 + 2j)
    z.conj().add_(1 + 2j)
    return z


def _imaginary(z):
    z.imag.mul_(2)
    return z


def _indexed(m, x):
    x[m.tensor([1, 3])] = 5.0
    x[x > 5] = 0.0
    x[:4] += x[4:]
    return x


def _batch_norm(m, x):
    mean, variance = m.zeros(2), m.ones(2)
    out = m.nn.functional.batch_norm(x.view(4, 2), mean, variance, training=True)
    return [out, mean, variance]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_the_function(same, name, remove):
    def scenario(m):
        x, plain = start(m), start(m)
        found = m.func.functionalize(lambda x: PROGRAMS[name](m, x), remove=remove)(x)
        if m is rl:
            expected = PROGRAMS[name](m, plain)
            assert _lists(found) == _lists(expected)
            assert x.tolist() == plain.tolist()
        return found, x

    same(scenario)


def test_writes_through_overlapping_views_are_kept():
    def function(x):
        x.unfold(0, 2, 4).mul_(2)  # torch's own puts zeros where nothing was written
        return x + 0

    x = start(rl)
    assert rl.func.functionalize(function)(x).tolist() == x.tolist() == [0, 2, 2, 3, 8, 10, 6, 7]


def _lists(tree):
    return [_lists(t) for t in tree] if isinstance(tree, list) else tree if tree is None else tree.tolist()


def operators(m, mode, remove, function):
    """The names of the operators that a mode sees of a functionalized call, up to the first write."""
    seen = []

    class Log(mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = start(m)
    with Log():
        m.func.functionalize(function, remove=remove)(x)
    return seen


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - {"random"}))
def test_nothing_below_writes_but_the_end(name):
    seen = operators(rl, Mode, "mutations", lambda x: PROGRAMS[name](rl, x))
    written = [n for n in seen if n.split(".")[1].endswith("_") and not n.split(".")[1].endswith("__")]
    assert written in ([], ["aten.copy_.default"])
    assert not any("out" in n.split(".")[2:] for n in seen)


def test_operators_are_those_of_torch():
    def function(x):
        y = x.view(4, 2)
        y[0].add_(1)
        return y.t().mul(2)

    expected = operators(torch, TorchMode, "mutations", function)
    seen = operators(rl, Mode, "mutations", function)
    assert (
        seen[:6]
        == expected[:6]
        == [
            f"aten.{n}"
            for n in (
                "view.default",
                "select.int",
                "add.Tensor",
                "view.default",
                "select_scatter.default",
                "view.default",
            )
        ]
    )


COMPOSED = {
    "vmap of functionalize": lambda f, g, x: f.vmap(f.functionalize(g))(x),
    "functionalize of vmap": lambda f, g, x: f.functionalize(f.vmap(g))(x),
    "functionalize of grad": lambda f, g, x: f.functionalize(f.grad(lambda v: g(v).sum()))(x),
    "grad of functionalize": lambda f, g, x: f.grad(lambda v: f.functionalize(g)(v).sum())(x),
    "functionalize of vmap of grad": lambda f, g, x: f.functionalize(f.vmap(f.grad(g)))(x),
    "functionalize of jvp": lambda f, g, x: f.functionalize(lambda v: f.jvp(g, (v,), (v,))[1])(x),
    "jvp of functionalize": lambda f, g, x: f.jvp(f.functionalize(g), (x,), (x,)),
    "hessian of functionalize": lambda f, g, x: f.hessian(lambda v: f.functionalize(g)(v).sum())(x[:2]),
}


def cube(x):
    y = x.clone()
    y.view(-1).mul_(x.reshape(-1))
    return y.mul_(x)


@pytest.mark.parametrize("name", COMPOSED)
def test_composition(same, name):
    same(lambda m: COMPOSED[name](m.func, cube, start(m)))


def test_composition_that_torch_lacks():
    f, x = rl.func, start(rl)
    assert f.vmap(f.functionalize(f.grad(cube)))(x).tolist() == (3 * x * x).tolist()
    assert f.functionalize(f.functionalize(cube))(x).tolist() == (x**3).tolist()


def test_history_of_arguments_is_recorded(same):
    def scenario(m):
        w = start(m).requires_grad_()
        out = m.func.functionalize(lambda v: v.clone().mul_(v))(w)
        return out.requires_grad, m.autograd.grad(out.sum(), w)

    same(scenario)


def test_copies_share_no_memory_with_arguments():
    x = start(rl)
    viewed = rl.func.functionalize(lambda v: v.view(2, 4)[0])(x)
    copied = rl.func.functionalize(lambda v: v.view(2, 4)[0], remove="mutations_and_views")(x)
    x.add_(1)
    assert viewed.tolist() == [1, 2, 3, 4]
    assert copied.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_compiled(remove):
    def function(x):
        y = x.clone()
        y.view(2, 4)[0].mul_(2)
        x.add_(rl.zeros(8).add_(1))
        return y

    compiled = rl.compile(rl.func.functionalize(function, remove=remove), fullgraph=True)
    for _ in range(2):
        x, other = start(rl), start(rl)
        assert compiled(x).tolist() == function(other).tolist()
        assert x.tolist() == other.tolist()


REFUSED = {
    "remove": lambda m, f: f.functionalize(lambda x: x, remove="views"),
    "captured": lambda m, f, y=None: f.functionalize(lambda x, y=start(m): y.copy_(x))(start(m)),
    "leaf": lambda m, f: f.functionalize(lambda x: x.add_(1))(start(m).requires_grad_()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(same, name):
    same(lambda m: REFUSED[name](m, m.func))


def test_captured_tensors_are_written_by_what_is_captured(same):
    def scenario(m):
        y = start(m)
        m.func.functionalize(lambda x: y.add_(1) * x)(start(m))
        return y

    same(scenario)


def test_resizing_of_others_is_refused():
    x = rl.ones(3, 2)
    for function in (rl.func.vmap(lambda v: v.resize_(1)), rl.func.functionalize(lambda v: v.resize_(2))):
        with pytest.raises(RuntimeError, match="in place"):
            function(x)
    with pytest.raises(RuntimeError, match="larger in place"):
        rl.func.functionalize(lambda v: (v + 1).resize_(9))(x)
    assert x.shape == (3, 2)


def test_what_is_shown():
    shown = []
    for m in (rl, torch):
        m.func.functionalize(lambda x: shown.append(repr(x)))(m.ones(2))
    assert shown[0] == shown[1]


def test_modes_are_restored_after_an_error():
    with pytest.raises(ZeroDivisionError):
        rl.func.functionalize(lambda x: 1 / 0)(rl.ones(2))
    assert type(rl.ones(2)) is rl.Tensor
    assert type(rl.ones(2).add_(1)) is rl.Tensor
