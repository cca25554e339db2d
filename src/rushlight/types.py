"""Names for the types of arguments."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from typing import TypeAlias

from .core.dtypes import DType
from .core.storage import Storage
from .core.tensor import Tensor
from .core.tokens import Size, device

__all__ = ["Device", "FileLike", "Number", "Storage"]

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_dtype: TypeAlias = DType
_device: TypeAlias = device
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex = builtins.int, builtins.float, builtins.bool, builtins.complex
