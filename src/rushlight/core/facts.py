"""Operators that tell a fact about a tensor and compute nothing: `ops.aten.sym_size`, `ops.prim.device`, ...

They are no part of the registry, since no stage but eager execution has any use for them. Classes that want
to be asked for their shape or device are asked through them (python_dispatch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import LIBRARY, Api, Kind, OpDef
from .schema import parse_schema
from .tokens import contiguous_format


def _fact(schema: str, body: Callable[..., Any]) -> OpDef:
    parsed = parse_schema(schema)
    return LIBRARY.add(OpDef(parsed, Kind.COMPOSITE, "facts", api=Api.NONE, body=lambda args: body(*args)))


for _prefix in ("", "sym_"):
    _fact(f"{_prefix}size.int(Tensor self, int dim) -> SymInt", lambda self, dim: self.shape[dim])
    _fact(f"{_prefix}stride.int(Tensor self, int dim) -> SymInt", lambda self, dim: self.strides()[dim])
    _fact(f"{_prefix}numel(Tensor self) -> SymInt", lambda self: self.numel())
    _fact(f"{_prefix}storage_offset(Tensor self) -> SymInt", lambda self: self.storage_offset())
_fact("size(Tensor self) -> SymInt[]", lambda self: self.shape)
_fact("stride(Tensor self) -> SymInt[]", lambda self: self.strides())
_fact("dim(Tensor self) -> int", lambda self: self.ndim)
_fact("is_contiguous(Tensor self) -> bool", lambda self: self.is_contiguous())
_fact(
    "is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool",
    lambda self, memory_format: self.is_contiguous(memory_format),
)
_fact(
    "sym_is_contiguous(Tensor self, MemoryFormat memory_format=contiguous_format) -> SymBool",
    lambda self, memory_format: self.is_contiguous(memory_format or contiguous_format),
)
SHAPE = _fact("sym_size(Tensor self) -> SymInt[]", lambda self: self.shape)
STRIDES = _fact("sym_stride(Tensor self) -> SymInt[]", lambda self: self.strides())
DEVICE = _fact("prim::device(Tensor a) -> Device", lambda a: a.device)
LAYOUT = _fact("prim::layout(Tensor a) -> Layout", lambda a: a.layout)
