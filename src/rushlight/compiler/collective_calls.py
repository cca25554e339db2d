"""Collectives between the native parts of a program: one call begins one in the program's own memory, another
waits.

Between the two the program computes. Reductions that are small begin together (comm/functional.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..comm import functional
from ..core.index_data import evaluate_data, to_data
from ..core.symbols import SymInt
from ..graph.ir import Node, map_values
from ..kernels.collective import BEGIN


def collective_call(
    node: Node, segment: dict[str, Any], sizes: Mapping[str, int]
) -> Callable[[dict[int, np.ndarray]], None]:
    """A call of an operator of the family `collective` on the buffers of the block."""
    (source,), (target,) = segment["inputs"], segment["outputs"]
    ((shape, strides),) = [
        tuple(tuple(evaluate_data(n, sizes) for n in part) for part in layout)
        for layout in segment["layouts"]
    ]
    args = numbers_in(node.args, sizes)
    result = numbers_in(node.outputs[0].shape, sizes)
    name = node.op.schema.name

    def begin(arrays: dict[int, np.ndarray]) -> None:
        values = np.ascontiguousarray(seen_as(arrays[source], shape, strides))
        given = map_values(args, lambda _: values)
        out = _block(arrays[target], result)
        if name == "all_reduce":
            functional.all_reduce(given[0], given[1], given[2], out, join=True)
        else:
            BEGIN[name](given, out)

    def wait(arrays: dict[int, np.ndarray]) -> None:
        values = seen_as(arrays[source], shape, strides)
        functional.wait(values)
        if functional.address(values) != functional.address(arrays[target]):
            _block(arrays[target], result)[...] = values

    return wait if name == "wait_tensor" else begin


def _block(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The memory of a buffer as a contiguous array."""
    return array.reshape(-1)[: int(np.prod(shape))].reshape(shape)


def numbers_in(argument: Any, sizes: Mapping[str, int]) -> Any:
    """An argument with numbers in place of sizes that change."""
    if type(argument) is SymInt:
        return evaluate_data(to_data(argument), sizes)
    return tuple(numbers_in(a, sizes) for a in argument) if type(argument) is tuple else argument


def seen_as(array: np.ndarray, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """The memory of `array` under another shape and strides (in elements)."""
    if 0 in shape:
        return np.empty(shape, array.dtype)
    words = array.view(f"V{array.itemsize}")  # NumPy's interface has no name for every dtype
    seen = np.lib.stride_tricks.as_strided(words, shape, tuple(s * array.itemsize for s in strides))
    return seen.view(array.dtype)
