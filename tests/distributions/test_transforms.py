"""Transforms beside PyTorch's: values, inverses, determinants, shapes, caches, transforms into regions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

from .cases import both

theirs, ours = torch.distributions, rushlight.distributions
pytestmark = pytest.mark.usefixtures("double")
REAL = [[-2.0, 0.3, 0.0], [1.5, -0.7, 4.0]]
MATRIX = np.arange(18.0).reshape(2, 3, 3) / 7 - 1

# name -> (the transform, a value of its domain)
TRANSFORMS: dict[str, tuple[Any, Any]] = {
    "exp": (lambda D, t: D.ExpTransform(), REAL),
    "inverse exp": (lambda D, t: D.ExpTransform().inv, np.exp(REAL)),
    "sigmoid": (lambda D, t: D.SigmoidTransform(), REAL),
    "saturated sigmoid": (lambda D, t: D.SigmoidTransform(), [-900.0, 900.0, 40.0]),
    "softplus": (lambda D, t: D.SoftplusTransform(), REAL),
    "tanh": (lambda D, t: D.TanhTransform(), REAL),
    "abs": (lambda D, t: D.AbsTransform(), REAL),
    "power": (lambda D, t: D.PowerTransform(t([2.0, -1.0, 0.5])), np.exp(REAL)),
    "affine": (lambda D, t: D.AffineTransform(t([1.0, 2.0, 3.0]), t([[2.0], [-0.5]])), REAL),
    "affine by numbers": (lambda D, t: D.AffineTransform(1.0, -2), REAL),
    "affine of vectors": (lambda D, t: D.AffineTransform(0.5, t([1.0, -2.0, 3.0]), event_dim=1), REAL),
    "affine of matrices": (lambda D, t: D.AffineTransform(0.5, 3.0, event_dim=2), MATRIX),
    "cdf": (lambda D, t: D.CumulativeDistributionTransform(D.Normal(t(0.5), t([1.0, 2.0, 0.5]))), REAL),
    "reshape": (lambda D, t: D.ReshapeTransform((2, 3), (6,)), np.arange(24.0).reshape(4, 2, 3)),
    "softmax": (lambda D, t: D.SoftmaxTransform(), REAL),
    "stick breaking": (lambda D, t: D.StickBreakingTransform(), REAL),
    "lower cholesky": (lambda D, t: D.LowerCholeskyTransform(), MATRIX),
    "positive definite": (lambda D, t: D.PositiveDefiniteTransform(), MATRIX),
    "correlations": (lambda D, t: D.CorrCholeskyTransform(), REAL),
    "identity": (lambda D, t: D.identity_transform, REAL),
    "composition": (
        lambda D, t: D.ComposeTransform([D.AffineTransform(1.0, t([2.0, 1.0, 0.5])), D.ExpTransform()]),
        REAL,
    ),
    "composition of ranks": (
        lambda D, t: D.ComposeTransform(
            [
                D.ExpTransform(),
                D.StickBreakingTransform(),
                D.AffineTransform(0.0, 2.0),
                D.ReshapeTransform((4,), (2, 2)),
            ]
        ),
        REAL,
    ),
    "independent": (lambda D, t: D.IndependentTransform(D.ExpTransform(), 1), REAL),
    "cat": (lambda D, t: D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], -1, [1, 2]), REAL),
    "cat of vectors": (
        lambda D, t: D.CatTransform(
            [D.IndependentTransform(D.ExpTransform(), 1), D.AffineTransform(1.0, 2.0)], 0, [1, 1]
        ),
        REAL,
    ),
    "stack": (lambda D, t: D.StackTransform([D.ExpTransform(), D.TanhTransform()], 0), REAL),
    "stack inside": (
        lambda D, t: D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.identity_transform], -1),
        REAL,
    ),
}


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


def assert_same(result: Any, wanted: Any) -> None:
    if isinstance(wanted, type):
        assert result is wanted
    elif isinstance(wanted, torch.Tensor):
        assert tuple(result.shape) == tuple(wanted.shape)
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-9, atol=1e-12)
    else:
        assert result == wanted


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values(name: str) -> None:
    make, value = TRANSFORMS[name]
    their, our = both(make)
    their_x, our_x = both(lambda D, t: t(value))
    their_y, our_y = their(their_x), our(our_x)
    assert_same(our_y, their_y)
    assert_same(our.inv(our_y), their.inv(their_y))
    assert_same(
        outcome(lambda: our.log_abs_det_jacobian(our_x, our_y)),
        outcome(lambda: their.log_abs_det_jacobian(their_x, their_y)),
    )
    assert_same(
        outcome(lambda: our.inv.log_abs_det_jacobian(our_y, our_x)),
        outcome(lambda: their.inv.log_abs_det_jacobian(their_y, their_x)),
    )
    for region in ("domain", "codomain"):
        theirs_region, ours_region = getattr(their, region), getattr(our, region)
        assert ours_region.event_dim == theirs_region.event_dim
        at = (their_x, our_x) if region == "domain" else (their_y, our_y)
        assert_same(outcome(lambda: ours_region.check(at[1])), outcome(lambda: theirs_region.check(at[0])))
    assert our.bijective == their.bijective
    assert_same(outcome(lambda: our.event_dim), outcome(lambda: their.event_dim))
    assert_same(outcome(lambda: our.sign), outcome(lambda: their.sign))
    assert repr(our) == repr(their)


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (5, 2, 3), (3, 3), (6,), (4, 4), (2, 2)])
def test_shapes(name: str, shape: tuple[int, ...]) -> None:
    their, our = both(TRANSFORMS[name][0])
    for method in ("forward_shape", "inverse_shape"):
        wanted = outcome(lambda: getattr(their, method)(torch.Size(shape)))
        result = outcome(lambda: getattr(our, method)(rushlight.Size(shape)))
        assert result is wanted if isinstance(wanted, type) else tuple(result) == tuple(wanted)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_determinant_is_that_of_the_jacobian(name: str) -> None:
    make, value = TRANSFORMS[name]
    our = make(ours, lambda values: rushlight.tensor(np.asarray(values).tolist()))
    if not our.bijective or name in (
        "correlations",
        "stick breaking",
        "composition of ranks",
        "saturated sigmoid",
    ):
        return  # as many numbers on one side as on the other, and none that is clamped
    x = rushlight.tensor(np.asarray(value).tolist())
    total = our.log_abs_det_jacobian(x, our(x)).sum()
    jacobian = rushlight.func.jacrev(our)(x).reshape(x.numel(), x.numel())
    copies = x.numel() // max(1, jacobian.shape[0])
    assert total.item() * copies == pytest.approx(
        rushlight.linalg.slogdet(jacobian).logabsdet.item(), rel=1e-9
    )


@pytest.mark.parametrize("name", TRANSFORMS)
def test_caches(name: str) -> None:
    make, value = TRANSFORMS[name]
    their, our = both(make)
    x = rushlight.tensor(np.asarray(value).tolist())
    cached = our.with_cache()
    assert type(cached) is type(our)
    assert cached is our if name == "identity" and their.with_cache() is their else cached is not our
    y = cached(x)
    assert rushlight.equal(y, our(x))
    if name not in ("identity", "composition", "composition of ranks"):
        assert cached(x) is y and cached.inv(y) is x
    assert our.inv.inv is our
    again = pickle.loads(pickle.dumps(copy.deepcopy(our)))
    assert rushlight.equal(again(x), our(x))
    with pytest.raises(ValueError):
        type(our).__mro__[-2].__init__(copy.copy(our), 2)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_equality(name: str) -> None:
    (their, our), (their_other, our_other) = both(TRANSFORMS[name][0]), both(TRANSFORMS[name][0])
    assert (our == our_other) == (their == their_other)
    assert our == our
    for other in ("exp", "affine by numbers", "power"):
        their_other, our_other = both(TRANSFORMS[other][0])
        assert (our != our_other) == (their != their_other)


REGIONS: dict[str, Any] = {
    "real": lambda c, t: c.real,
    "real_vector": lambda c, t: c.real_vector,
    "positive": lambda c, t: c.positive,
    "nonnegative": lambda c, t: c.nonnegative,
    "greater_than": lambda c, t: c.greater_than(t([1.0, 2.0, 3.0])),
    "greater_than_eq": lambda c, t: c.greater_than_eq(-2.0),
    "less_than": lambda c, t: c.less_than(-2.0),
    "unit_interval": lambda c, t: c.unit_interval,
    "interval": lambda c, t: c.interval(-1.0, t([1.0, 2.0, 3.0])),
    "half_open_interval": lambda c, t: c.half_open_interval(-1.0, 3.0),
    "simplex": lambda c, t: c.simplex,
    "corr_cholesky": lambda c, t: c.corr_cholesky,
    "lower_cholesky": lambda c, t: c.lower_cholesky,
    "positive_definite": lambda c, t: c.positive_definite,
    "positive_semidefinite": lambda c, t: c.positive_semidefinite,
    "independent": lambda c, t: c.independent(c.positive, 1),
    "cat": lambda c, t: c.cat([c.positive, c.unit_interval], -1, [1, 2]),
    "stack": lambda c, t: c.stack([c.positive, c.unit_interval], 0),
    "boolean": lambda c, t: c.boolean,
    "dependent": lambda c, t: c.dependent,
}


@pytest.mark.parametrize("name", REGIONS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_into_regions(name: str, registry: str) -> None:
    their_region, our_region = both(lambda D, t: REGIONS[name](D.constraints, t))
    their = outcome(lambda: getattr(theirs, registry)(their_region))
    our = outcome(lambda: getattr(ours, registry)(our_region))
    if isinstance(their, type):
        assert our is their
        return
    their_x, our_x = both(lambda D, t: t(MATRIX if their.domain.event_dim == 2 else REAL))
    result = our(our_x)
    assert_same(result, their(their_x))
    assert bool(our_region.check(result).all())


def test_registering_a_transform() -> None:
    class Even(ours.constraints.Constraint):
        def check(self, value: Any) -> Any:
            return value % 2 == 0

    with pytest.raises(NotImplementedError, match="Even"):
        ours.biject_to(Even())
    with pytest.raises(TypeError):
        ours.biject_to.register(3, lambda constraint: ours.identity_transform)
    try:

        @ours.biject_to.register(Even)
        def into_even(constraint: Any) -> Any:
            return ours.AffineTransform(0.0, 2.0)

        assert ours.biject_to(Even()) == ours.AffineTransform(0.0, 2.0)
    finally:
        ours.biject_to._registry.pop(Even, None)


def test_errors() -> None:
    def scenarios(D: Any, t: Any) -> list[Any]:
        return [
            outcome(call)
            for call in (
                lambda: D.ReshapeTransform((2, 3), (5,)),
                lambda: D.CatTransform([D.ExpTransform()], 0, [1, 2]),
                lambda: D.CatTransform([1]),
                lambda: D.StackTransform([D.ExpTransform()], 0)(t([1.0, 2.0])),
                lambda: D.CatTransform([D.ExpTransform()], 3)(t([1.0])),
                lambda: D.IndependentTransform(D.ExpTransform(), 2)(t([1.0])),
                lambda: D.constraints.cat([1]),
                lambda: D.constraints.independent(3, 1),
                lambda: D.constraints.independent(D.constraints.real, -1),
                lambda: D.constraints.independent(D.constraints.real, 2).check(t([1.0])),
                lambda: D.constraints.dependent.check(t([1.0])),
                lambda: D.constraints.dependent.event_dim,
                lambda: D.constraints.stack([D.constraints.real], 4).check(t([1.0])),
                lambda: D.CorrCholeskyTransform().event_dim,
                lambda: D.AbsTransform().log_abs_det_jacobian(t([1.0]), t([1.0])),
                lambda: hash(D.ExpTransform()),
            )
        ]

    wanted, result = both(scenarios)
    assert result == wanted
    assert all(isinstance(each, type) for each in result)


def test_triangles() -> None:
    for diag in (-2, -1, 0, 1):
        their, our = both(lambda D, t: D.utils.tril_matrix_to_vec(t(MATRIX), diag))
        assert_same(our, their)
        if diag < 1:
            vector = both(
                lambda D, t: t(np.arange(2.0 * (6 if diag == 0 else 3 if diag == -1 else 1)).reshape(2, -1))
            )
            wanted = theirs.utils.vec_to_tril_matrix(vector[0], diag)
            assert_same(ours.utils.vec_to_tril_matrix(vector[1], diag), wanted)
    with pytest.raises(ValueError):
        ours.utils.tril_matrix_to_vec(rushlight.eye(3), 3)
    with pytest.raises(ValueError):
        ours.utils.vec_to_tril_matrix(rushlight.zeros(4))
