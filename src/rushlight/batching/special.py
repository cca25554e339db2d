"""Batching rules of special functions that are not pointwise bodies."""

from __future__ import annotations

from .declare import Whole, batching

batching("_airy_ai_slope", Whole())
