"""Probability distributions, with samples that carry gradients, transforms and KL divergences."""

import sys as _sys

from . import (
    combined,
    constraint_registry,  # noqa: F401  names of PyTorch's
    constraints,  # noqa: F401
    continuous,
    discrete,
    distribution,
    gammas,
    kl,  # noqa: F401
    multivariate,
    relaxed,
    transformed,
    transforms,
    utils,  # noqa: F401
)
from .combined import *  # noqa: F403
from .constraint_registry import biject_to, transform_to
from .continuous import *  # noqa: F403
from .discrete import *  # noqa: F403
from .distribution import Distribution, ExponentialFamily
from .gammas import *  # noqa: F403
from .kl import kl_divergence, register_kl
from .multivariate import *  # noqa: F403
from .relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from .transformed import *  # noqa: F403
from .transforms import *  # noqa: F403

__all__ = [
    "Distribution",
    "ExponentialFamily",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "biject_to",
    "kl_divergence",
    "register_kl",
    "transform_to",
]
__all__ += combined.__all__
__all__ += continuous.__all__
__all__ += discrete.__all__
__all__ += gammas.__all__
__all__ += multivariate.__all__
__all__ += transformed.__all__
__all__ += transforms.__all__

# PyTorch has a module for each distribution: `distributions.normal` and its like are the one it lives in.
_MODULES = {
    combined: "independent mixture_same_family transformed_distribution",
    continuous: "cauchy continuous_bernoulli exponential generalized_pareto laplace normal uniform von_mises",
    discrete: "bernoulli binomial categorical geometric multinomial negative_binomial one_hot_categorical "
    "poisson",
    distribution: "exp_family",
    gammas: "beta chi2 dirichlet fishersnedecor gamma studentT",
    multivariate: "lkj_cholesky lowrank_multivariate_normal multivariate_normal wishart",
    relaxed: "relaxed_bernoulli relaxed_categorical",
    transformed: "gumbel half_cauchy half_normal inverse_gamma kumaraswamy log_normal logistic_normal pareto "
    "weibull",
}
for _module, _names in _MODULES.items():
    for _name in _names.split():
        _sys.modules[f"{__name__}.{_name}"] = globals()[_name] = _module
