"""How programs use distributions: errors, subclasses, copies, function transforms, compiled steps."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

from .cases import CASES, COVARIANCE, EACH, PROBS, both

D = rushlight.distributions


def outcome(call: Any) -> Any:
    try:
        call()
    except Exception as error:
        return type(error)
    return None


WRONG: dict[str, Any] = {
    "scale of 0": lambda D, t: D.Normal(t(0.0), t(0.0)),
    "negative scale in a batch": lambda D, t: D.Normal(t([0.0, 0.0]), t([1.0, -1.0])),
    "loc of NaN": lambda D, t: D.Normal(t(float("nan")), t(1.0)),
    "probability above 1": lambda D, t: D.Bernoulli(t([0.2, 1.1])),
    "probs and logits": lambda D, t: D.Bernoulli(t(0.1), t(0.1)),
    "neither probs nor logits": lambda D, t: D.Categorical(),
    "probs that are a number": lambda D, t: D.Categorical(t(0.5)),
    "negative probs": lambda D, t: D.Categorical(t([0.5, -0.1])),
    "geometric of 0": lambda D, t: D.Geometric(t(0.0)),
    "low above high": lambda D, t: D.Uniform(t(1.0), t(0.0)),
    "concentration of 0": lambda D, t: D.Dirichlet(t([1.0, 0.0])),
    "concentration that is a number": lambda D, t: D.Dirichlet(t(1.0)),
    "matrix that is not symmetric": lambda D, t: D.MultivariateNormal(
        t([0.0, 0.0]), t([[1.0, 0.5], [0.0, 1.0]])
    ),
    "matrix that is not definite": lambda D, t: D.MultivariateNormal(
        t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])
    ),
    "factor that is not lower": lambda D, t: D.MultivariateNormal(
        t([0.0, 0.0]), scale_tril=t([[1.0, 1.0], [0.0, 1.0]])
    ),
    "no matrix": lambda D, t: D.MultivariateNormal(t([0.0, 0.0])),
    "loc that is a number": lambda D, t: D.MultivariateNormal(t(0.0), t([[1.0]])),
    "matrix that is a vector": lambda D, t: D.MultivariateNormal(t([0.0]), t([1.0])),
    "low rank that does not fit": lambda D, t: D.LowRankMultivariateNormal(
        t([0.0, 0.0]), t([[1.0]]), t([1.0, 1.0])
    ),
    "few degrees of freedom": lambda D, t: D.Wishart(t(1.5), t(COVARIANCE)),
    "no matrix for Wishart": lambda D, t: D.Wishart(t(3.0)),
    "correlations of one": lambda D, t: D.LKJCholesky(1),
    "many dimensions": lambda D, t: D.Independent(D.Normal(t([0.0]), t(1.0)), 2),
    "no transform": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), 3),
    "a list of no transforms": lambda D, t: D.TransformedDistribution(D.Normal(t(0.0), t(1.0)), [3]),
    "transform of vectors": lambda D, t: D.TransformedDistribution(
        D.Normal(t(0.0), t(1.0)), D.StickBreakingTransform()
    ),
    "total_count that is a tensor": lambda D, t: D.Multinomial(t([3.0]), t([0.5, 0.5])),
    "negative total_count": lambda D, t: D.Binomial(t([-1.0]), t([0.5])),
    "mixture of other sizes": lambda D, t: D.MixtureSameFamily(
        D.Categorical(t(PROBS[0])), D.Normal(t([0.0]), t(1.0))
    ),
    "mixture by a coin": lambda D, t: D.MixtureSameFamily(D.Bernoulli(t([0.3])), D.Normal(t([0.0]), t(1.0))),
    "parameter that is a string": lambda D, t: D.Normal("a", t(1.0)),
    "shapes that do not fit": lambda D, t: D.Normal(t([0.0, 0.0]), t([1.0, 1.0, 1.0])),
    "value outside": lambda D, t: D.Exponential(t(1.0)).log_prob(t(-1.0)),
    "value that is a number": lambda D, t: D.Normal(t(0.0), t(1.0)).log_prob(0.0),
    "value of another event": lambda D, t: D.Dirichlet(t([1.0, 1.0])).log_prob(t([0.2, 0.3, 0.5])),
    "value of another batch": lambda D, t: D.Normal(t([0.0, 0.0]), t(1.0)).log_prob(t([1.0, 2.0, 3.0])),
    "value that is no integer": lambda D, t: D.Poisson(t(1.0)).log_prob(t(0.5)),
    "category that is not there": lambda D, t: D.Categorical(t([0.5, 0.5])).log_prob(t(2.0)),
    "cdf outside": lambda D, t: D.Uniform(t(0.0), t(1.0)).cdf(t(3.0)),
    "default that is no bool": lambda D, t: D.Distribution.set_default_validate_args(None),
    "expansion that does not fit": lambda D, t: D.Normal(t([0.0, 0.0]), t(1.0)).expand((3,)),
    "a product of supports": lambda D, t: D.Independent(D.Bernoulli(t([0.5])), 1).enumerate_support(),
    "different events": lambda D, t: D.kl_divergence(
        D.MultivariateNormal(t([0.0]), t([[1.0]])), D.MultivariateNormal(t([0.0, 0.0]), t(np.eye(2)))
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors(name: str) -> None:
    wanted, result = both(lambda D, t: outcome(lambda: WRONG[name](D, t)))
    assert result is wanted is not None


def test_messages_name_what_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"(?s)Normal: parameter scale .*GreaterThan\(lower_bound=0.0\).*-1"):
        D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="batch_shape"):
        D.Normal(rushlight.zeros(2), 1.0).log_prob(rushlight.zeros(3))
    with pytest.raises(ValueError, match="probs, logits"):
        D.Bernoulli()


def test_validation_can_be_turned_off() -> None:
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert D.Exponential(1.0, validate_args=False).log_prob(rushlight.tensor(-1.0)).item() == 1
    D.Distribution.set_default_validate_args(False)
    try:
        assert D.Normal(0.0, -1.0).scale.item() == -1
    finally:
        D.Distribution.set_default_validate_args(True)
    kept = D.Exponential(1.0, validate_args=False).expand((2,))
    assert kept.log_prob(rushlight.tensor(-1.0)).tolist() == [1.0, 1.0]


class Shifted(D.Normal):
    """A subclass with an __init__ of its own."""

    def __init__(self, shift: float, validate_args: bool | None = None) -> None:
        self.shift = shift
        super().__init__(shift, 1.0, validate_args=validate_args)


class Expandable(Shifted):
    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Expandable, _instance)
        new.shift = self.shift
        return super().expand(batch_shape, _instance=new)


class Plain(D.Distribution):
    """A distribution from outside, which defines little."""

    def __init__(self, validate_args: bool | None = None) -> None:
        super().__init__(rushlight.Size([2]), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Any:
        return rushlight.zeros(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return value * 0


class Family(D.ExponentialFamily):
    """An exponential family from outside: the exponential distributions."""

    arg_constraints = {"rate": D.constraints.positive}
    support = D.constraints.nonnegative
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate = rate
        super().__init__(rate.shape, validate_args=validate_args)

    @property
    def _natural_params(self) -> Any:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()


def test_subclasses() -> None:
    with pytest.raises(NotImplementedError, match="Shifted"):
        Shifted(1.0).expand((2,))
    larger = Expandable(1.0).expand((2,))
    assert type(larger) is Expandable and larger.shift == 1.0 and larger.loc.shape == (2,)
    with pytest.warns(UserWarning, match="arg_constraints"):
        plain = Plain()
    assert plain.sample((3,)).shape == (3, 2)
    with pytest.warns(UserWarning, match="support"):
        plain.log_prob(rushlight.zeros(2))
    with pytest.raises(NotImplementedError):
        plain.expand((3, 2))
    for missing in ("mean", "mode", "variance", "stddev", "support"):
        with pytest.raises(NotImplementedError):
            getattr(plain, missing)
    with pytest.warns(FutureWarning):
        assert plain.sample_n(4).shape == (4, 2)


def test_exponential_family_from_outside() -> None:
    rate, other = rushlight.tensor([0.5, 2.0], requires_grad=True), rushlight.tensor([1.0, 3.0])
    family, known = Family(rate), D.Exponential(rate)
    assert rushlight.allclose(family.entropy(), known.entropy())
    divergence = D.kl_divergence(family, Family(other))
    wanted = D.kl_divergence(known, D.Exponential(other))
    assert rushlight.allclose(divergence, wanted)
    for ours, by_formula in (
        (family.entropy(), known.entropy()),
        (divergence, wanted),
    ):  # PyTorch's have none by p
        assert rushlight.allclose(
            *(rushlight.autograd.grad(each.sum(), rate)[0] for each in (ours, by_formula))
        )
    with rushlight.no_grad():
        assert rushlight.allclose(family.entropy(), known.entropy())
    with pytest.raises(NotImplementedError):
        D.kl_divergence(family, known)


@pytest.mark.parametrize(("name", "number"), [each for each in EACH if each[1] == 0])
def test_copies(name: str, number: int) -> None:
    ours = both(CASES[name][number])[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = ours.sample((2,))
    for again in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert rushlight.equal(again.log_prob(value), ours.log_prob(value))


def test_a_lazy_parameter_keeps_its_history() -> None:
    logits = rushlight.tensor([0.3, -1.0], requires_grad=True)
    coin = D.Bernoulli(logits=logits)
    with rushlight.no_grad():
        assert coin.probs.requires_grad  # it is kept for uses outside
    coin.probs.sum().backward()
    assert logits.grad is not None


def test_function_transforms() -> None:
    x = rushlight.tensor([0.5, 1.5, 2.5])

    def score(loc: Any, value: Any) -> Any:
        return D.Normal(loc, 1.0, validate_args=False).log_prob(value)

    assert rushlight.allclose(rushlight.func.vmap(score)(x, x + 1), score(x, x + 1))
    assert rushlight.allclose(rushlight.func.vmap(rushlight.func.grad(score))(x, x + 1), rushlight.ones(3))
    checked = rushlight.func.vmap(lambda loc, scale: D.Normal(loc, scale).log_prob(loc))  # all of the batch
    assert checked(x, x).shape == (3,)
    with pytest.raises(ValueError, match="scale"):
        checked(x, x - 1)
    covariance = rushlight.func.vmap(lambda m: D.MultivariateNormal(rushlight.zeros(2), m).entropy())
    assert covariance(rushlight.eye(2).expand(3, 2, 2)).shape == (3,)
    hessian = rushlight.func.hessian(lambda loc: D.Normal(loc, 2.0).log_prob(x[0]))(x[1])
    assert hessian.item() == pytest.approx(-0.25)
    coin = D.Bernoulli(logits=rushlight.tensor(0.3), validate_args=False)
    rushlight.func.grad(lambda s: coin.probs * s)(rushlight.tensor(2.0))
    assert coin.probs.item() == pytest.approx(0.574442)  # what the transform saw was not kept


# Compiled.

COMPILED: dict[str, Any] = {
    "Normal": (lambda D, a, b: D.Normal(a, b.exp()), None),
    "Bernoulli": (lambda D, a, b: D.Bernoulli(logits=a), lambda x: (x > 0).float()),
    "Categorical": (lambda D, a, b: D.Categorical(logits=a), lambda x: (x[:, 0] > 0).long()),
    "Gamma": (lambda D, a, b: D.Gamma(a.exp(), b.exp()), lambda x: x.abs() + 0.1),
    "Beta": (lambda D, a, b: D.Beta(a.exp(), b.exp()), lambda x: x.sigmoid()),
    "Laplace": (lambda D, a, b: D.Laplace(a, b.exp()), None),
    "MultivariateNormal": (
        lambda D, a, b: D.MultivariateNormal(
            a, scale_tril=b.exp().diag_embed() + 0.1 * rushlight.eye(3).tril(-1)
        ),
        None,
    ),
    "LogNormal": (lambda D, a, b: D.LogNormal(a, b.exp()), lambda x: x.abs() + 0.1),
    "Independent": (lambda D, a, b: D.Independent(D.Normal(a, b.exp()), 1), None),
}


@pytest.mark.parametrize("name", COMPILED)
def test_log_prob_compiles(name: str) -> None:
    make, values = COMPILED[name]
    rushlight.manual_seed(0)
    a, b, x = rushlight.randn(3), 0.3 * rushlight.randn(3), rushlight.randn(5, 3)
    x = x if values is None else values(x)

    def step(a: Any, b: Any) -> Any:
        loss = -make(D, a, b).log_prob(x).mean()
        return loss, rushlight.autograd.grad(loss, [a, b], allow_unused=True)

    a.requires_grad_(), b.requires_grad_()
    compiled = rushlight.compile(step, fullgraph=True)
    for _ in range(2):
        (loss, grads), (wanted, wanted_grads) = compiled(a, b), step(a, b)
        assert rushlight.allclose(loss, wanted, rtol=1e-5, atol=1e-6)
        for grad, other in zip(grads, wanted_grads, strict=True):
            assert (grad is None) == (other is None)
            assert grad is None or rushlight.allclose(grad, other, rtol=1e-4, atol=1e-5)
    assert compiled.reasons == ["first call"]


SAMPLED: dict[str, Any] = {
    "Bernoulli": lambda a: D.Bernoulli(logits=a),
    "Beta": lambda a: D.Beta(a.exp(), 2.0),
    "Categorical": lambda a: D.Categorical(logits=a),
    "Dirichlet": lambda a: D.Dirichlet(a.exp()),
    "Gamma": lambda a: D.Gamma(a.exp(), 2.0),
    "Gumbel": lambda a: D.Gumbel(a, 1.0),
    "MixtureSameFamily": lambda a: D.MixtureSameFamily(D.Categorical(logits=a), D.Normal(a, 1.0)),
    "MultivariateNormal": lambda a: D.MultivariateNormal(a, rushlight.eye(3)),
    "Poisson": lambda a: D.Poisson(a.exp()),
    "RelaxedOneHotCategorical": lambda a: D.RelaxedOneHotCategorical(rushlight.tensor(0.5), logits=a),
    "Wishart": lambda a: D.Wishart(5.0, scale_tril=a.exp().diag_embed()),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_samples_compile(name: str) -> None:
    """Eager and compiled runs of one seed draw and score the same samples."""

    def draw(a: Any) -> Any:
        distribution = SAMPLED[name](a)
        sample = distribution.rsample((4,)) if distribution.has_rsample else distribution.sample((4,))
        return sample, distribution.log_prob(sample.detach())

    a = rushlight.tensor([0.1, -0.3, 0.5], requires_grad=True)
    compiled = rushlight.compile(draw, fullgraph=True)
    for seed in (1, 2):
        rushlight.manual_seed(seed)
        wanted = draw(a)
        rushlight.manual_seed(seed)
        for result, other in zip(compiled(a), wanted, strict=True):
            np.testing.assert_allclose(result.detach().numpy(), other.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert compiled.reasons == ["first call"]


def test_a_variational_step_compiles() -> None:
    """Steps with samples and divergences: eager and compiled training agree."""
    data = rushlight.tensor([1.0, 2.0, 3.0])

    def losses(compiled: bool) -> list[float]:
        rushlight.manual_seed(3)
        loc, rho = (rushlight.zeros(3, requires_grad=True) for _ in range(2))
        optimizer = rushlight.optim.Adam([loc, rho], lr=0.1)

        def step() -> Any:
            optimizer.zero_grad()
            posterior = D.Normal(loc, rho.exp())
            z = posterior.rsample((8,))
            evidence = D.Normal(z, 0.5).log_prob(data).sum(-1).mean()
            loss = D.kl_divergence(posterior, D.Normal(rushlight.zeros(3), 1.0)).sum() - evidence
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = rushlight.compile(step, fullgraph=True) if compiled else step
        return [run().item() for _ in range(20)]

    eager, compiled = losses(False), losses(True)
    assert eager[-1] < eager[0] / 2
    np.testing.assert_allclose(compiled, eager, rtol=1e-3)


def test_a_distribution_from_outside_of_a_compiled_function_stays_whole() -> None:
    outside = D.Categorical(rushlight.tensor([0.2, 0.8]))
    compiled = rushlight.compile(lambda x: outside.log_prob(x).sum(), fullgraph=True)
    x = rushlight.tensor([0, 1, 1])
    for _ in range(2):
        assert compiled(x).item() == pytest.approx(np.log([0.2, 0.8, 0.8]).sum(), rel=1e-5)
    assert outside.log_prob(x)[0].item() == pytest.approx(np.log(0.2), rel=1e-5)


def test_relaxed_samples_train() -> None:
    logits = rushlight.zeros(3, requires_grad=True)
    rushlight.manual_seed(0)
    optimizer = rushlight.optim.Adam([logits], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        sample = D.RelaxedOneHotCategorical(rushlight.tensor(0.5), logits=logits).rsample((16,))
        loss = -(sample * rushlight.tensor([0.0, 1.0, 0.0])).sum(-1).mean()
        loss.backward()
        optimizer.step()
    assert logits.argmax().item() == 1 and loss.item() < -0.8


def test_mixed_use_with_pytorch_code() -> None:
    """One program, both libraries."""

    def program(library: Any) -> list[float]:
        D = library.distributions
        mixture = D.MixtureSameFamily(
            D.Categorical(logits=library.tensor([0.1, 0.2])),
            D.Independent(D.Laplace(library.tensor([[0.0, 1.0], [2.0, 3.0]]), 1.0), 1),
        )
        x = library.tensor([[0.5, 0.5], [2.0, 2.0]])
        flow = D.TransformedDistribution(
            D.Independent(D.Normal(library.zeros(2), 1.0), 1),
            [D.AffineTransform(1.0, 2.0), D.TanhTransform(cache_size=1)],
        )
        inside = library.tensor([[0.5, -0.5]])
        return [*mixture.log_prob(x).tolist(), *mixture.mean.tolist(), *flow.log_prob(inside).tolist()]

    assert program(rushlight) == pytest.approx(program(torch), rel=1e-5)


def test_a_distribution_that_is_a_module() -> None:
    """As priors of libraries are: the attributes of a module hide methods of distributions."""

    class Prior(D.Normal, rushlight.nn.Module):
        def __init__(self, loc: float, scale: float) -> None:
            rushlight.nn.Module.__init__(self)
            D.Normal.__init__(self, loc, scale)

    prior = Prior(1.0, 2.0)
    assert repr(prior) == "Prior(loc: 1.0, scale: 2.0)"
    assert prior.expand((3,), prior).mean.tolist() == [1.0, 1.0, 1.0]
