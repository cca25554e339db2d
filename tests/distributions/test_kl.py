"""KL divergences of all pairs that PyTorch has, and how functions for others are registered and found."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

from .cases import CASES, COVARIANCE, TWO, both

theirs, ours = torch.distributions, rushlight.distributions
PAIRS = sorted(
    (p.__name__, q.__name__) for p, q in theirs.kl._KL_REGISTRY if p is not theirs.ExponentialFamily
)

# More parameters, where the cases alone would always be outside of each other's support, or inside.
MORE: dict[str, list[Any]] = {
    "Binomial": [
        lambda D, t: D.Binomial(5, t([0.2, 0.5, 0.7])),
        lambda D, t: D.Binomial(3, t([0.2, 0.5, 0.7])),
    ],
    "Categorical": [lambda D, t: D.Categorical(t([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]))],
    "ContinuousBernoulli": [lambda D, t: D.ContinuousBernoulli(t([0.2, 0.5, 0.7]))],
    "Geometric": [lambda D, t: D.Geometric(t([0.2, 0.5, 0.7]))],
    "Independent": [
        lambda D, t: D.Independent(D.Normal(t([[1.0, 1.0, 2.0], [1.0, 2.0, 3.0]]), t([0.5, 1.0, 1.0])), 1)
    ],
    "Poisson": [lambda D, t: D.Poisson(t([0.2, 1.3, 4.5]))],
    "TransformedDistribution": [
        lambda D, t: D.TransformedDistribution(D.Normal(t([0.0, 1.0]), 1.0), D.ExpTransform()),
        lambda D, t: D.TransformedDistribution(D.Normal(t([2.0, 1.0]), 2.0), [D.ExpTransform()]),
    ],
    "Uniform": [
        lambda D, t: D.Uniform(t([0.1, 0.2]), t([0.8, 0.9])),
        lambda D, t: D.Uniform(t([2.0, -5.0]), t([2.5, 9.0])),
        lambda D, t: D.Uniform(t(-1.0), t([2.0, 3.0])),
    ],
}


def made(name: str) -> list[tuple[Any, Any]]:
    return [both(make) for make in CASES[name] + MORE.get(name, [])]


def outcome(kl: Any, p: Any, q: Any) -> Any:
    try:
        return kl(p, q)
    except (NotImplementedError, ValueError, RuntimeError) as error:
        return type(error)


def skipped(p: Any, q: Any) -> bool:
    """Where PyTorch's result is not the divergence: each has a test of its own below."""
    names = type(p).__name__, type(q).__name__
    if names == ("ContinuousBernoulli", "Uniform"):  # it takes a support that ends at 0 or 1 for too small
        return bool(
            ((q.low >= 0) & (q.high > 1) | (q.low < 0) & (q.high <= 1) | (q.low == 0) | (q.high == 1)).any()
        )
    if names == ("Uniform", "ContinuousBernoulli"):
        return bool(((p.low == 0) | (p.high == 1)).any())
    return names == ("Poisson", "Poisson") and bool((p.rate == 0).any())  # 0 log 0


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("p_name", "q_name"), PAIRS)
def test_pair(p_name: str, q_name: str) -> None:
    compared = 0
    for (their_p, our_p), (their_q, our_q) in itertools.product(made(p_name), made(q_name)):
        try:
            shape = torch.broadcast_shapes(their_p.batch_shape, their_q.batch_shape)
        except RuntimeError:
            continue
        their_p, their_q = (
            their_p.expand(shape),
            their_q.expand(shape),
        )  # PyTorch confuses batches that differ
        if skipped(their_p, their_q):
            continue
        wanted = outcome(theirs.kl_divergence, their_p, their_q)
        result = outcome(ours.kl_divergence, our_p, our_q)
        if isinstance(wanted, type):
            assert result is wanted or (wanted is RuntimeError and not isinstance(result, type)), (
                their_p,
                their_q,
            )
            continue
        wanted, result = np.broadcast_arrays(wanted.numpy(), result.detach().numpy())
        np.testing.assert_allclose(result, wanted, rtol=1e-8, atol=1e-10, err_msg=f"{their_p} {their_q}")
        compared += 1
    assert compared


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["Chi2", "OneHotCategoricalStraightThrough", "LogNormal", "LogisticNormal"])
def test_subclasses(name: str) -> None:
    for (their_p, our_p), (their_q, our_q) in itertools.product(made(name)[:2], repeat=2):
        try:
            wanted = theirs.kl_divergence(their_p, their_q)
        except (NotImplementedError, RuntimeError) as error:
            with pytest.raises(type(error)):
                ours.kl_divergence(our_p, our_q)
            continue
        result = ours.kl_divergence(our_p, our_q)
        np.testing.assert_allclose(result.detach().numpy(), wanted.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.usefixtures("double")
def test_wishart() -> None:
    """By the Bregman divergence; of batches, of which PyTorch adds up the members, one by one."""

    def pairs(D: Any, t: Any) -> list[Any]:
        def wishart(df: float, matrix: Any) -> Any:
            return D.Wishart(t(df), t(matrix))

        return [
            D.kl_divergence(wishart(4.0, TWO[0]), wishart(df, matrix)) for df in (5.0, 8.5) for matrix in TWO
        ]

    def batch(D: Any, t: Any) -> Any:
        return D.kl_divergence(D.Wishart(t(4.0), t(TWO[0])), D.Wishart(t([[5.0], [8.5]]), t(TWO)))

    wanted, result = both(pairs)
    np.testing.assert_allclose([each.item() for each in result], [each.item() for each in wanted], rtol=1e-9)
    np.testing.assert_allclose(
        both(batch)[1].detach().flatten().tolist(), [each.item() for each in wanted], rtol=1e-9
    )


@pytest.mark.usefixtures("double")
def test_batches_of_normal_vectors_broadcast() -> None:
    def pair(D: Any, t: Any) -> Any:
        p = D.MultivariateNormal(t(np.zeros((4, 1, 3))), t(TWO))
        q = D.LowRankMultivariateNormal(t(np.ones((2, 3))), t([[1.0], [0.5], [0.0]]), t([1.0, 2.0, 0.5]))
        r = D.MultivariateNormal(t(np.ones(3)), scale_tril=t(np.linalg.cholesky(COVARIANCE)))
        return [D.kl_divergence(a, b) for a, b in itertools.product((p, q, r), repeat=2)]

    for wanted, result in zip(*both(pair), strict=True):
        assert tuple(result.shape) == tuple(wanted.shape)
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("double")
def test_beside_pytorch_where_its_result_is_no_divergence() -> None:
    coin = ours.ContinuousBernoulli(rushlight.tensor([0.2, 0.7]))
    unit = ours.Uniform(0.0, 1.0)
    assert rushlight.allclose(ours.kl_divergence(coin, unit), -coin.entropy())
    assert ours.kl_divergence(coin, ours.Uniform(0.0, 0.9)).tolist() == [math.inf] * 2
    x = (rushlight.arange(200000) + 0.5) / 200000
    by_hand = -coin.log_prob(x[:, None]).mean(0)
    assert rushlight.allclose(ours.kl_divergence(unit, coin), by_hand, atol=1e-8)
    zero = ours.kl_divergence(ours.Poisson(rushlight.tensor(0.0)), ours.Poisson(2.0))
    assert zero.item() == 2.0


@pytest.mark.usefixtures("double")
def test_gradients() -> None:
    def grads(library: Any, D: Any) -> list[Any]:
        leaves = [
            library.tensor(value, requires_grad=True)
            for value in ([0.5, 1.5], [2.0, 0.7], [1.2, 3.0], [0.9, 1.0])
        ]
        a, b, c, d = leaves
        pairs = [
            (D.Normal(a, b), D.Normal(c, d)),
            (D.Gamma(a, b), D.Gamma(c, d)),
            (D.Beta(a, b), D.Beta(c, d)),
            (D.Dirichlet(a), D.Dirichlet(c)),
            (D.Bernoulli(logits=a), D.Bernoulli(logits=c)),
            (D.Categorical(logits=a), D.Categorical(logits=c)),
            (D.Beta(a, b), D.Normal(c, d)),
            (D.Gamma(a, b), D.Gumbel(c, d)),
            (D.Normal(a, b), D.Laplace(c, d)),
        ]
        total = sum(D.kl_divergence(p, q).sum() for p, q in pairs)
        total.backward()
        return [leaf.grad.numpy() for leaf in leaves]

    for result, wanted in zip(grads(rushlight, ours), grads(torch, theirs), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-9)


class _Mine(ours.Normal):
    pass


class _Yours(ours.Normal):
    pass


def test_registering() -> None:
    with pytest.raises(TypeError):
        ours.register_kl(3, ours.Normal)  # a class of any base will do, as in PyTorch
    with pytest.raises(NotImplementedError, match="Cauchy"):
        ours.kl_divergence(ours.Cauchy(0.0, 1.0), ours.Normal(0.0, 1.0))
    p, q = _Mine(0.0, 1.0), _Yours(0.0, 1.0)
    assert ours.kl_divergence(p, q).item() == 0
    registry = dict(ours.kl._KL_REGISTRY)
    try:

        @ours.register_kl(_Mine, ours.Normal)
        def of_mine(p: Any, q: Any) -> Any:
            return rushlight.tensor(1.0)

        assert ours.kl_divergence(p, q).item() == 1

        @ours.register_kl(ours.Normal, _Yours)
        def of_yours(p: Any, q: Any) -> Any:
            return rushlight.tensor(2.0)

        with pytest.warns(RuntimeWarning, match="_Mine, _Yours"):
            assert ours.kl_divergence(p, q).item() == 1
        ours.register_kl(_Mine, _Yours)(lambda p, q: rushlight.tensor(3.0))
        assert ours.kl_divergence(p, q).item() == 3
    finally:
        ours.kl._KL_REGISTRY.clear()
        ours.kl._KL_REGISTRY.update(registry)
        ours.register_kl(ours.Normal, ours.Normal)(
            registry[ours.Normal, ours.Normal]
        )  # forgets what was found
