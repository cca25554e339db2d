"""Distributions of every class, made alike of PyTorch's and of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rushlight

Make = Callable[[Any, Any], Any]  # (module of distributions, function from lists to tensors) -> distribution


def tensor_of(library: Any, dtype: str = "float64") -> Callable[[Any], Any]:
    return lambda values: library.tensor(np.asarray(values).tolist(), dtype=getattr(library, dtype))


def both(make: Make, dtype: str = "float64") -> tuple[Any, Any]:
    """The distribution of PyTorch and ours."""
    return (
        make(torch.distributions, tensor_of(torch, dtype)),
        make(rushlight.distributions, tensor_of(rushlight, dtype)),
    )


COVARIANCE = [[2.0, 0.5, 0.1], [0.5, 1.5, -0.2], [0.1, -0.2, 1.0]]
FACTOR = np.linalg.cholesky(COVARIANCE)
TWO = [COVARIANCE, (3 * np.eye(3)).tolist()]
PROBS = [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]

CASES: dict[str, list[Make]] = {
    "Bernoulli": [
        lambda D, t: D.Bernoulli(t([0.1, 0.5, 0.9])),
        lambda D, t: D.Bernoulli(logits=t([[-2.0, 0.3], [4.0, 0.0]])),
        lambda D, t: D.Bernoulli(0.25),
        lambda D, t: D.Bernoulli(t([0.0, 1.0])),
    ],
    "Beta": [
        lambda D, t: D.Beta(t([0.5, 2.0, 1.0]), t([[1.5], [3.0]])),
        lambda D, t: D.Beta(2.0, 0.7),
        lambda D, t: D.Beta(t(0.4), t([0.3, 1.2])),
    ],
    "Binomial": [
        lambda D, t: D.Binomial(5, t([0.1, 0.5, 0.9])),
        lambda D, t: D.Binomial(t([3.0, 3.0]), logits=t([[-30.0, 0.3], [2.0, 30.0]])),
        lambda D, t: D.Binomial(t([1.0, 4.0]), t([0.3, 1.0])),
    ],
    "Categorical": [
        lambda D, t: D.Categorical(t(PROBS)),
        lambda D, t: D.Categorical(logits=t([[[0.0, 1.0, -2.0, 5.0]], [[1.0, 1.0, 1.0, 2.0]]])),
        lambda D, t: D.Categorical(t([0.0, 2.0, 6.0])),
    ],
    "Cauchy": [lambda D, t: D.Cauchy(t([-1.0, 2.0]), t([[0.5], [3.0]])), lambda D, t: D.Cauchy(0.0, 2.0)],
    "Chi2": [lambda D, t: D.Chi2(t([0.5, 2.0, 7.0])), lambda D, t: D.Chi2(3.0)],
    "ContinuousBernoulli": [
        lambda D, t: D.ContinuousBernoulli(t([0.0, 0.1, 0.4995, 0.5, 0.93, 1.0])),
        lambda D, t: D.ContinuousBernoulli(logits=t([[-2.0], [0.001]])),
        lambda D, t: D.ContinuousBernoulli(0.3),
    ],
    "Dirichlet": [
        lambda D, t: D.Dirichlet(t([[0.5, 2.0, 1.0], [3.0, 1.5, 4.0]])),
        lambda D, t: D.Dirichlet(t([0.5, 0.9])),
    ],
    "Exponential": [lambda D, t: D.Exponential(t([[0.5], [3.0]])), lambda D, t: D.Exponential(1.5)],
    "FisherSnedecor": [
        lambda D, t: D.FisherSnedecor(t([1.0, 3.0, 8.0]), t([1.5, 3.5, 9.0])),
        lambda D, t: D.FisherSnedecor(3.0, 5.0),
    ],
    "Gamma": [lambda D, t: D.Gamma(t([0.3, 1.0, 6.0]), t([[0.5], [2.0]])), lambda D, t: D.Gamma(2.0, 3.0)],
    "GeneralizedPareto": [
        lambda D, t: D.GeneralizedPareto(
            t([0.0, 1.0, -1.0, 0.0]), t([1.0, 2.0, 0.5, 1.0]), t([0.0, 0.3, -0.4, 0.7])
        ),
        lambda D, t: D.GeneralizedPareto(0.0, 1.0, 0.1),
        lambda D, t: D.GeneralizedPareto(t([0.0, 0.0]), 1.0, t([-1.0, 1.5])),
    ],
    "Geometric": [
        lambda D, t: D.Geometric(t([0.1, 0.5, 1.0])),
        lambda D, t: D.Geometric(logits=t([[-1.0], [0.5]])),
        lambda D, t: D.Geometric(0.3),
    ],
    "Gumbel": [lambda D, t: D.Gumbel(t([-1.0, 2.0]), t([[0.5], [3.0]])), lambda D, t: D.Gumbel(0.5, 2.0)],
    "HalfCauchy": [lambda D, t: D.HalfCauchy(t([0.5, 2.0])), lambda D, t: D.HalfCauchy(1.0)],
    "HalfNormal": [lambda D, t: D.HalfNormal(t([[0.5, 2.0]])), lambda D, t: D.HalfNormal(1.0)],
    "Independent": [
        lambda D, t: D.Independent(D.Normal(t([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0]]), t([0.5, 1.0, 2.0])), 1),
        lambda D, t: D.Independent(D.Bernoulli(t([0.2, 0.7])), 0),
        lambda D, t: D.Independent(D.Dirichlet(t([[[1.0, 2.0], [0.5, 3.0]]])), 2),
        lambda D, t: D.Independent(D.Independent(D.Poisson(t([[1.0, 2.0], [0.5, 3.0]])), 1), 1),
    ],
    "InverseGamma": [
        lambda D, t: D.InverseGamma(t([0.5, 1.5, 4.0]), t([1.0, 0.5, 2.0])),
        lambda D, t: D.InverseGamma(3.0, 2.0),
    ],
    "Kumaraswamy": [
        lambda D, t: D.Kumaraswamy(t([0.5, 2.0, 3.0]), t([1.5, 0.7, 2.5])),
        lambda D, t: D.Kumaraswamy(2.0, 3.0),
    ],
    "LKJCholesky": [
        lambda D, t: D.LKJCholesky(3, t([0.5, 1.0, 4.0])),
        lambda D, t: D.LKJCholesky(2),
        lambda D, t: D.LKJCholesky(4, t(2.0)),
    ],
    "Laplace": [lambda D, t: D.Laplace(t([-1.0, 2.0]), t([[0.5], [3.0]])), lambda D, t: D.Laplace(0.5, 2.0)],
    "LogNormal": [
        lambda D, t: D.LogNormal(t([-1.0, 0.5]), t([[0.5], [0.9]])),
        lambda D, t: D.LogNormal(0.0, 1.0),
    ],
    "LogisticNormal": [
        lambda D, t: D.LogisticNormal(t([[-1.0, 0.5], [0.2, 0.0]]), t([0.5, 0.9])),
        lambda D, t: D.LogisticNormal(t([0.0]), t([1.0])),
    ],
    "LowRankMultivariateNormal": [
        lambda D, t: D.LowRankMultivariateNormal(
            t([1.0, 2.0, 3.0]), t([[1.0], [0.5], [0.0]]), t([1.0, 2.0, 0.5])
        ),
        lambda D, t: D.LowRankMultivariateNormal(
            t([[0.0] * 3, [1.0] * 3]), t([[1.0, 0.2], [0.5, 0.0], [0.0, 0.3]]), t([[[1.0, 2.0, 0.5]]])
        ),
    ],
    "MixtureSameFamily": [
        lambda D, t: D.MixtureSameFamily(
            D.Categorical(t(PROBS)), D.Normal(t([[0.0, 1.0, 3.0], [1.0, 2.0, -1.0]]), t([1.0, 0.5, 2.0]))
        ),
        lambda D, t: D.MixtureSameFamily(
            D.Categorical(t([0.3, 0.7])), D.MultivariateNormal(t([[0.0] * 3, [1.0] * 3]), t(COVARIANCE))
        ),
        lambda D, t: D.MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.Poisson(t([1.0, 5.0]))),
    ],
    "Multinomial": [
        lambda D, t: D.Multinomial(4, t(PROBS)),
        lambda D, t: D.Multinomial(3, logits=t([0.0, 1.0, -1.0])),
    ],
    "MultivariateNormal": [
        lambda D, t: D.MultivariateNormal(t([1.0, 2.0, 3.0]), t(COVARIANCE)),
        lambda D, t: D.MultivariateNormal(t([[[0.0] * 3], [[1.0] * 3]]), scale_tril=t(FACTOR)),
        lambda D, t: D.MultivariateNormal(t([0.0, 1.0, 0.0]), precision_matrix=t(TWO)),
        lambda D, t: D.MultivariateNormal(t([[[0.0] * 3], [[1.0] * 3]]), t(TWO)),
    ],
    "NegativeBinomial": [
        lambda D, t: D.NegativeBinomial(t([0.0, 2.5, 7.0]), t([0.1, 0.5, 0.9])),
        lambda D, t: D.NegativeBinomial(4, logits=t([[-2.0], [0.3]])),
    ],
    "Normal": [
        lambda D, t: D.Normal(t([-1.0, 2.0]), t([[0.5], [3.0]])),
        lambda D, t: D.Normal(0.5, 2.0),
        lambda D, t: D.Normal(t(0.5), 2),
    ],
    "OneHotCategorical": [
        lambda D, t: D.OneHotCategorical(t(PROBS)),
        lambda D, t: D.OneHotCategorical(logits=t([0.0, 1.0, -2.0, 5.0])),
    ],
    "OneHotCategoricalStraightThrough": [lambda D, t: D.OneHotCategoricalStraightThrough(t(PROBS))],
    "Pareto": [
        lambda D, t: D.Pareto(t([0.5, 2.0, 1.0]), t([0.8, 1.5, 3.5])),
        lambda D, t: D.Pareto(1.0, 3.0),
    ],
    "Poisson": [lambda D, t: D.Poisson(t([0.0, 0.3, 5.5])), lambda D, t: D.Poisson(2.0)],
    "RelaxedBernoulli": [
        lambda D, t: D.RelaxedBernoulli(t(0.7), t([0.1, 0.5, 0.9])),
        lambda D, t: D.RelaxedBernoulli(t([2.0]), logits=t([[-2.0], [0.3]])),
    ],
    "RelaxedOneHotCategorical": [
        lambda D, t: D.RelaxedOneHotCategorical(t(0.7), t(PROBS)),
        lambda D, t: D.RelaxedOneHotCategorical(t(2.0), logits=t([0.0, 1.0, -2.0, 2.0])),
    ],
    "StudentT": [
        lambda D, t: D.StudentT(t([0.8, 1.5, 2.0, 5.0]), t([0.0, 1.0, 2.0, 3.0]), 2.0),
        lambda D, t: D.StudentT(3.0),
    ],
    "TransformedDistribution": [
        lambda D, t: D.TransformedDistribution(
            D.Uniform(t([0.0, 0.0]), t(1.0)),
            [D.SigmoidTransform().inv, D.AffineTransform(t([[1.0], [2.0]]), -3.0)],
        ),
        lambda D, t: D.TransformedDistribution(
            D.Normal(t([[0.0, 1.0]]), t([1.0, 2.0])), D.StickBreakingTransform()
        ),
        lambda D, t: D.TransformedDistribution(
            D.Independent(D.Normal(t(np.zeros((2, 4))), 1.0), 1),
            [D.ReshapeTransform((4,), (2, 2)), D.TanhTransform()],
        ),
        lambda D, t: D.TransformedDistribution(D.Gamma(t([1.0, 2.0]), 1.0), []),
    ],
    "Uniform": [lambda D, t: D.Uniform(t([-1.0, 2.0]), t([[2.5], [3.0]])), lambda D, t: D.Uniform(0.0, 2.0)],
    "VonMises": [lambda D, t: D.VonMises(t([-1.0, 2.0, 0.5]), t([0.3, 3.0, 40.0]))],
    "Weibull": [lambda D, t: D.Weibull(t([0.5, 2.0]), t([[1.5], [3.0]])), lambda D, t: D.Weibull(1.0, 2.0)],
    "Wishart": [
        lambda D, t: D.Wishart(t([4.0, 6.5]), t(COVARIANCE)),
        lambda D, t: D.Wishart(5.0, scale_tril=t(FACTOR)),
        lambda D, t: D.Wishart(t(7.0), precision_matrix=t(TWO)),
    ],
}
EACH = [(name, number) for name, makes in CASES.items() for number in range(len(makes))]
