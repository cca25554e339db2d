"""Questions about types: `result_type` and `typename`."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..core.promotion import common
from ..core.tensor import Tensor

__all__ = ["result_type", "typename"]


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype that arithmetic on two tensors or numbers gives.

    >>> rl.result_type(rl.tensor([1]), 1.0)
    rushlight.float32
    """
    for value in (tensor1, tensor2):
        if not isinstance(value, Tensor | bool | int | float | complex):
            raise TypeError(f"result_type takes tensors and numbers, not {type(value).__name__}")
    return common(
        [
            (value.dtype, value.ndim == 0) if isinstance(value, Tensor) else value
            for value in (tensor1, tensor2)
        ]
    )


def typename(obj: Any) -> str:
    """The name of a tensor's type, such as 'rushlight.FloatTensor', or of any object's class.

    >>> rl.typename(rl.tensor([1.0]))
    'rushlight.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = "" if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}."
    return f"{module}{kind.__qualname__}"
