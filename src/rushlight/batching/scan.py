"""Batching rules of running reductions."""

from __future__ import annotations

from .declare import Along, batching

batching(["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"], Along("dim"))
