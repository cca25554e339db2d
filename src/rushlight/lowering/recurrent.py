"""Recurrent networks decompose into products and pointwise operators; packing rows of data stays a call."""

from __future__ import annotations

from .declare import extern

extern(
    "how many rows each step has is data",
    "_pack_padded_sequence",
    "_pack_padded_sequence_backward",
    "_pad_packed_sequence",
)
