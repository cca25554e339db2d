"""Arrays over the bytes of storages."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .dtypes import DType
from .errors import check
from .shapes import Shape, check_rank, extent
from .storage import Storage
from .tokens import Size, device


def array_over(buffer: np.ndarray, shape: Shape, strides: Shape, offset: int, dtype: DType) -> np.ndarray:
    """An ndarray over `buffer`; NumPy checks that it stays inside."""
    itemsize = dtype.itemsize
    if 0 in shape:
        return np.empty(shape, dtype.numpy)
    try:
        return np.ndarray(
            shape, dtype.numpy, buffer, offset * itemsize, tuple([s * itemsize for s in strides])
        )
    except (ValueError, OverflowError):
        check_rank(shape)
        if any(n == 1 and s for n, s in zip(shape, strides, strict=True)):  # such strides say nothing
            steps = tuple([s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)])
            return array_over(buffer, shape, steps, offset, dtype)
        needed = (offset + 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))) * itemsize
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)} and storage offset "
            f"{offset} need "
            f"{needed} bytes, but the storage has {buffer.nbytes}"
        ) from None


def reachable(storage: Storage, shape: Shape, strides: Shape, offset: int, dtype: DType) -> np.ndarray:
    """An array over `storage`; where that has shrunk below what it needs, zeros that cannot be written."""
    assert storage.buffer is not None
    if (offset + extent(shape, strides)) * dtype.itemsize <= storage.buffer.nbytes:
        return array_over(storage.buffer, shape, strides, offset, dtype)
    return np.broadcast_to(np.zeros((), dtype.numpy), shape)


def legacy_arguments(args: tuple[Any, ...], options: dict[str, Any], kind: str = "cpu") -> tuple[Any, ...]:
    """The arguments of an older constructor, `Tensor(...)` or `x.new(...)`, by position; of options it has a
    device, that must be of the `kind` that it makes tensors on, and names of its one argument."""
    given = [options[name] for name in ("size", "data", "other") if name in options]
    unknown = options.keys() - {"size", "data", "other", "device"}
    check(
        not unknown and len(given) + len(args) <= max(len(args), 1),
        f"new() received an invalid combination of arguments: the only options are a device and one of size, "
        f"data and other, but got {', '.join(sorted(options))}; use rushlight.tensor(data) for others",
        TypeError,
    )
    args = (Size(given[0]),) if "size" in options else (*args, *given)
    wanted = options.get("device")
    check(
        wanted is None or device(wanted).type == kind,
        f"legacy constructor expects device type: {kind} but device type: {wanted} was passed; use "
        "rushlight.tensor(..., device=device)",
    )
    check(
        wanted is None or not args or not hasattr(args[0], "requires_grad"),
        "Legacy tensor constructor of the form Tensor(tensor, device=device) is not supported. Use "
        "rushlight.tensor(...) or rushlight.as_tensor(...) instead",
    )
    return args


def legacy_data(args: tuple[Any, ...]) -> np.ndarray:
    """The array behind the legacy constructor `Tensor(sizes...)`, `Tensor(sequence)` or, of a subclass,
    `Tensor(tensor)`."""
    if len(args) == 1 and hasattr(args[0], "numpy_array"):
        return args[0].numpy_array()
    dtype = dtypes.get_default_dtype().numpy
    if len(args) == 1 and isinstance(args[0], list | tuple | np.ndarray) and not isinstance(args[0], Size):
        return np.array(args[0], dtype)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], Size) else args
    if not args:
        sizes = (0,)
    check(
        all(isinstance(n, int) for n in sizes),
        "Tensor() takes sizes as integers, or one sequence of data; "
        "use rushlight.tensor(data) to build a tensor from values",
        TypeError,
    )
    return np.empty(tuple(sizes), dtype)
