"""Older ways to name a kind of tensor: `LongTensor` and its like, storages of numbers, default types.

`LongTensor` is no class of tensors but a name for those of one dtype: it makes them, and `isinstance` asks
for the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import dtypes
from ..core.arrays import legacy_arguments
from ..core.construct import tensor as _tensor
from ..core.dtypes import DType
from ..core.errors import check, warn_once
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..core.tokens import Size, device
from .link import API

_empty = API.functions[""]["empty"]


class tensortype(type):
    """The type of `LongTensor` and its like.

    >>> isinstance(rl.LongTensor, rl.tensortype)
    True
    """

    dtype: DType
    is_cuda = is_sparse = is_xpu = False

    def __new__(cls, name: str, bases: tuple[type, ...], fields: dict[str, Any]) -> Any:
        if bases:
            raise TypeError(
                f"type 'torch.{bases[0].__name__}' is not an acceptable base type; derive from Tensor"
            )
        return super().__new__(cls, name, bases, fields)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, Tensor)
            and instance.dtype is cls.dtype
            and instance._parts is None
            and instance.device.type == "cpu"
        )

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"


def legacy_tensor(dtype: DType, args: tuple[Any, ...]) -> Tensor:
    """What `LongTensor(*args)` is: sizes give an uninitialised tensor, a sequence its values."""
    if len(args) == 1 and not isinstance(args[0], int | Size):
        data = args[0]
        if isinstance(data, Tensor):
            check(
                data.dtype is dtype,
                f"expected a tensor of {dtype.name}, but got one of {data.dtype.name}; use Tensor.to(dtype)",
                TypeError,
            )
            return data.detach()
        check(
            isinstance(data, np.ndarray) or (hasattr(data, "__getitem__") and not isinstance(data, str)),
            f"new(): data must be a sequence (got {type(data).__name__})",
            TypeError,
        )
        return _tensor(data, dtype=dtype)
    sizes = args[0] if args and isinstance(args[0], Size) else args or (0,)
    check(all(isinstance(n, int) for n in sizes), "new(): sizes must be integers", TypeError)
    return _empty(tuple(sizes), dtype=dtype)


def _tensor_type(name: str, dtype: DType) -> tensortype:
    def new(cls: type, *args: Any, **options: Any) -> Tensor:
        return legacy_tensor(dtype, legacy_arguments(args, options) if options else args)

    return tensortype(
        name,
        (),
        {
            "__new__": new,
            "dtype": dtype,
            "__module__": "rushlight",
            "__doc__": (
                f"Tensors of {dtype.name} in memory of the processor.\n\n"
                f">>> rl.{name}([1, 0]).dtype\nrushlight.{dtype.name}\n"
            ),
        },
    )


FloatTensor = _tensor_type("FloatTensor", dtypes.float32)
DoubleTensor = _tensor_type("DoubleTensor", dtypes.float64)
HalfTensor = _tensor_type("HalfTensor", dtypes.float16)
BFloat16Tensor = _tensor_type("BFloat16Tensor", dtypes.bfloat16)
ByteTensor = _tensor_type("ByteTensor", dtypes.uint8)
CharTensor = _tensor_type("CharTensor", dtypes.int8)
ShortTensor = _tensor_type("ShortTensor", dtypes.int16)
IntTensor = _tensor_type("IntTensor", dtypes.int32)
LongTensor = _tensor_type("LongTensor", dtypes.int64)
BoolTensor = _tensor_type("BoolTensor", dtypes.bool_)


def set_default_tensor_type(t: Any) -> None:
    """Make `t`, such as DoubleTensor or its name, decide the default dtype.

    >>> rl.set_default_tensor_type(rl.FloatTensor)
    """
    warn_once(
        "set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "torch.set_default_dtype() and set_default_device()",
        2,
    )
    named = t.rpartition(".")[2] if isinstance(t, str) else None
    kind = next((kind for kind in _TENSOR_TYPES if kind is t or kind.__name__ == named), None)
    check(
        not getattr(t, "is_cuda", False),
        "set_default_tensor_type: Torch not compiled with CUDA enabled",
        TypeError,
    )
    if kind is None:
        raise TypeError(f"invalid type: {t!r}")
    check(
        kind.dtype.is_floating_point, "only floating-point types are supported as the default type", TypeError
    )
    dtypes.set_default_dtype(kind.dtype)


_TENSOR_TYPES = (
    FloatTensor,
    DoubleTensor,
    HalfTensor,
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    ShortTensor,
    IntTensor,
    LongTensor,
    BoolTensor,
)


_tensor_classes = set(_TENSOR_TYPES)


# The device of new tensors.


def set_default_device(device: Any) -> None:
    """Put tensors that functions make on `device`, unless they are told another; None is the processor.

    >>> rl.set_default_device("meta")
    >>> rl.ones(2).device
    device(type='meta')
    >>> rl.set_default_device(None)
    """
    chosen = None if device is None else _as_device(device)
    rest = MODES.devices[1:] if MODES.default_device else MODES.devices
    MODES.default_device = chosen is not None
    MODES.devices = rest if chosen is None else (chosen, *rest)


def get_default_device() -> device:
    """The device of tensors that functions make.

    >>> rl.get_default_device()
    device(type='cpu')
    """
    return MODES.devices[-1] if MODES.devices else _as_device("cpu")


_as_device = device


__all__ = [kind.__name__ for kind in _TENSOR_TYPES]
__all__ += ["get_default_device", "set_default_device", "set_default_tensor_type", "tensortype"]


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes of a tensor, as a tensor."""
    return _tensor([int(size) for size in input.shape], dtype=dtypes.int64)
