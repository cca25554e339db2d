"""Softmax and its relatives: what they take and return."""

from __future__ import annotations

from ..core.dtypes import DType
from ..core.errors import check
from ..core.registry import FUNCTION, define
from ..core.shapes import Spec, wrap_dim
from ..core.tensor import Tensor
from .reduction import check_dtype
from .rules import like


def softmax_rule(self: Tensor, dim: int, half_to_float: bool, name: str) -> Spec:
    check(
        not half_to_float,
        f"{name} with half to float conversion is not supported on CPU; convert the input first",
    )
    check_dtype(self, name, boolean=False, integer=False, complex=False)
    wrap_dim(dim, self.ndim, name=name)
    return like(self)


def softmax_backward_rule(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType, name: str
) -> Spec:
    check(
        tuple(grad_output.shape) == tuple(output.shape),
        f"{name}: grad_output and output must have the "
        f"same shape: they are {tuple(grad_output.shape)} and {tuple(output.shape)}",
    )
    check_dtype(grad_output, name, boolean=False, integer=False, complex=False)
    wrap_dim(dim, grad_output.ndim, name=name)
    return like(grad_output, input_dtype)


define(
    "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    api=FUNCTION,
    shape=lambda self, dim, half_to_float: softmax_rule(self, dim, half_to_float, "softmax"),
)
define(
    "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
    api=FUNCTION,
    shape=lambda self, dim, half_to_float: softmax_rule(self, dim, half_to_float, "log_softmax"),
)
define(
    "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    api=FUNCTION,
    shape=lambda grad_output, output, dim, input_dtype: softmax_backward_rule(
        grad_output, output, dim, input_dtype, "_softmax_backward_data"
    ),
)
define(
    "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) "
    "-> Tensor",
    api=FUNCTION,
    shape=lambda grad_output, output, dim, input_dtype: softmax_backward_rule(
        grad_output, output, dim, input_dtype, "_log_softmax_backward_data"
    ),
)
