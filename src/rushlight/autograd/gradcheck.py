"""Checking derivatives against finite differences: gradcheck and gradgradcheck.

Everything is compared as a real linear map: a complex number counts as its real and imaginary part. Slow mode
compares whole Jacobians, fast mode their action on one random direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.steadiness import steady
from ..core.tensor import Tensor
from .api import grad
from .derivative_check import DerivativeCheck, GradcheckError
from .grad_mode import enable_grad
from .jacobians import get_analytical_jacobian, get_numerical_jacobian
from .real_vectors import as_tuple, from_real, real_count, strided_outputs, tensors, with_all_stored

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "gradcheck",
    "gradgradcheck",
]


@steady()
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Whether the derivatives of `func` at `inputs` (double precision) agree with finite differences.

    Of sparse inputs the elements that are stored are variables if `masked`, all elements otherwise. Sparse
    outputs are compared as strided tensors.

    >>> rl.autograd.gradcheck(rl.sin, rl.ones(2, dtype=rl.float64, requires_grad=True))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = as_tuple(inputs)
    check = DerivativeCheck(
        strided_outputs(func), given if masked else with_all_stored(given), eps, atol, rtol, nondet_tol
    )
    try:
        check.inputs_are_usable()
        if check.outputs_are_constant():
            return True
        numeric = check.numeric_slow() if not fast_mode else None
        if check_backward_ad:
            check.backward(numeric)
            check.deterministic()
            check.zero_gradients()
            if check_undefined_grad:
                check.undefined_gradients()
            if check_grad_dtypes:
                check.gradient_dtypes()
            if check_batched_grad:
                check.batched_gradients()
        if check_forward_ad:
            check.forward(numeric)
            if check_undefined_grad:
                check.undefined_tangents()
            if check_batched_forward_grad:
                check.batched_tangents()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


@steady()
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Whether the second derivatives of `func` at `inputs` agree with finite differences of the first.

    >>> rl.autograd.gradgradcheck(rl.sin, rl.ones(2, dtype=rl.float64, requires_grad=True))
    True
    """
    func = strided_outputs(func)
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    given = as_tuple(inputs) if masked else with_all_stored(as_tuple(inputs))
    outputs = [o for o in tensors((func(*given),)) if o.requires_grad and o.dtype.is_differentiable]
    weights = (
        _weights(outputs, gen_non_contig_grad_outputs) if grad_outputs is None else tensors((grad_outputs,))
    )
    number = len(given)
    wanted = [isinstance(value, Tensor) and value.requires_grad for value in given]

    def first(*args: Any) -> Any:
        values, cotangents = args[:number], args[number:]
        values = tuple(
            v._set_requires_grad() if needed else v for v, needed in zip(values, wanted, strict=True)
        )
        with enable_grad():
            found = [o for o in tensors((func(*values),)) if o.requires_grad and o.dtype.is_differentiable]
            leaves = [t for t in tensors(values) if t.requires_grad]
            grads = grad(found, leaves, cotangents, create_graph=True, allow_unused=True)
        return tuple(g for g in grads if g is not None)

    return gradcheck(
        first,
        (*given, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


def _weights(outputs: Sequence[Tensor], non_contiguous: bool) -> list[Tensor]:
    random = np.random.default_rng(3)
    weights = []
    for output in outputs:
        weight = from_real(random.standard_normal(real_count(output)), output)
        if non_contiguous and weight.ndim:
            weight = weight.unsqueeze(-1).expand(*weight.shape, 2).clone()[..., 0]
        weights.append(weight._set_requires_grad())
    return weights
