"""An ONNX model that is being made: nodes, constants, and values that know their dtypes and ranks.

Numbers that are computed of sizes are int64 tensors of shape (1,), so that they can be put together to shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.dtypes import BY_NUMPY, DTYPES, DType

FLOAT, INT64, BOOL, INT32 = (DTYPES[name] for name in ("float32", "int64", "bool", "int32"))
# the numbers that the format has for dtypes
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
    "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "float8_e4m3fn": 17,
    "float8_e5m2": 19,
}  # fmt: skip


def package() -> Any:
    """The `onnx` package."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise ImportError(
            "writing ONNX models needs the onnx package: pip install 'rushlight[onnx]'"
        ) from None
    return onnx


def onnx_type(dtype: DType) -> int:
    """ONNX's number for a dtype. NotImplementedError if it has none."""
    if dtype.name not in _TYPES:
        raise NotImplementedError(f"ONNX has no operators on {dtype.name}")
    return _TYPES[dtype.name]


@dataclass(frozen=True)
class Value:
    """A tensor of the model. `shape` is that of the example: of use for its length, and for sizes that stay."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Number:
    """A number that is computed of sizes: a tensor of shape (1,)."""

    name: str
    value: Any  # what it is in the example

    @property
    def dtype(self) -> DType:
        return INT64 if isinstance(self.value, int) else DTYPES["float64"]


@dataclass
class Model:
    """The nodes and constants of a model. A tensor is given by its name, as a Value, or as an array."""

    opset: int
    nodes: list[Any] = field(default_factory=list)
    initializers: list[Any] = field(default_factory=list)
    _constants: dict[tuple[Any, ...], str] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)

    def name(self, stem: str) -> str:
        """A name that nothing has yet."""
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return stem if count == 0 else self.name(f"{stem}_{count}")

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node, and give the names of its results: one, or a list of several."""
        names = [self.tensor(given) for given in inputs]
        made = [self.name(kind.lower()) for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(package().helper.make_node(kind, names, made, name=made[0], **given))
        return made[0] if outputs == 1 else made

    def tensor(self, given: Any) -> str:
        """The name of a tensor; "" for an input that is left out."""
        if given is None:
            return ""
        if isinstance(given, str):
            return given
        return given.name if isinstance(given, Value | Number) else self.constant(given)

    def constant(self, array: Any, dtype: DType | None = None) -> str:
        """A constant; equal ones are one. Python's integers are int64."""
        array = np.asarray(array, None if dtype is None else dtype.numpy)
        key = (array.shape, array.dtype.str, array.dtype.name, array.tobytes())
        if key not in self._constants:
            name = self._constants[key] = self.name("constant")
            self.initializers.append(to_proto(array, name))
        return self._constants[key]

    def cast(self, given: Any, dtype: DType) -> Any:
        """`given` with a dtype: a tensor, a number that is computed, or one that is known."""
        if isinstance(given, Value):
            return given if given.dtype is dtype else self.op("Cast", given, to=onnx_type(dtype))
        if isinstance(given, Number):
            scalar = self.op("Squeeze", given, np.array([0]))
            return scalar if given.dtype is dtype else self.op("Cast", scalar, to=onnx_type(dtype))
        return self.constant(given, dtype)

    def shape(self, sizes: Iterable[Any]) -> Any:
        """A shape of numbers, some of them computed."""
        sizes = list(sizes)
        if not any(isinstance(size, Number) for size in sizes):
            return np.array(sizes, np.int64)
        parts: list[Any] = []
        for size in sizes:
            if isinstance(size, Number):
                parts.append(size)
            elif parts and isinstance(parts[-1], list):
                parts[-1].append(size)
            else:
                parts.append([size])
        named = [np.array(part, np.int64) if isinstance(part, list) else part for part in parts]
        return named[0] if len(named) == 1 else self.op("Concat", *named, axis=0)

    def row(self, number: Any) -> Any:
        """A number as a tensor of shape (1,)."""
        return number if isinstance(number, Number) else np.array([number], np.int64)

    def without_copies(self, outputs: Sequence[str]) -> None:
        """Remove nodes that only give another name, and those that nobody needs."""
        kept = set(outputs)
        known: dict[str, str] = {}
        nodes = []
        for node in self.nodes:
            inputs = [known.get(name, name) for name in node.input]
            del node.input[:]
            node.input.extend(inputs)
            if node.op_type == "Identity" and node.output[0] not in kept:
                known[node.output[0]] = node.input[0]
            else:
                nodes.append(node)
        needed = set(outputs)
        live = []
        for node in reversed(nodes):
            if needed.intersection(node.output):
                live.append(node)
                needed.update(node.input)
        self.nodes = live[::-1]
        self.initializers = [tensor for tensor in self.initializers if tensor.name in needed]


def to_proto(array: np.ndarray, name: str) -> Any:
    """An array as a constant of a model."""
    dtype = BY_NUMPY[array.dtype]
    if array.dtype.kind in "biuf" and array.dtype.name != "bfloat16":
        return package().numpy_helper.from_array(array, name)
    data = np.ascontiguousarray(array).tobytes()
    return package().helper.make_tensor(name, onnx_type(dtype), array.shape, data, raw=True)


__all__ = ["Model", "Number", "Value", "onnx_type", "to_proto"]
