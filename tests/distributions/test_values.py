"""Every distribution says what PyTorch's says: shapes, moments, densities, entropies, supports."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch

import rushlight

from .cases import CASES, EACH, both

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}
# PyTorch has the Bessel functions of VonMises from polynomials of seven digits; ours are tested by SciPy's.
LOOSER = {"VonMises": {"rtol": 2e-5, "atol": 2e-6}}


def number_of(value: Any) -> Any:
    return value.detach().numpy()


def outcome(make: Any) -> Any:
    try:
        return make()
    except (NotImplementedError, AttributeError) as error:
        return type(error)


def assert_same(ours: Any, theirs: Any, name: str = "", **tolerance: Any) -> None:
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert not isinstance(ours, type), f"{ours.__name__}, but PyTorch has {theirs}"
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
    tolerance = tolerance or LOOSER.get(name, TOLERANCE)
    np.testing.assert_allclose(number_of(ours), number_of(theirs), equal_nan=True, **tolerance)


def made(name: str, number: int, dtype: str = "float64") -> tuple[Any, Any]:
    return both(CASES[name][number], dtype)


def values_for(theirs: Any, count: int = 7) -> Any:
    """Values to score: samples of PyTorch's distribution."""
    torch.manual_seed(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch takes every Wishart sample for singular
        return theirs.sample((count,))


def given(value: Any) -> Any:
    return rushlight.from_numpy(value.numpy())


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_shapes_and_moments(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_rsample == theirs.has_rsample
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    for what in ("mean", "mode", "variance", "stddev"):
        if (name, what) != ("Kumaraswamy", "mode"):  # PyTorch's is never a number
            assert_same(outcome(lambda: getattr(ours, what)), outcome(lambda: getattr(theirs, what)), name)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_entropy(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    if name == "Binomial" and number == 2:
        with pytest.raises(NotImplementedError):
            ours.entropy()
        return
    for what in ("entropy", "perplexity"):
        assert_same(outcome(getattr(ours, what)), outcome(getattr(theirs, what)), name)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_log_prob(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    value = values_for(theirs)
    assert_same(ours.log_prob(given(value)), theirs.log_prob(value), name)
    one = value[0]
    assert_same(ours.log_prob(given(one)), theirs.log_prob(one), name)


@pytest.mark.parametrize(("name", "number"), EACH)
def test_log_prob_in_single_precision(name: str, number: int) -> None:
    """As near to the value in double precision as PyTorch's, up to a few roundings."""
    theirs, ours = made(name, number, "float32")
    value = values_for(theirs)
    result, their = ours.log_prob(given(value)), theirs.log_prob(value)
    assert str(result.dtype) == str(their.dtype).replace("torch", "rushlight")
    torch.set_default_dtype(torch.float64)
    try:
        exact, _ = made(name, number)
        exact._validate_args = False  # rounding may lead out of the support
        wanted = number_of(exact.log_prob(value.double() if value.is_floating_point() else value))
    finally:
        torch.set_default_dtype(torch.float32)
    own_error, their_error = np.abs(number_of(result) - wanted), np.abs(number_of(their) - wanted)
    assert (own_error <= 2 * their_error + 1e-5 * (1 + np.abs(wanted))).all()


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_cdf_and_icdf(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    value = values_for(theirs)
    assert_same(
        outcome(lambda: ours.cdf(given(value))),
        outcome(lambda: theirs.cdf(value)),
        name,
        rtol=1e-9,
        atol=1e-12,
    )
    shape = theirs.batch_shape + theirs.event_shape
    if name == "LogisticNormal" or (name, number) == ("TransformedDistribution", 1):
        return  # numbers of another shape
    level = (
        torch.linspace(0.05, 0.95, 7, dtype=torch.float64).reshape(7, *(1 for _ in shape)).expand(7, *shape)
    )
    theirs_result = outcome(lambda: theirs.icdf(level))
    assert_same(
        outcome(lambda: ours.icdf(rushlight.from_numpy(level.numpy().copy()))),
        theirs_result,
        name,
        rtol=1e-9,
        atol=1e-12,
    )


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_enumerate_support(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    for expand in (True, False):
        assert_same(
            outcome(lambda: ours.enumerate_support(expand)), outcome(lambda: theirs.enumerate_support(expand))
        )


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_support(name: str, number: int) -> None:
    theirs, ours = made(name, number)
    value = values_for(theirs)
    strange = [
        value,
        value + 0.25,
        -value,
        value * torch.nan,
        value * 1e9,
        torch.zeros_like(value),
        torch.full_like(value, torch.inf) if value.is_floating_point() else value + 100,
    ]
    for each in strange:
        assert_same(
            outcome(lambda: ours.support.check(given(each))), outcome(lambda: theirs.support.check(each))
        )
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete
    if theirs.batch_shape == () or name not in ("Binomial", "Uniform", "Pareto", "GeneralizedPareto"):
        assert repr(ours.support) == repr(theirs.support)


@pytest.mark.parametrize(("name", "number"), EACH)
def test_parameters_and_text(name: str, number: int) -> None:
    theirs, ours = made(name, number, "float32")
    assert ours.arg_constraints.keys() == theirs.arg_constraints.keys()
    if name == "MixtureSameFamily":
        assert ours.mixture_distribution.logits is not None  # PyTorch has them already, and shows them
    assert repr(ours) == repr(theirs).replace("torch", "rushlight")
    for parameter, constraint in theirs.arg_constraints.items():
        assert_same(getattr(ours, parameter), getattr(theirs, parameter), rtol=2e-5, atol=1e-6)
        if name not in ("Uniform",):
            assert repr(ours.arg_constraints[parameter]) == repr(constraint)
    public = [attribute for attribute in vars(theirs) if not attribute.startswith("_")]
    assert all(hasattr(ours, attribute) for attribute in public)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("name", "number"), EACH)
def test_expand(name: str, number: int) -> None:
    theirs, ours = (each.expand((5, *each.batch_shape)) for each in made(name, number))
    assert type(ours).__name__ == name
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    value = values_for(theirs, 3)
    assert_same(ours.log_prob(given(value)), theirs.log_prob(value), name)
    for what in ("mean", "variance"):
        assert_same(outcome(lambda: getattr(ours, what)), outcome(lambda: getattr(theirs, what)), name)
    if not (name == "Binomial" and number == 2) and name != "Multinomial":  # there PyTorch loses an attribute
        assert_same(outcome(ours.entropy), outcome(theirs.entropy), name)
    assert ours.sample((2,)).shape == theirs_shape(ours, (2,))
    again = ours.expand((2, 5, *ours.batch_shape[1:]))
    assert again.sample().shape == theirs_shape(again, ())


def theirs_shape(distribution: Any, sample_shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*sample_shape, *distribution.batch_shape, *distribution.event_shape)


@pytest.mark.usefixtures("double")
def test_von_mises_has_all_digits() -> None:
    angle, kappa = np.linspace(-3, 3, 5), np.array([1e-3, 0.5, 4.0, 50.0, 1e4])
    ours = rushlight.distributions.VonMises(rushlight.tensor(0.3), rushlight.from_numpy(kappa))
    np.testing.assert_allclose(
        ours.log_prob(rushlight.from_numpy(angle)).numpy(),
        scipy.stats.vonmises.logpdf(angle, kappa, loc=0.3),
        rtol=1e-12,
    )
    wanted = 1 - scipy.special.ive(1, kappa) / scipy.special.ive(0, kappa)
    np.testing.assert_allclose(ours.variance.numpy(), wanted, rtol=1e-9)


@pytest.mark.usefixtures("double")
def test_mode_of_kumaraswamy() -> None:
    a, b = rushlight.tensor([2.0, 1.0, 3.0]), rushlight.tensor([3.0, 4.0, 1.0])
    ours = rushlight.distributions.Kumaraswamy(a, b)
    grid = (rushlight.arange(1, 20000) / 20000).unsqueeze(-1)
    assert rushlight.allclose(grid[ours.log_prob(grid).argmax(0)].flatten(), ours.mode, atol=1e-4)
    assert rushlight.distributions.Kumaraswamy(0.5, 2.0).mode.isnan()


def test_entropy_of_an_expanded_multinomial() -> None:
    ours = rushlight.distributions.Multinomial(3, rushlight.tensor([0.2, 0.8]))
    assert rushlight.equal(ours.expand((2,)).entropy(), ours.entropy().expand(2))


def test_numbers_take_the_default_dtype() -> None:
    rushlight.set_default_dtype(rushlight.float64)
    try:
        assert rushlight.distributions.Normal(0, 1).sample().dtype is rushlight.float64
    finally:
        rushlight.set_default_dtype(rushlight.float32)
    assert rushlight.distributions.Normal(0, 1).sample().dtype is rushlight.float32
    mixed = rushlight.distributions.Normal(rushlight.zeros(2, dtype=rushlight.float64), 1)
    assert mixed.scale.dtype is rushlight.float64
