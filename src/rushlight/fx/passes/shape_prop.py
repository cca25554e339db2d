"""`ShapeProp`: runs a graph and notes of each node what it made."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..._subclasses.fake_tensor import FakeTensorMode
from ...core.dtypes import DType
from ...core.tensor import Tensor
from ...core.tokens import Size, channels_last, channels_last_3d, contiguous_format, memory_format
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor besides its data."""

    shape: Size
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = [contiguous_format]
    if result.ndim == 4:
        formats.append(channels_last)
    if result.ndim == 5:
        formats.append(channels_last_3d)
    found = next((f for f in formats if include_contiguity and result.is_contiguous(memory_format=f)), None)
    quantized = bool(result.is_quantized)
    parameters = {"qscheme": result.qscheme()} if quantized else {}
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, quantized, parameters
    )


class ShapeProp(Interpreter):
    """`propagate(*args)` runs the graph; each node has `meta["tensor_meta"]` and `meta["type"]` afterwards. With
    a `fake_mode`, tensors without data run."""

    def __init__(self, gm: Any, fake_mode: FakeTensorMode | None = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        found = False

        def described(value: Any) -> Any:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        meta = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph; what it returns."""
        if self.fake_mode is not None:
            args = tuple(self.fake_mode.from_tensor(a) if isinstance(a, Tensor) else a for a in args)
        return super().run(*args)
