"""Batching rules of Fourier transforms."""

from __future__ import annotations

from .declare import Along, batching

batching(["_fft_r2c", "_fft_c2r", "_fft_c2c"], Along("dim"))
