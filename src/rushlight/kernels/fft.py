"""Fourier transforms on NumPy arrays, by scipy.fft with all threads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.lazy import LazyModule
from ..core.registry import kernel

fft = LazyModule("scipy.fft")

# scipy names the direction that is scaled; `normalization` says how the one at hand is.
_FORWARD = ("backward", "ortho", "forward")
_INVERSE = ("forward", "ortho", "backward")


def r2c(self: np.ndarray, dim: Sequence[int], normalization: int, onesided: bool) -> np.ndarray:
    function = fft.rfftn if onesided else fft.fftn
    return function(self, axes=dim, norm=_FORWARD[normalization], workers=-1)


def c2r(self: np.ndarray, dim: Sequence[int], normalization: int, last_dim_size: int) -> np.ndarray:
    sizes = [*(self.shape[d] for d in dim[:-1]), last_dim_size]
    return fft.irfftn(self, sizes, dim, norm=_INVERSE[normalization], workers=-1)


def c2c(self: np.ndarray, dim: Sequence[int], normalization: int, forward: bool) -> np.ndarray:
    if not dim:
        return self.copy()
    if forward:
        return fft.fftn(self, axes=dim, norm=_FORWARD[normalization], workers=-1)
    return fft.ifftn(self, axes=dim, norm=_INVERSE[normalization], workers=-1)


kernel("_fft_r2c", r2c)
kernel("_fft_c2r", c2r)
kernel("_fft_c2c", c2c)
