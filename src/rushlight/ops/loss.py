"""The negative log likelihood of classes: schemas and shape rules.

All losses but this and ctc_loss are composites (decompositions/loss*.py).
"""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Spec, broadcast_shapes
from ..core.tensor import Tensor
from ..core.traits import Trait
from .dtype_sets import FLOATS
from .rules import like

NONE, MEAN, SUM = 0, 1, 2  # ATen's numbers of the reductions
TARGETS = (DTYPES["int64"], DTYPES["uint8"])


def functional_assert(self: Tensor, dep_token: Tensor) -> Spec:
    """`dep_token` as it is, if every element of the condition `self`, which broadcasts to it, holds."""
    check(
        self.dtype is DTYPES["bool"],
        f"_functional_assert_async: the condition must be bool, not {self.dtype.name}",
    )
    broadcast = broadcast_shapes(self.shape, dep_token.shape, name="_functional_assert_async")
    check(
        broadcast == tuple(dep_token.shape),
        f"_functional_assert_async: a condition of shape "
        f"{list(self.shape)} does not broadcast to {list(dep_token.shape)}",
    )
    return like(dep_token)


define(
    "_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor",
    shape=functional_assert,
    moves=True,
    api=FUNCTION,
    traits=Trait.RAISES,
)


def check_floats(self: Tensor, name: str) -> None:
    check(
        self.dtype in FLOATS, f"\"{name}\" not implemented for '{self.dtype.torch_name}'", NotImplementedError
    )


def check_classes(self: Tensor, target: Tensor, weight: Tensor | None, name: str) -> None:
    """Everything about the arguments of a negative log likelihood that does not depend on the rank."""
    check_floats(self, name)
    check(
        target.dtype in TARGETS,
        f"{name}: expected target dtype to be Long or Byte, but got {target.dtype.torch_name}",
    )
    if weight is None:
        return
    classes = self.shape[1 if self.ndim > 1 else 0]
    check(
        weight.ndim == 1 and weight.numel() == classes,
        f"{name}: weight tensor should be defined either "
        f"for all {classes} classes or no classes but got weight tensor of shape: {list(weight.shape)}",
    )
    check(
        weight.dtype is self.dtype,
        f"{name}: expected scalar type {self.dtype.torch_name} but found {weight.dtype.torch_name}",
    )
    check(
        not weight.requires_grad,
        f"The function '{name}' is not differentiable with respect to argument "
        "'weight'. This input cannot have requires_grad True.",
    )


def check_nll(self: Tensor, target: Tensor, weight: Tensor | None) -> None:
    check(
        self.ndim in (1, 2), f"nll_loss: input tensor should be 1D or 2D, but its shape is {list(self.shape)}"
    )
    check(
        target.ndim <= 1,
        "nll_loss: 0D or 1D target tensor expected, multi-target not supported: its "
        f"shape is {list(target.shape)}",
    )
    fits = target.numel() == 1 if self.ndim == 1 else tuple(target.shape) == (self.shape[0],)
    check(fits, f"nll_loss: size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})")
    check_classes(self, target, weight, "nll_loss_forward")


def check_nll2d(self: Tensor, target: Tensor, weight: Tensor | None) -> None:
    check(
        target.ndim == 3,
        "nll_loss2d: only batches of spatial targets supported (3D tensors) but got "
        f"targets of dimension: {target.ndim}",
    )
    check(
        self.ndim == 4,
        "nll_loss2d: only batches of spatial inputs supported (4D tensors), but got input "
        f"of dimension: {self.ndim}",
    )
    check(
        (self.shape[0], *self.shape[2:]) == tuple(target.shape),
        f"nll_loss2d: size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})",
    )
    check_classes(self, target, weight, "nll_loss2d_forward")


def _define_nll(name: str, check_shapes: Any) -> None:
    """`name`_forward gives the loss and the sum of the weights it is divided by."""

    def forward(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> tuple[Spec, Spec]:
        check_shapes(self, target, weight)
        each = reduction == NONE and self.ndim > 1
        return Spec(tuple(target.shape) if each else (), self.dtype), Spec((), self.dtype)

    def backward(
        grad_output: Tensor,
        self: Tensor,
        target: Tensor,
        weight: Tensor | None,
        reduction: int,
        total_weight: Tensor,
    ) -> Spec:
        check_shapes(self, target, weight)
        check(
            total_weight.numel() == 1,
            f"{name}_backward: expected total_weight to be a single element "
            f"tensor, got: {list(total_weight.shape)}",
        )
        each = reduction == NONE and self.ndim > 1
        fits = tuple(grad_output.shape) == tuple(target.shape) if each else grad_output.numel() == 1
        check(
            fits,
            f"{name}_backward: grad_output has shape {list(grad_output.shape)}, expected "
            f"{list(target.shape) if each else 'one element'}",
        )
        return like(self)

    define(
        f"{name}_forward(Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index) "
        "-> (Tensor output, Tensor total_weight)",
        shape=forward,
        api=INTERNAL,
    )
    define(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, int reduction, "
        "SymInt ignore_index, Tensor total_weight) -> Tensor",
        shape=backward,
        api=INTERNAL,
    )


_define_nll("nll_loss", check_nll)
_define_nll("nll_loss2d", check_nll2d)
