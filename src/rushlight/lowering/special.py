"""Special functions have scalar bodies; what has none stays a call."""

from __future__ import annotations

from .declare import extern

extern("two Airy functions at once, by the library", "_airy_ai_slope")
