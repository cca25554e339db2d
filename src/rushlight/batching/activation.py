"""Batching rules of softmax and its relatives."""

from __future__ import annotations

from .declare import Along, batching

batching(["_softmax", "_log_softmax"], Along("dim"))
batching(
    ["_softmax_backward_data", "_log_softmax_backward_data"], Along("dim", of="output", all_batched=True)
)
