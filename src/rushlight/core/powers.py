"""Powers by the numbers that PyTorch computes without `pow`: quicker, and with other rounding and signs.

`ops` is what computes: NumPy or a recorder of scalar code.
"""

from __future__ import annotations

from typing import Any


def power_by_number(ops: Any, x: Any, number: float, *, floating: bool) -> Any:
    """x to the power `number`, or None if that takes `pow`. Roots and quotients only of `floating` x."""
    if number == 1:
        return ops.mul(x, ops.constant(1, like=x))  # a new array of NumPy's
    if number == 2:
        return ops.mul(x, x)
    if number == 3:
        return ops.mul(ops.mul(x, x), x)
    if not floating:
        return None
    if number == 0.5:
        return ops.sqrt(x)
    divisor = {-0.5: ops.sqrt, -1: lambda x: x, -2: lambda x: ops.mul(x, x)}.get(number)
    return None if divisor is None else ops.div(ops.constant(1, like=x), divisor(x))
