"""Transforms into constraints: `biject_to(c)` is one to one, `transform_to(c)` suits optimizers best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms
from .transforms import AffineTransform, ComposeTransform, ExpTransform, SigmoidTransform, Transform
from .utils import is_number

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """For classes of constraints, functions that make a transform from the reals into one of them.

    registry.register(MyConstraint, lambda constraint: ...)

    @registry.register(my_constraint)
    def make(constraint): ...
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Transform] | None = None) -> Any:
        """Register `factory` for the class of a constraint; without a factory, as a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not (isinstance(kind, type) and issubclass(kind, constraints.Constraint)):
            raise TypeError(f"expected a Constraint or a class of constraints, not {constraint!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: constraints.Constraint) -> Transform:
        """A transform into the constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"no transform is registered for {type(constraint).__name__.lstrip('_')}"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
biject_to.__doc__ = """A transform from the reals to a constraint, one to one and with a determinant.

`biject_to.register(MyConstraint, make)` adds one for constraints of another class.

>>> positive = rl.distributions.biject_to(rl.distributions.constraints.positive)
>>> positive(rl.zeros(2))
tensor([1., 1.])
>>> positive.inv(rl.ones(2))
tensor([0., 0.])
"""
transform_to = ConstraintRegistry()
transform_to.__doc__ = """A transform from the reals to a constraint that suits optimizers, not always one to one.

`transform_to.register(MyConstraint, make)` adds one for constraints of another class.

>>> rl.distributions.transform_to(rl.distributions.constraints.simplex)(rl.zeros(4))
tensor([0.2500, 0.2500, 0.2500, 0.2500])
"""


def _into_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and (low, high) == (0, 1):
        return SigmoidTransform()
    return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])


def _above(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Transform:
    return ComposeTransform([ExpTransform(), AffineTransform(constraint.upper_bound, -1)])


def _register_for_both(into: ConstraintRegistry) -> None:
    into.register(constraints.real, lambda constraint: transforms.identity_transform)
    into.register(constraints.greater_than, _above)
    into.register(constraints.greater_than_eq, _above)
    into.register(constraints.less_than, _below)
    into.register(constraints.interval, _into_interval)
    into.register(constraints.half_open_interval, _into_interval)
    into.register(constraints.corr_cholesky, lambda constraint: transforms.CorrCholeskyTransform())
    into.register(
        constraints.independent,
        lambda constraint: transforms.IndependentTransform(
            into(constraint.base_constraint), constraint.reinterpreted_batch_ndims
        ),
    )
    into.register(
        constraints.cat,
        lambda constraint: transforms.CatTransform(
            [into(part) for part in constraint.cseq], constraint.dim, constraint.lengths
        ),
    )
    into.register(
        constraints.stack,
        lambda constraint: transforms.StackTransform(
            [into(part) for part in constraint.cseq], constraint.dim
        ),
    )


_register_for_both(biject_to)
_register_for_both(transform_to)
biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
transform_to.register(
    constraints.positive_definite, lambda constraint: transforms.PositiveDefiniteTransform()
)
transform_to.register(
    constraints.positive_semidefinite, lambda constraint: transforms.PositiveDefiniteTransform()
)
