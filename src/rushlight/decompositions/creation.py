"""Tensors like others, clones and casts: operators in terms of simpler ones."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.registry import METHOD, composite
from ..core.tensor import Tensor
from ..core.tokens import memory_format as MemoryFormat
from ..core.tokens import preserve_format


@composite("contiguous(Tensor(a) self, *, MemoryFormat memory_format=contiguous_format) -> Tensor(a)",
           api=METHOD)
def contiguous(self: Tensor, memory_format: MemoryFormat) -> Tensor:
    """The tensor itself where its memory already has that order."""
    if memory_format is preserve_format or self.is_contiguous(memory_format):
        return self
    return run_name("clone", self, memory_format)
