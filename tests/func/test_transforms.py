"""grad, vjp, jvp, jacrev, jacfwd, hessian, linearize: values, structures, composition, refusals."""

from __future__ import annotations

import warnings

import pytest

import rushlight as rl
import rushlight.func


def point(m):
    return m.tensor([0.5, -1.0, 2.0])


def matrix(m):
    return m.tensor([[0.1, 0.4, -0.3, 0.2], [0.5, -0.2, 0.3, 0.1], [-0.4, 0.2, 0.6, -0.1]])


def batch(m):
    return m.tensor([[0.5, -1.0, 2.0], [1.0, 0.3, -0.7]])


def curve(m, x):
    return ((x @ matrix(m)) * (x @ matrix(m))).sigmoid()


SCENARIOS = {
    "grad": lambda m, f: f.grad(lambda x: curve(m, x).sum())(point(m)),
    "grad twice": lambda m, f: f.grad(lambda x: f.grad(lambda y: curve(m, y).sum())(x).sum())(point(m)),
    "grad three times": lambda m, f: f.grad(_sum(f.grad(_sum(f.grad(lambda z: (z**4).sum())))))(point(m)),
    "grad by several": lambda m, f: f.grad(lambda x, w: (x @ w).sum(), argnums=(1, 0))(point(m), matrix(m)),
    "grad by a tuple of one": lambda m, f: f.grad(lambda x: (x * x).sum(), argnums=(0,))(point(m)),
    "grad of a dictionary": lambda m, f: f.grad(lambda p: (p["w"] * p["b"]).sum())(
        {"w": point(m), "b": point(m) * 2}
    ),
    "grad with aux": lambda m, f: f.grad(lambda x: ((x * x).sum(), {"twice": x * 2}), has_aux=True)(point(m)),
    "grad and value": lambda m, f: f.grad_and_value(lambda x: curve(m, x).sum())(point(m)),
    "grad and value with aux": lambda m, f: f.grad_and_value(lambda x: ((x * x).sum(), x), has_aux=True)(
        point(m)
    ),
    "grad of a constant": lambda m, f: f.grad(lambda x: m.tensor(3.0))(point(m)),
    "grad with keywords": lambda m, f: f.grad(lambda x, *, k: (x * k).sum())(point(m), k=3.0),
    "perturbations are kept apart": lambda m, f: f.grad(
        lambda x: (x * f.grad(lambda y: (x.sum() * y).sum())(x)).sum()
    )(point(m)),
    "vjp": lambda m, f: _apply(*f.vjp(lambda x: curve(m, x), point(m)), m.ones(4)),
    "vjp of several": lambda m, f: _apply(
        *f.vjp(lambda x, y: (x * y, {"sum": x.sum()}), point(m), point(m) * 2),
        (point(m), {"sum": m.tensor(2.0)}),
    ),
    "vjp with aux": lambda m, f: f.vjp(lambda x: (x * 2, x + 1), point(m), has_aux=True)[2],
    "vjp of vjp": lambda m, f: f.vjp(lambda x: f.vjp(lambda y: y * y * y, x)[1](x)[0], point(m))[1](point(m)),
    "jvp": lambda m, f: f.jvp(lambda x: curve(m, x), (point(m),), (point(m) * 2,)),
    "jvp of several": lambda m, f: f.jvp(
        lambda x, y: (x * y, [x]), (point(m), point(m)), (point(m), point(m) * 3)
    ),
    "jvp of a constant": lambda m, f: f.jvp(lambda x: m.ones(2), (point(m),), (point(m),)),
    "jvp with aux": lambda m, f: f.jvp(lambda x: (x * x, x), (point(m),), (point(m),), has_aux=True),
    "jvp of jvp": lambda m, f: f.jvp(
        lambda x: f.jvp(lambda y: curve(m, y) * x.sum(), (x,), (x * 2,))[1], (point(m),), (point(m) * 3,)
    ),
    "jvp of jvp, kept apart": lambda m, f: f.jvp(
        lambda x: x * f.jvp(lambda y: x * y, (x,), (m.ones(3),))[1], (point(m),), (m.ones(3),)
    ),
    "jvp of grad": lambda m, f: f.jvp(f.grad(lambda x: curve(m, x).sum()), (point(m),), (point(m),)),
    "grad of jvp": lambda m, f: f.grad(lambda x: f.jvp(lambda y: curve(m, y), (x,), (x * x,))[1].sum())(
        point(m)
    ),
    "jacrev": lambda m, f: f.jacrev(lambda x: curve(m, x))(point(m)),
    "jacrev in chunks": lambda m, f: f.jacrev(lambda x: curve(m, x), chunk_size=3)(point(m)),
    "jacrev of trees": lambda m, f: f.jacrev(lambda x, p: {"a": x * p["w"], "b": x.sum()}, argnums=(0, 1))(
        point(m), {"w": point(m) * 2}
    ),
    "jacrev with aux": lambda m, f: f.jacrev(lambda x: (x * x, x + 1), has_aux=True)(point(m)),
    "jacfwd": lambda m, f: f.jacfwd(lambda x: curve(m, x))(point(m)),
    "jacfwd of trees": lambda m, f: f.jacfwd(lambda x, p: {"a": x * p["w"], "b": x.sum()}, argnums=(1, 0))(
        point(m), {"w": point(m) * 2}
    ),
    "jacfwd with aux": lambda m, f: f.jacfwd(lambda x: (x * x, x.detach() + 1), has_aux=True)(point(m)),
    "jacrev of jacrev": lambda m, f: f.jacrev(f.jacrev(lambda x: curve(m, x)))(point(m)),
    "jacfwd of jacfwd": lambda m, f: f.jacfwd(f.jacfwd(lambda x: curve(m, x)))(point(m)),
    "jacrev of jacfwd of jacrev": lambda m, f: f.jacrev(f.jacfwd(f.jacrev(lambda x: x * x * x)))(point(m)),
    "hessian": lambda m, f: f.hessian(lambda x: curve(m, x).sum())(point(m)),
    "hessian by several": lambda m, f: f.hessian(lambda x, y: (x * x * y).sum(), argnums=(0, 1))(
        point(m), point(m) * 2
    ),
    "linearize": lambda m, f: _apply(*f.linearize(lambda x: curve(m, x), point(m)), point(m) * 2),
    "per-sample gradients": lambda m, f: f.vmap(
        f.grad(lambda w, x: ((x @ w) * (x @ w)).sum()), in_dims=(None, 0)
    )(matrix(m), batch(m)),
    "vmap of hessian": lambda m, f: f.vmap(f.hessian(lambda x: curve(m, x).sum()))(batch(m)),
    "grad of vmap of grad": lambda m, f: f.grad(
        lambda w: f.vmap(f.grad(lambda x: (x @ w).sigmoid().sum()))(batch(m)).sum()
    )(matrix(m)),
    "jacfwd of vmap of grad": lambda m, f: f.jacfwd(
        lambda w: f.vmap(f.grad(lambda x: (x @ w).sigmoid().sum()))(batch(m)).sum(0)
    )(matrix(m)),
    "vmap of vjp of vmap": lambda m, f: f.vmap(
        lambda r: f.vjp(lambda v: f.vmap(lambda e: (e * matrix(m)).sum(1).sigmoid())(v), r)[1](m.ones(3, 3))
    )(batch(m)),
    "vmap of jvp of jvp": lambda m, f: f.vmap(
        lambda r: f.jvp(lambda x: f.jvp(lambda y: y * y * x, (x,), (r,))[1], (r,), (r * 2,))
    )(batch(m)),
    "in place inside": lambda m, f: f.grad(_written)(point(m)),
    "vmap of grad, in place": lambda m, f: f.vmap(f.grad(_written))(batch(m)),
    "jvp, in place": lambda m, f: f.jvp(_written, (point(m),), (point(m) * 2,)),
    "detach inside": lambda m, f: f.grad(lambda x: (x * x.detach()).sum())(point(m)),
    "no_grad inside": lambda m, f: f.grad(lambda x: (x * _without_grad(m, x)).sum())(point(m)),
}


def _sum(function):
    return lambda x: function(x).sum()


def _apply(value, function, *args):
    return value, function(*args)


def _written(x):
    y = x * 2
    y[0] = x[1]
    y[1:].mul_(x[:2])
    return (y * y).sum()


def _without_grad(m, x):
    with m.no_grad():
        return x * x


@pytest.mark.parametrize("name", SCENARIOS)
def test_as_torch(same, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, in linearize
        same(lambda m: SCENARIOS[name](m, m.func))


OUTSIDE = {
    "grad outside of grad": lambda m, f, x, w: m.autograd.grad(
        f.grad(lambda v: (v @ w).sigmoid().sum())(x).sum(), [x, w]
    ),
    "closure": lambda m, f, x, w: m.autograd.grad(
        f.grad(lambda v: (v @ w).sigmoid().sum())(x.detach()).sum(), w
    ),
    "value": lambda m, f, x, w: m.autograd.grad(f.grad_and_value(lambda v: (v @ w).sum())(x.detach())[1], w),
    "vjp": lambda m, f, x, w: m.autograd.grad(
        f.vjp(lambda v: (v @ w).sigmoid(), x)[1](m.ones(4))[0].sum(), [x, w]
    ),
    "cotangent": lambda m, f, x, w: m.autograd.grad(f.vjp(lambda v: v * v, x.detach())[1](x)[0].sum(), x),
    "jvp": lambda m, f, x, w: m.autograd.grad(
        f.jvp(lambda v: (v @ w).sigmoid(), (x,), (x * 2,))[1].sum(), [x, w]
    ),
    "vmap of grad": lambda m, f, x, w: m.autograd.grad(
        f.vmap(f.grad(lambda v: (v @ w).sigmoid().sum()))(m.stack([x, x * 2])).sum(), [x, w]
    ),
    "jacrev": lambda m, f, x, w: m.autograd.grad(f.jacrev(lambda v: (v @ w).sigmoid())(x).sum(), [x, w]),
    "jacfwd": lambda m, f, x, w: m.autograd.grad(f.jacfwd(lambda v: (v @ w).sigmoid())(x).sum(), [x, w]),
    "hessian": lambda m, f, x, w: m.autograd.grad(
        f.hessian(lambda v: (v @ w).sigmoid().sum())(x).sum(), [x, w]
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_history_outside_is_kept(same, name):
    same(lambda m: OUTSIDE[name](m, m.func, point(m).requires_grad_(), matrix(m).requires_grad_()))


@pytest.mark.parametrize(
    "transform", ["grad", "grad_and_value", "vjp", "jvp", "jacrev", "jacfwd", "hessian", "linearize"]
)
def test_results_have_no_history_of_their_own(transform):
    f, x = rl.func, point(rl)
    results = {
        "grad": lambda: [f.grad(lambda v: (v * v).sum())(x)],
        "grad_and_value": lambda: list(f.grad_and_value(lambda v: (v * v).sum())(x)),
        "vjp": lambda: _flat_vjp(*f.vjp(lambda v: v * v, x), x),
        "jvp": lambda: list(f.jvp(lambda v: v * v, (x,), (x,))),
        "jacrev": lambda: [f.jacrev(lambda v: v * v)(x)],
        "jacfwd": lambda: [f.jacfwd(lambda v: v * v)(x)],
        "hessian": lambda: [f.hessian(lambda v: (v * v * v).sum())(x)],
        "linearize": lambda: _flat_linear(*f.linearize(lambda v: v * v, x), x),
    }[transform]()
    assert not any(t.requires_grad for t in results)
    assert not x.requires_grad


def _flat_vjp(value, function, cotangent):
    return [value, *function(cotangent)]


def _flat_linear(value, function, tangent):
    return [value, function(tangent)]


def test_no_grad_outside(same):
    def scenario(m):
        x = point(m).requires_grad_()
        with m.no_grad():
            g = m.func.grad(lambda v: (v * v).sum())(x)
        return g, g.requires_grad

    same(scenario)


@pytest.mark.parametrize(
    "name",
    [
        "not scalar",
        "not a tensor",
        "argnums",
        "repeated",
        "integer",
        "aux",
        "leaf written",
        "cotangent",
        "primals",
        "tangents",
        "chunk",
    ],
)
def test_refusals(same, name):
    def scenario(m):
        f, x = m.func, point(m)
        {
            "not scalar": lambda: f.grad(lambda v: v * 2)(x),
            "not a tensor": lambda: f.grad(lambda v: 3.0)(x),
            "argnums": lambda: f.grad(lambda v: v.sum(), argnums=2)(x),
            "repeated": lambda: f.grad(lambda v: v.sum(), argnums=(0, 0))(x),
            "integer": lambda: f.grad(lambda v: v.sum())(m.tensor([1, 2])),
            "aux": lambda: f.grad(lambda v: v.sum(), has_aux=True)(x),
            "leaf written": lambda: f.grad(lambda v: v.mul_(2).sum())(x),
            "cotangent": lambda: f.vjp(lambda v: v, x)[1]((x, x)),
            "primals": lambda: f.jvp(lambda v: v, x, (x,)),
            "tangents": lambda: f.jvp(lambda v: v, (x,), (x, x)),
            "chunk": lambda: f.jacrev(lambda v: v, chunk_size=0),
        }[name]()

    same(scenario)


def test_deep_composition():
    """Each transform inside each other, three deep, agrees with the polynomial's derivatives."""
    f = rl.func
    x = rl.tensor([0.5, 2.0])

    def derive(how, g):
        if how == "reverse":
            return lambda v: f.grad(lambda u: g(u).sum())(v)
        if how == "forward":
            return lambda v: f.jvp(g, (v,), (rl.ones_like(v),))[1]
        return lambda v: f.vmap(f.grad(lambda u: g(u.unsqueeze(0)).sum()))(v)

    for outer in ("reverse", "forward", "mapped"):
        for middle in ("reverse", "forward", "mapped"):
            for inner in ("reverse", "forward", "mapped"):
                g = derive(outer, derive(middle, derive(inner, lambda v: v * v * v * v)))
                assert g(x).tolist() == pytest.approx([12.0, 48.0]), (outer, middle, inner)
