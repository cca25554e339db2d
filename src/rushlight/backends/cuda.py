"""Libraries of CUDA, which are not called; and which attention was asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]


@dataclass
class _Products:
    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False
    fp32_precision: str = "none"


@dataclass
class _Attention:
    flash: bool = True
    math: bool = True
    mem_efficient: bool = True
    cudnn: bool = True


matmul = _Products()
_attention = _Attention()


def is_built() -> bool:
    return False


def flash_sdp_enabled() -> bool:
    return _attention.flash


def enable_flash_sdp(enabled: bool) -> None:
    _attention.flash = bool(enabled)


def math_sdp_enabled() -> bool:
    return _attention.math


def enable_math_sdp(enabled: bool) -> None:
    _attention.math = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    return _attention.mem_efficient


def enable_mem_efficient_sdp(enabled: bool) -> None:
    _attention.mem_efficient = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    return _attention.cudnn


def enable_cudnn_sdp(enabled: bool) -> None:
    _attention.cudnn = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """A context with these switches."""
    old = dict(vars(_attention))
    vars(_attention).update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        vars(_attention).update(old)
