"""What this is a version of."""

from __future__ import annotations

__all__ = ["__version__", "cuda", "debug", "hip", "xpu"]

__version__ = "0.1.0"
debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
