"""What a program raises that cannot be captured whole, under the names that PyTorch has for it."""

from __future__ import annotations

from ..capture.trace import CaptureError

__all__ = ["Unsupported"]

Unsupported = CaptureError
