"""Methods of tensors that convert: to, float, type, cpu."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .dispatch import run_name
from .dtypes import DType
from .errors import check
from .shown_name import SHOWN
from .tensor import Tensor, tensor_method
from .tokens import device, memory_format, place, preserve_format


@tensor_method
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """The tensor in another dtype, device or memory format.

    Itself where nothing changes and copy is False.
    """
    if len(args) == 1 and not kwargs and isinstance(args[0], DType):
        return (
            self
            if args[0] is self.dtype
            else run_name("_to_copy", self, args[0], None, None, None, False, None)
        )
    dtype, where, copy, layout_format = _parse_to(args, kwargs)
    same_dtype = dtype is None or dtype is self.dtype
    same_device = where is None or where.type == self.device.type
    if (
        same_dtype
        and same_device
        and not copy
        and (layout_format in (None, preserve_format) or self.is_contiguous(layout_format))
    ):
        return self
    return run_name("_to_copy", self, dtype, None, where, None, False, layout_format)


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[DType | None, device | None, bool, Any]:
    args, kwargs = tuple(args), dict(kwargs)
    dtype, where = kwargs.pop("dtype", None), kwargs.pop("device", None)
    layout_format = kwargs.pop("memory_format", None)
    other = kwargs.pop("other", None)
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    if other is not None:
        dtype, where = other.dtype, other.device
    elif rest:
        first = rest.pop(0)
        if first is None or isinstance(first, str | device):
            where = first
            if rest:
                dtype = rest.pop(0)
        elif isinstance(first, DType | type):
            dtype = first
        else:
            raise TypeError(f"to(): expected a dtype, a device or a tensor, got {type(first).__name__}")
    kwargs.pop("non_blocking", None)
    copy = kwargs.pop("copy", False)
    flags = [flag for flag in rest if isinstance(flag, bool)]
    if len(flags) != len(rest) or len(rest) > 2 or kwargs:
        raise TypeError(
            "to() takes a dtype, a device or a tensor, then "
            f"non_blocking and copy, then memory_format by keyword; got {args} {kwargs}"
        )
    if len(flags) == 2:
        copy = flags[1]
    if isinstance(dtype, type):
        dtype = {
            float: dtypes.float64,
            complex: dtypes.complex128,
            int: dtypes.int64,
            bool: dtypes.bool_,
        }.get(dtype, dtype)
    check(
        dtype is None or isinstance(dtype, DType),
        f"to(): dtype must be a rushlight dtype, not {dtype!r}",
        TypeError,
    )
    return dtype, None if where is None else place(where), copy, layout_format


def _conversion(name: str, dtype: DType) -> None:
    def convert(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
        if memory_format is preserve_format:
            return self.to(dtype)
        return self.to(dtype, memory_format=memory_format)

    convert.__name__ = name
    convert.__doc__ = f"The tensor as {dtype.name}."
    tensor_method(convert)


for _name, _dtype in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "bfloat16": "bfloat16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "chalf": "complex32",
    "cfloat": "complex64",
    "cdouble": "complex128",
}.items():
    _conversion(_name, dtypes.DTYPES[_dtype])


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Without argument the type's name, such as 'rushlight.FloatTensor'; otherwise a cast."""
    if dtype is None:
        quantized = "quantized." if self.dtype.is_quantized else ""
        return f"{SHOWN.package}.{quantized}{self.dtype.torch_name}Tensor"
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2].removesuffix("Tensor")
        matching = [d for d in dtypes.DTYPES.values() if short in (d.torch_name, d.name)]
        check(len(matching) == 1, f"invalid type: '{dtype}'", ValueError)
        dtype = matching[0]
    elif isinstance(dtype, type):
        kind: Any = dtype
        if kind is Tensor:
            return self.to(dtypes.get_default_dtype())
        check(hasattr(kind, "dtype"), f"invalid type: {kind.__name__!r}", ValueError)  # LongTensor has one
        dtype = kind.dtype
    return self.to(dtype)


@tensor_method
def cpu(self: Tensor, memory_format: memory_format = preserve_format) -> Tensor:
    return self.to("cpu", memory_format=memory_format)


@tensor_method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return self.to(other.dtype)
