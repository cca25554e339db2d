"""Choosing how `scaled_dot_product_attention` is computed.

There is one implementation here, whichever is chosen: eager code computes the product of queries and keys
whole, compiled code in linear memory. What is chosen is kept and can be asked for, so that programs which
choose run unchanged.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import bias as bias
from . import flex_attention as flex_attention

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.IntEnum):
    """Ways to compute attention.

    >>> rl.nn.attention.SDPBackend.MATH.name
    'MATH'
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_DEFAULT = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
)


class _Chosen(threading.local):
    backends: tuple[SDPBackend, ...] = _DEFAULT


_chosen = _Chosen()


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """The ways that are allowed at present."""
    return list(_chosen.backends)


@contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[Any]:
    """A region in which attention is computed in one of these ways.

    >>> with rl.nn.attention.sdpa_kernel(rl.nn.attention.SDPBackend.MATH):
    ...     F.scaled_dot_product_attention(rl.ones(1, 2, 4), rl.ones(1, 2, 4), rl.ones(1, 2, 4)).shape
    rushlight.Size([1, 2, 4])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else backends
    if not isinstance(chosen, list):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    saved = _chosen.backends
    _chosen.backends = tuple(dict.fromkeys(chosen))
    try:
        yield {}
    finally:
        _chosen.backends = saved
