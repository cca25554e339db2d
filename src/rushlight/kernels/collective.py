"""Collectives: begun with a new array for the result, which is there after `wait_tensor`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..comm import functional
from ..core.registry import kernel
from ..core.shapes import Spec
from ..ops.collective import SPACE


def _whole(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array)


# How each operator begins: `begin(arguments, out)`, the arguments in the schema's order, tensors as contiguous
# arrays, `out` the array for the result. Compiled programs call these with memory of their own.
BEGIN: dict[str, Callable[[Sequence[Any], np.ndarray], None]] = {
    "all_reduce": lambda a, out: functional.all_reduce(a[0], a[1], a[2], out),
    "all_gather_into_tensor": lambda a, out: functional.all_gather(a[0], a[2], out),
    "reduce_scatter_tensor": lambda a, out: functional.reduce_scatter(a[0], a[1], a[3], out),
    "all_to_all_single": lambda a, out: functional.all_to_all(a[0], a[1], a[2], a[3], out),
    "broadcast": lambda a, out: functional.broadcast(a[0], a[1], a[2], out),
    "isend": lambda a, out: functional.send(a[0], a[1], a[2], a[3], out),
    "irecv": lambda a, out: functional.receive(a[1], a[2], a[3], out),
}


def _begun(name: str, args: Sequence[Any], out: Spec) -> np.ndarray:
    assert out.shape is not None
    result = np.empty(out.shape, out.dtype.numpy)
    BEGIN[name]((_whole(args[0]), *args[1:]), result)
    return result


kernel(
    SPACE + "all_reduce",
    lambda input, reduce_op, group_name, out: _begun("all_reduce", (input, reduce_op, group_name), out),
)
kernel(
    SPACE + "all_gather_into_tensor",
    lambda input, group_size, group_name, out: _begun(
        "all_gather_into_tensor", (input, group_size, group_name), out
    ),
)
kernel(
    SPACE + "reduce_scatter_tensor",
    lambda input, reduce_op, group_size, group_name, out: _begun(
        "reduce_scatter_tensor", (input, reduce_op, group_size, group_name), out
    ),
)
kernel(
    SPACE + "all_to_all_single",
    lambda input, output_split_sizes, input_split_sizes, group_name, out: _begun(
        "all_to_all_single", (input, output_split_sizes, input_split_sizes, group_name), out
    ),
)
kernel(
    SPACE + "broadcast",
    lambda input, src, group_name, out: _begun("broadcast", (input, src, group_name), out),
)
kernel(
    SPACE + "isend",
    lambda tensor, dst, tag, group_name, out: _begun("isend", (tensor, dst, tag, group_name), out),
)
kernel(
    SPACE + "irecv",
    lambda tensor, src, tag, group_name, out: _begun("irecv", (tensor, src, tag, group_name), out),
)


@kernel(SPACE + "wait_tensor")
def wait_tensor(tensor: np.ndarray) -> np.ndarray:
    functional.wait(tensor)
    return tensor
