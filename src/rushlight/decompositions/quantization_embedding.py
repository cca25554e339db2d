"""`quantized::embedding_bag_byte_*`: rows of a table as bytes, each with its scale and its least value.

A packed row is the bytes of the row and then two float32 numbers: x = byte * scale + least.
"""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import INTERNAL, composite
from ..core.tensor import Tensor
from ..core.tokens import contiguous_format

_BYTE, _FLOAT = DTYPES["uint8"], DTYPES["float32"]
_TAIL = 8  # bytes of scale and least value
_TINY = 1e-8  # keeps rows of one value from dividing by nothing


@composite("quantized::embedding_bag_byte_unpack(Tensor weight) -> Tensor", api=INTERNAL)
def _unpack(weight: Tensor) -> Tensor:
    check(weight.dtype is _BYTE, f"embedding_bag_byte_unpack expects uint8, got {weight.dtype.name}")
    check(weight.shape[-1] >= _TAIL, "embedding_bag_byte_unpack: a packed row has at least 8 bytes")
    length = weight.shape[-1] - _TAIL
    tail = weight.narrow(-1, length, _TAIL).clone(memory_format=contiguous_format).view(_FLOAT)
    return weight.narrow(-1, 0, length).to(_FLOAT) * tail.narrow(-1, 0, 1) + tail.narrow(-1, 1, 1)


@composite("quantized::embedding_bag_byte_prepack(Tensor weight) -> Tensor", api=INTERNAL)
def _prepack(weight: Tensor) -> Tensor:
    rows = weight.to(_FLOAT)
    least, most = rows.amin(-1, True), rows.amax(-1, True)
    span = most - least
    levels = ((rows - least) * (255.0 / (span + _TINY))).round().to(_BYTE)
    tail = run_name("cat", (span / 255.0, least), -1).contiguous().view(_BYTE)
    return run_name("cat", (levels, tail), -1)
