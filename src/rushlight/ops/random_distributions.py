"""Random operators whose parameters are tensors, dropout, and how samples move with their parameters."""

from __future__ import annotations

from ..core.dtypes import DTYPES, Category
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, OUT, Api, define
from ..core.shapes import Spec, broadcast_shapes
from ..core.tensor import Tensor
from ..core.traits import Trait
from .creation import new_like
from .random import (
    _BOOL,
    _FLOATS,
    _INT64,
    _INTEGERS,
    _WIDE_FLOATS,
    _WIDE_UNSIGNED,
    GENERATOR,
    check_supported,
    sampled,
)


def bernoulli(self: Tensor) -> Spec:
    check_supported("bernoulli", self.dtype, _FLOATS)
    return sampled(self, "bernoulli")


def bernoulli_p(self: Tensor, p: float) -> Spec:
    check_supported("bernoulli_", self.dtype, _FLOATS | _INTEGERS | {_BOOL})
    check(0 <= p <= 1, f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return sampled(self, "bernoulli_")


def bernoulli_tensor(self: Tensor, p: Tensor) -> Spec:
    check_supported("bernoulli_", self.dtype, _FLOATS | _INTEGERS | {_BOOL})
    check_supported("bernoulli_", p.dtype, _FLOATS)
    check(
        broadcast_shapes(self.shape, p.shape, name="bernoulli_") == self.shape,
        "bernoulli_: p of shape "
        f"{tuple(p.shape)} cannot be expanded to the shape of self, {tuple(self.shape)}",
    )
    return sampled(self, "bernoulli_")


define(
    f"bernoulli(Tensor self, *, {GENERATOR}) -> Tensor",
    shape=bernoulli,
    random=True,
    api=FUNCTION | METHOD | OUT | Api.CASTS | Api.REFITS,
    traits=Trait.RAISES,
)


define(
    f"bernoulli.p(Tensor self, float p, *, {GENERATOR}) -> Tensor",
    shape=bernoulli_p,
    random=True,
    api=FUNCTION | METHOD,
    traits=Trait.RAISES,
)


define(
    f"bernoulli.Tensor(Tensor self, Tensor p, *, {GENERATOR}) -> Tensor",
    shape=bernoulli_tensor,
    random=True,
    api=INTERNAL,
    traits=Trait.RAISES,
)


def multinomial(self: Tensor, num_samples: int, replacement: bool) -> Spec:
    check(
        self.dtype.is_floating_point,
        f"multinomial only supports floating-point dtypes for input, got: {self.dtype.torch_name}",
    )
    check_supported("multinomial", self.dtype, _FLOATS)
    check(
        self.ndim in (1, 2),
        f"multinomial: the probabilities must be 1 or 2 dim, but their shape is {tuple(self.shape)}",
    )
    categories = self.shape[-1]
    check(num_samples > 0, f"multinomial: cannot sample {num_samples} samples; num_samples must be positive")
    check(
        replacement or num_samples <= categories,
        f"multinomial: cannot sample {num_samples} samples without replacement from {categories} categories",
    )
    check(categories > 0 or 0 in self.shape[:-1], "multinomial: there are no categories to sample from")
    check(categories <= 2**24, "multinomial: number of categories cannot exceed 2^24")
    return Spec((*self.shape[:-1], num_samples), _INT64)


define(
    f"multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, {GENERATOR}) -> Tensor",
    shape=multinomial,
    random=True,
    api=FUNCTION | METHOD | OUT | Api.EXACT,
    traits=Trait.RAISES,
)


def poisson(self: Tensor) -> Spec:
    check_supported("poisson", self.dtype, _FLOATS)
    return Spec(tuple(self.shape), self.dtype)


def binomial(count: Tensor, prob: Tensor) -> Spec:
    for name, tensor in (("count", count), ("prob", prob)):
        check(
            tensor.dtype.is_floating_point,
            f"binomial only supports floating-point dtypes for {name}, got: {tensor.dtype.torch_name}",
            ValueError,
        )
    check(
        count.dtype is prob.dtype,
        f"binomial: found dtype {prob.dtype.name} for prob but expected that of count, {count.dtype.name}",
    )
    check_supported("binomial", count.dtype, _WIDE_FLOATS)
    return Spec(broadcast_shapes(count.shape, prob.shape, name="binomial"), count.dtype)


def standard_gamma(self: Tensor, name: str) -> Spec:
    check_supported(name, self.dtype, _WIDE_FLOATS)
    return Spec(tuple(self.shape), self.dtype)


define(f"poisson(Tensor self, {GENERATOR}) -> Tensor", shape=poisson, random=True, api=FUNCTION)


define(
    f"binomial(Tensor count, Tensor prob, {GENERATOR}) -> Tensor", shape=binomial, random=True, api=FUNCTION
)


define(
    f"_standard_gamma(Tensor self, {GENERATOR}) -> Tensor",
    random=True,
    api=FUNCTION,
    shape=lambda self: standard_gamma(self, "_standard_gamma"),
)


define(
    f"_sample_dirichlet(Tensor self, {GENERATOR}) -> Tensor",
    random=True,
    api=FUNCTION,
    shape=lambda self: standard_gamma(self, "_sample_dirichlet"),
)


def check_probability(p: float) -> None:
    check(0 <= p <= 1, f"dropout probability has to be between 0 and 1, but got {p}")


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Spec, Spec]:
    check_probability(p)
    check(
        train is False or input.dtype.category > Category.INTEGRAL,
        "native_dropout: the result is "
        f"floating-point and can't be cast to the input's dtype {input.dtype.name}",
    )
    check_supported("native_dropout", input.dtype, frozenset(DTYPES.values()) - _WIDE_UNSIGNED)
    return sampled(input, "native_dropout"), new_like(input, _BOOL, None, None, "native_dropout")


define(
    "native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)",
    shape=native_dropout,
    random=True,
    api=FUNCTION,
)


def standard_gamma_grad(self: Tensor, output: Tensor) -> Spec:
    check_supported("_standard_gamma_grad", self.dtype, _WIDE_FLOATS)
    check(
        output.dtype is self.dtype,
        f"_standard_gamma_grad: output must be {self.dtype.name}, not {output.dtype.name}",
    )
    return Spec(broadcast_shapes(self.shape, output.shape, name="_standard_gamma_grad"), self.dtype)


def dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Spec:
    check_supported("_dirichlet_grad", x.dtype, _WIDE_FLOATS)
    check(
        alpha.dtype is x.dtype and total.dtype is x.dtype,
        "_dirichlet_grad: x, alpha and total must have one "
        f"dtype, but they are {x.dtype.name}, {alpha.dtype.name} and {total.dtype.name}",
    )
    return Spec(broadcast_shapes(x.shape, alpha.shape, total.shape, name="_dirichlet_grad"), x.dtype)


define("_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", shape=standard_gamma_grad, api=FUNCTION)


define("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", shape=dirichlet_grad, api=FUNCTION)
