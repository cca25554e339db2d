"""What libraries ask of the compiler."""

from __future__ import annotations

from ..core.tokens import device

__all__ = ["is_compile_supported"]


def is_compile_supported(device_type: str | device) -> bool:
    """Whether `compile` makes code for devices of this type.

    >>> rl._dynamo.utils.is_compile_supported("cpu")
    True
    """
    return device(device_type).type == "cpu"
