"""functional_call, in its former place."""

from __future__ import annotations

import warnings
from typing import Any

from ...func.modules import functional_call as _functional_call

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call `module` with some of its parameters and buffers replaced; use func.functional_call instead."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated. Please use `func.functional_call` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
