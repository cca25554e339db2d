"""Derivatives of random numbers.

A sample does not depend on its parameters, except where it is reparametrised (gamma, Dirichlet): then it
moves with them so that its rank in the distribution stays the same.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.tensor import Tensor
from .declare import NOT_DIFFERENTIABLE, derivative
from .helpers import nothing

derivative([f"{name}_like{overload}" for name in ("rand", "randn", "randint")
            for overload in ("", ".generator")], NOT_DIFFERENTIABLE)
derivative(["randint_like.Tensor", "randint_like.Tensor_generator", "randint_like.low_dtype",
            "randint_like.low_generator_dtype", "multinomial"], NOT_DIFFERENTIABLE)


# Samples whose gradient is zero: their parameters are arguments that gradients may reach.

def zero_tangent(result: Tensor) -> Tensor:
    return nothing(result)


derivative(["normal_functional", "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"],
           self=nothing, mean=nothing, std=nothing, result=zero_tangent)
derivative(["uniform", "exponential", "geometric", "cauchy", "log_normal", "random", "random.to",
            "random.from", "poisson"], self=nothing, result=zero_tangent)
derivative(["bernoulli", "bernoulli.Tensor", "bernoulli.p"], self=nothing, p=nothing, result=zero_tangent)
derivative("binomial", count=nothing, prob=nothing, result=zero_tangent)


# Dropout.

def dropped(moved: Tensor, mask: Tensor, p: float, train: bool | None) -> Tensor:
    """A gradient or tangent under the mask of a dropout."""
    scale = 1.0 if train is False else 0.0 if p == 1 else 1 / (1 - p)
    return run_name("native_dropout_backward", moved, mask, scale)


derivative("native_dropout", input=lambda grad, p, train, result1: dropped(grad, result1, p, train),
           result0=lambda input_t, p, train, result1: dropped(input_t, result1, p, train))


# Gamma: a sample x moves by g = -(dF/da) / f, where F is the cumulative and f the density.

_STEP = 2.0**-6


def slope(function: Callable[[Tensor], Tensor], at: Tensor, scale: Tensor) -> Tensor:
    """d function / d at of a smooth function that changes on this `scale`, to about 7 digits.

    A difference of fourth order: these functions have no closed form to differentiate.
    """
    step = run_name("minimum", scale, scale.sqrt()).detach() * _STEP
    near = function(at + step) - function(at - step)
    far = function(at + 2 * step) - function(at - 2 * step)
    return (8 * near - far) / (12 * step)


def double(*tensors: Tensor) -> list[Tensor]:
    return [tensor.to(DTYPES["float64"]) for tensor in tensors]


def gamma_grad_by_shape(grad: Tensor, self: Tensor, output: Tensor) -> Tensor:
    alpha, x = double(self, output)
    return grad * slope(lambda a: run_name("_standard_gamma_grad", a, x), alpha, alpha)


def gamma_grad_by_sample(grad: Tensor, self: Tensor, output: Tensor, result: Tensor) -> Tensor:
    """dg/dx = -d(log f)/da - g d(log f)/dx."""
    by_shape = output.log() - self.digamma()
    by_sample = (self - 1) / output - 1
    return grad * -(by_shape + result * by_sample)


derivative("_standard_gamma", self=lambda grad, self, result:
           grad * run_name("_standard_gamma_grad", self, result),
           result=lambda self_t, self, result: self_t * run_name("_standard_gamma_grad", self, result))
derivative("_standard_gamma_grad", self=gamma_grad_by_shape, output=gamma_grad_by_sample)


# Dirichlet: a component x is a Beta(alpha, total - alpha) sample; the others shrink as it grows.

def dirichlet_grad(self: Tensor, result: Tensor) -> Tensor:
    """dx/dalpha / (1 - x) of each component."""
    return run_name("_dirichlet_grad", result, self, self.sum(-1, keepdim=True).expand(self.shape))


def dirichlet_tangent(self_t: Tensor, self: Tensor, result: Tensor) -> Tensor:
    moved = self_t * dirichlet_grad(self, result)
    return moved - result * moved.sum(-1, keepdim=True)


derivative("_sample_dirichlet", result=dirichlet_tangent, self=lambda grad, self, result:
           dirichlet_grad(self, result) * (grad - (result * grad).sum(-1, keepdim=True)))


def dirichlet_grad_by_sample(grad: Tensor, x: Tensor, alpha: Tensor, total: Tensor, result: Tensor) -> Tensor:
    """The result is g / (1 - x) with g as for gamma, of the Beta density f."""
    by_shape = x.log() - alpha.digamma() + total.digamma()
    by_sample = (alpha - 1) / x - (total - alpha) / (1 - x)
    return grad * -(by_shape / (1 - x) + result * by_sample)


def dirichlet_grad_by_shape(grad: Tensor, x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    x, alpha, total = double(x, alpha, total)
    scale = run_name("minimum", alpha, total - alpha)
    return grad * slope(lambda a: run_name("_dirichlet_grad", x, a, total), alpha, scale)


def dirichlet_grad_by_total(grad: Tensor, x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    x, alpha, total = double(x, alpha, total)
    return grad * slope(lambda t: run_name("_dirichlet_grad", x, alpha, t), total, total - alpha)


derivative("_dirichlet_grad", x=dirichlet_grad_by_sample, alpha=dirichlet_grad_by_shape,
           total=dirichlet_grad_by_total)
