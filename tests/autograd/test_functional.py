"""autograd.functional: vjp, jvp, vhp, hvp, jacobian, hessian."""

from __future__ import annotations

import pytest


def cases(m):
    f = m.autograd.functional
    x, y = m.tensor([1.0, 2.0]), m.tensor([0.5, -1.0])

    def scalar(a, b):
        return (a * b).exp().sum()

    def vector(a):
        return (a * a).sin()

    def several(a, b):
        return a * b, a.sum()

    return {
        "vjp": lambda: f.vjp(vector, x, y),
        "vjp of several": lambda: f.vjp(several, (x, y), (y, m.tensor(2.0))),
        "jvp": lambda: f.jvp(vector, x, y),
        "jvp of several": lambda: f.jvp(several, (x, y), (y, x)),
        "vhp": lambda: f.vhp(scalar, (x, y), (x, y)),
        "hvp": lambda: f.hvp(scalar, (x, y), (y, x)),
        "jacobian": lambda: f.jacobian(vector, x),
        "jacobian of several": lambda: f.jacobian(several, (x, y)),
        "jacobian, vectorized": lambda: f.jacobian(several, (x, y), vectorize=True),
        "jacobian, forward mode": lambda: f.jacobian(
            several, (x, y), vectorize=True, strategy="forward-mode"
        ),
        "hessian": lambda: f.hessian(scalar, (x, y)),
        "hessian of one": lambda: f.hessian(lambda a: (a * a * a).sum(), x),
        "hessian, vectorized": lambda: f.hessian(scalar, (x, y), vectorize=True),
        "hessian, forward over reverse": lambda: f.hessian(
            scalar, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"
        ),
        "create_graph": lambda: f.jacobian(vector, x.clone().requires_grad_(), create_graph=True),
        "strict": lambda: f.vjp(lambda a: y, x, y, strict=True),
        "independent": lambda: f.jacobian(lambda a, b: a * 2, (x, y)),
        "not a tensor": lambda: f.vjp(vector, 3.0),
        "v missing": lambda: f.vjp(vector, x),
        "v of another size": lambda: f.vjp(vector, x, m.ones(3)),
        "not scalar": lambda: f.hvp(vector, x, x),
        "strategy": lambda: f.jacobian(vector, x, strategy="sideways"),
    }


import torch as _torch  # noqa: E402


@pytest.mark.parametrize("name", list(cases(_torch)))
def test_as_torch(same, name):
    same(lambda m: cases(m)[name]())
