"""gradcheck for functions of sparse tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """`gradcheck` with the keyword `masked`: whether elements that are not stored count as constants.

    The one of this package takes sparse inputs and outputs as it is.
    """

    @functools.wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, **options: Any) -> bool:
        return gradcheck(func, inputs, **{"masked": False, **options})

    return check
