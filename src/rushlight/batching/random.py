"""Batching rules of random operators, for vmap(..., randomness="different")."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import Sized, Whole, batching, pad_ndim

batching(
    [
        "rand",
        "rand.generator",
        "randn",
        "randn.generator",
        "randint",
        "randint.low",
        "randint.generator",
        "randint.low_generator",
        "normal.float_float",
    ],
    Sized(),
)
batching(
    [
        "rand_like",
        "rand_like.generator",
        "randn_like",
        "randn_like.generator",
        "randint_like",
        "randint_like.low_dtype",
        "randint_like.generator",
        "randint_like.low_generator_dtype",
        "normal.Tensor_float",
        "normal.float_Tensor",
        "normal_functional",
        "uniform",
        "exponential",
        "geometric",
        "cauchy",
        "log_normal",
        "random",
        "random.to",
        "random.from",
        "bernoulli",
        "bernoulli.p",
        "poisson",
        "_standard_gamma",
        "_sample_dirichlet",
        "native_dropout",
        "binomial",
    ],
    Whole(all_batched=True),
)


batching(["_standard_gamma_grad", "_dirichlet_grad"], Whole(all_batched=True))


@batching("normal.Tensor_Tensor", all_batched=True)
def normal(mean: Tensor, std: Tensor, mean_ndim: int, std_ndim: int) -> Tensor:
    rank = max(mean_ndim, std_ndim)
    return run_name(
        "normal.Tensor_Tensor", pad_ndim(mean, mean_ndim, rank), pad_ndim(std, std_ndim, rank), None
    )


@batching("bernoulli.Tensor", all_batched=True)
def bernoulli(self: Tensor, p: Tensor, self_ndim: int, p_ndim: int) -> Tensor:
    return run_name("bernoulli.Tensor", self, pad_ndim(p, p_ndim, self_ndim), None)


@batching("multinomial", all_batched=True)
def multinomial(self: Tensor, num_samples: int, replacement: bool, self_ndim: int) -> Tensor:
    rows = self.reshape(-1, self.shape[-1])
    drawn = run_name("multinomial", rows, num_samples, replacement, None)
    return drawn.reshape(*self.shape[:-1], num_samples)
