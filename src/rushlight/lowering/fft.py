"""Fourier transforms are calls of the library's, which plans each length."""

from __future__ import annotations

from .declare import extern

extern("the library's transform, planned for its length", "_fft_r2c", "_fft_c2r", "_fft_c2c")
