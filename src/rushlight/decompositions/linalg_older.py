"""Linear algebra under older names."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, composite
from ..core.tensor import Tensor


@composite("vander(Tensor x, int? N=None, bool increasing=False) -> Tensor", api=FUNCTION)
def vander(x: Tensor, N: int | None, increasing: bool) -> Tensor:
    """Columns are powers of `x`, the highest first unless `increasing`."""
    check(x.ndim == 1, "x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    check(count >= 0, "N must be non-negative.")
    wide = x if x.dtype.is_floating_point or x.dtype.is_complex else x.to(DTYPES["int64"])
    exponents = run_name("arange", count, None, None, x.device, None)
    powers = run_name("pow.Tensor_Tensor", wide.unsqueeze(-1).expand((x.shape[0], count)), exponents)
    return powers if increasing else powers.flip((-1,))
