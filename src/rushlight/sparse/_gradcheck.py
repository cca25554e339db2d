"""gradcheck for functions of sparse tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """`gradcheck` with the keyword `masked`: whether elements that are not stored count as constants.

    The one of this package takes sparse inputs and outputs as it is.

    >>> check = rl.sparse.as_sparse_gradcheck(rl.autograd.gradcheck)
    >>> x = rl.eye(2, dtype=rl.float64).to_sparse().requires_grad_()
    >>> check(lambda x: rl.sparse.sum(x), x)
    True
    """

    @functools.wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, **options: Any) -> bool:
        return gradcheck(func, inputs, **{"masked": False, **options})

    return check
