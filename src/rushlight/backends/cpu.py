"""The processor's instruction set, by PyTorch's names for it."""

from __future__ import annotations

import functools

__all__ = ["get_cpu_capability"]


@functools.cache
def get_cpu_capability() -> str:
    """ "AVX512", "AVX2" or "DEFAULT"."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line.split() for line in file if line.startswith("flags")), [])
    except OSError:
        flags = []
    return "AVX512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "DEFAULT"
