"""Where derivatives differ from PyTorch's on purpose: PyTorch's is not the derivative, ours is.

Each test shows both halves against finite differences, so that a reason in tests/conformance/expected.json
falls with its cause.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd.gradcheck import GradcheckError

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck


def both(values: np.ndarray) -> tuple[torch.Tensor, rl.Tensor]:
    return (torch.from_numpy(values.copy()).requires_grad_(), rl.from_numpy(values.copy()).requires_grad_())


def test_as_strided_scatter_gives_nothing_to_what_was_overwritten() -> None:
    """PyTorch passes the whole gradient on to `self`, elements that `src` replaced included."""
    random = np.random.default_rng(0)
    theirs, mine = both(random.standard_normal((2, 3)))
    their_src, my_src = both(random.standard_normal((2, 2)))

    def scatter(x, src):
        return x.as_strided_scatter(src, (2, 2), (1, 2), 1)

    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        torch.autograd.gradcheck(scatter, (theirs, their_src))
    assert gradcheck(scatter, (mine, my_src), check_forward_ad=True)
    assert gradgradcheck(scatter, (mine, my_src))


def tangents(m, function, x, direction):
    with m.autograd.forward_ad.dual_level():
        result = function(m.autograd.forward_ad.make_dual(x.detach(), direction))
        return m.autograd.forward_ad.unpack_dual(result).tangent.resolve_conj().numpy()


def difference(function, x: np.ndarray, direction: np.ndarray) -> np.ndarray:
    step = 1e-6
    after, before = (function(rl.from_numpy(x + sign * step * direction)).numpy() for sign in (1, -1))
    return (after - before) / (2 * step)


def test_tangents_of_logcumsumexp_do_not_depend_on_what_comes_later() -> None:
    """PyTorch scales all exponentials by the largest of them and adds 1e-13 to what it divides by: small
    values that come first lose their tangent."""
    x = np.array([-15.0, -14.0, 15.0])
    direction = np.array([0.5, -1.0, 2.0])

    def function(t):
        return t.logcumsumexp(0)

    expected = difference(function, x, direction)
    mine = tangents(rl, function, rl.from_numpy(x), rl.from_numpy(direction))
    theirs = tangents(torch, function, torch.from_numpy(x), torch.from_numpy(direction))
    np.testing.assert_allclose(mine, expected, atol=1e-8)
    assert abs(theirs[0] - 0.5) > 0.1 > abs(mine[0] - 0.5)


def test_masked_logaddexp_where_one_is_masked() -> None:
    """There the result is the other operand, whose second derivative is 0; PyTorch's is NaN."""
    outcomes = []
    for m in (torch, rl):
        x, y, weight = (
            m.tensor(values, dtype=m.float64, requires_grad=True)
            for values in ([0.3, -0.4, 0.8], [0.1, 0.2, 0.5], [1.0, 2.0, 3.0])
        )
        result = m.masked.logaddexp(
            x, y, input_mask=m.tensor([True, False, True]), other_mask=m.tensor([True, True, False])
        )
        first = m.autograd.grad(result, (x, y), weight, create_graph=True)
        second = m.autograd.grad(first, (x, y), [m.tensor([1.0, 2.0, -3.0], dtype=m.float64)] * 2)
        outcomes.append(np.stack([g.numpy() for g in second]))
    theirs, mine = outcomes
    assert np.isnan(theirs[0, 2]) and np.isnan(theirs[1, 1])
    np.testing.assert_allclose(mine, 0, atol=1e-12)


def test_cov_is_as_precise_as_its_weights() -> None:
    """With weights in double precision tangents agree to the last digits; in single precision they agree as
    far as sums of single precision numbers do."""
    random = np.random.default_rng(1)
    x, direction = random.standard_normal((3, 10)) + 3, random.standard_normal((3, 10))
    weights = random.uniform(0.1, 1.0, 10)
    for dtype, tolerance in ((np.float64, 1e-13), (np.float32, 2e-6)):
        found = []
        for m in (torch, rl):
            w = m.from_numpy(weights.astype(dtype))
            found.append(
                tangents(
                    m,
                    lambda t, m=m, w=w: m.cov(t, aweights=w),
                    m.from_numpy(x.copy()),
                    m.from_numpy(direction.copy()),
                )
            )
        np.testing.assert_allclose(found[1], found[0], rtol=tolerance, atol=tolerance)
