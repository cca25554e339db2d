"""Window functions (bartlett, blackman, hamming, hann, kaiser): schemas and shape rules."""

from __future__ import annotations

from typing import Any

from ..core import dtypes
from ..core.dtypes import DType
from ..core.errors import check
from ..core.registry import FUNCTION, define
from ..core.shapes import Spec
from .creation import OPTIONS, new


def _define(name: str, overload: str = "", parameters: str = "") -> None:
    def window(window_length: int, dtype: DType | None, layout: Any) -> Spec:
        dtype = dtype or dtypes.get_default_dtype()
        check(dtype.is_floating_point, f"{name} expects floating point dtypes, got {dtype.name}")
        check(window_length >= 0, f"{name} requires non-negative window_length, got {window_length}")
        return new((window_length,), dtype, layout, name)

    define(
        f"{name}{overload}(int window_length, {parameters}*, {OPTIONS}) -> Tensor", shape=window, api=FUNCTION
    )


for _name in ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"):
    _define(_name)
    _define(_name, ".periodic", "bool periodic, ")
_define("hamming_window", ".periodic_alpha", "bool periodic, float alpha, ")
_define("hamming_window", ".periodic_alpha_beta", "bool periodic, float alpha, float beta, ")
_define("kaiser_window", ".beta", "bool periodic, float beta, ")
