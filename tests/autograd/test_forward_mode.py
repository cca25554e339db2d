"""Forward mode: dual levels, views, in-place, nesting, and the tangent derived from reverse formulas."""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.func
from rushlight.core.registry import REGISTRY
from rushlight.derivatives.declare import AUTO_TRANSPOSE


def dual(m, values, tangents):
    return m.autograd.forward_ad.make_dual(m.tensor(values), m.tensor(tangents))


def unpack(m, tensor):
    return list(m.autograd.forward_ad.unpack_dual(tensor))


def _written(target, value):
    target[:1].mul_(value[1:])
    return target


FUNCTIONS = {
    "product": lambda m, x, y: x * y + x,
    "one dual factor": lambda m, x, y: x * m.tensor([5.0, 7.0]),
    "broadcast": lambda m, x, y: (x.unsqueeze(0) + y.unsqueeze(1)).sum(0),
    "matmul": lambda m, x, y: x.unsqueeze(0) @ y.unsqueeze(1),
    "view": lambda m, x, y: x[1:] * y[:1],
    "constant": lambda m, x, y: m.ones(2) * 3,
    "detached": lambda m, x, y: x.detach() * y,
    "in place": lambda m, x, y: (x * 1).mul_(y),
    "in place on a view": lambda m, x, y: _written(x * 1, y),
    "in place on a view of a plain base": lambda m, x, y: _written(m.ones(2), x),
    "overwritten": lambda m, x, y: (x * 1).zero_() + y,
    "complex": lambda m, x, y: x * m.tensor([1 + 2j, 3 - 1j]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents(same, name):
    def scenario(m):
        with m.autograd.forward_ad.dual_level():
            return unpack(
                m, FUNCTIONS[name](m, dual(m, [1.0, 2.0], [1.0, 0.5]), dual(m, [3.0, -1.0], [0.0, 2.0]))
            )

    same(scenario)


def test_views_share_tangents(same):
    def scenario(m):
        with m.autograd.forward_ad.dual_level():
            x = dual(m, [1.0, 2.0], [1.0, 0.5])
            base = m.zeros(3)
            one, other = base[:2], base[1:]
            early = other * 2
            one.add_(x)
            parts = base.split(1)
            one.mul_(3)
            return [unpack(m, t) for t in (base, one, other, other * x, early, parts[1])]

    same(scenario)


def test_tangents_are_gone_after_the_level(same):
    def scenario(m):
        forward_ad = m.autograd.forward_ad
        with forward_ad.dual_level():
            x = dual(m, [1.0], [1.0])
        return forward_ad.unpack_dual(x).tangent is None

    same(scenario)


def test_a_closed_level_is_not_confused_with_a_new_one():
    forward_ad = rl.autograd.forward_ad
    with forward_ad.dual_level():
        x = dual(rl, [1.0], [1.0])
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(x * x).tangent is None


@pytest.mark.parametrize("name", ["no level", "shape", "dtype", "integer", "wrong exit"])
def test_refusals(same, name):
    def scenario(m):
        forward_ad = m.autograd.forward_ad
        if name == "no level":
            dual(m, [1.0], [1.0])
            return
        if name == "wrong exit":
            forward_ad.exit_dual_level()
            return
        with forward_ad.dual_level():
            forward_ad.make_dual(
                m.tensor([1]) if name == "integer" else m.ones(2),
                {"shape": m.ones(3), "dtype": m.ones(2, dtype=m.float64)}.get(name, m.ones(2)),
            )

    same(scenario)


def test_forward_over_reverse(same):
    def scenario(m):
        forward_ad = m.autograd.forward_ad
        with forward_ad.dual_level():
            x = forward_ad.make_dual(m.tensor([1.0, 2.0], requires_grad=True), m.tensor([1.0, 0.5]))
            (g,) = m.autograd.grad((x * x * x).sum(), x, create_graph=True)
            return unpack(m, g)

    same(scenario)


def test_reverse_over_forward(same):
    def scenario(m):
        forward_ad = m.autograd.forward_ad
        x = m.tensor([1.0, 2.0], requires_grad=True)
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, m.tensor([1.0, 0.5]))
            tangent = forward_ad.unpack_dual((y * y * y).exp()).tangent
        return m.autograd.grad(tangent.sum(), x)

    same(scenario)


def test_nested_levels():
    forward_ad = rl.autograd.forward_ad
    with forward_ad.dual_level():
        x = dual(rl, [2.0], [1.0])
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, rl.tensor([1.0]))
            z = y * y * y
            inner = forward_ad.unpack_dual(z).tangent
            assert inner.tolist() == [12.0]
            assert forward_ad.unpack_dual(inner, level=0).tangent.tolist() == [12.0]
        assert forward_ad.unpack_dual(inner).tangent.tolist() == [12.0]


def test_forward_mode_can_be_left_out(same):
    def scenario(m):
        with m.autograd.forward_ad.dual_level():
            x = dual(m, [1.0], [1.0])
            with m.no_grad():
                return unpack(m, x * x)  # forward mode is no business of no_grad

    same(scenario)


def derived():
    """Operators whose tangent is derived by transposing, and arguments to try them on."""
    return [
        op.name
        for op in REGISTRY
        if op.derivative is not None and op.derivative.forward is AUTO_TRANSPOSE and op.derivative.targets
    ]


@pytest.mark.skipif("sigmoid" not in REGISTRY, reason="the operator is needed")
def test_transposed_formulas(same):
    """The rule used where no forward formula is given agrees with the ones that are."""
    entry = REGISTRY["mul.Tensor"].derivative
    saved, entry.forward = entry.forward, AUTO_TRANSPOSE
    try:

        def scenario(m):
            f = m.func
            x, y = m.tensor([[1.0, 2.0], [3.0, 4.0]]), m.tensor([0.5, -1.0])
            one = f.jvp(lambda a, b: a * b * a, (x, y), (x * x, y + 1))
            two = f.jvp(lambda a: f.jvp(lambda b: b * b * a, (a,), (a * 2,))[1], (x,), (x,))
            return one, two, f.hessian(lambda a: (a * a * a).sum())(y), f.vmap(f.jacfwd(lambda a: a * a))(x)

        same(scenario)
    finally:
        entry.forward = saved


COPIES = {
    "plus a number": lambda m, x: x + 1,
    "minus a constant": lambda m, x: x - m.ones(2),
    "clone": lambda m, x: x.clone(),
    "cast": lambda m, x: x.to(m.float32, copy=True),
    "where": lambda m, x: m.where(m.tensor([True, True]), x, 0.0),
}


@pytest.mark.parametrize("name", COPIES)
def test_no_tangent_is_shared_with_that_of_an_argument(same, name):
    """Writing to the result, or to the tangent that a user took from it, leaves the argument's as it was."""

    def scenario(m):
        forward_ad = m.autograd.forward_ad
        with forward_ad.dual_level():
            given = m.tensor([1.0, 0.5])
            x = forward_ad.make_dual(m.tensor([1.0, 2.0]), given)
            y = COPIES[name](m, x)
            y.mul_(2)
            z = COPIES[name](m, x)
            forward_ad.unpack_dual(z).tangent.mul_(3)
            return unpack(m, x), unpack(m, y), unpack(m, z), given

    same(scenario)


def test_views_of_a_base_whose_tangent_is_laid_out_otherwise(same):
    """The tangent of `base` is not contiguous where it is, and a view of it is made again from that."""

    def scenario(m):
        forward_ad = m.autograd.forward_ad
        with forward_ad.dual_level():
            x = forward_ad.make_dual(m.ones(3, 2), m.arange(6.0).reshape(3, 2))
            base = m.ones(2, 3) * x.t()
            flat = base.view(6)
            base.mul_(x.t())
            return unpack(m, flat), unpack(m, flat * 2)

    same(scenario)


def test_gradient_of_view_as_real_at_an_odd_offset():
    """A gradient that starts between two pairs in memory is copied, not refused."""
    x = rl.tensor([1 + 2j, 3 - 1j], dtype=rl.complex128, requires_grad=True)
    y = rl.cat([rl.ones(1, dtype=rl.float64), rl.view_as_real(x).reshape(-1)])
    (y * rl.arange(5.0, dtype=rl.float64)).sum().backward()
    assert x.grad.tolist() == [1 + 2j, 3 + 4j]
