"""Devices, layouts, memory formats and sizes: the small value types of the public interface.

In:  strings, ints and iterables of ints from the user.
Out: immutable, hashable values with PyTorch's attributes, equality and error types.

Invariants
- Each layout, memory format and (type, index) device exists once; copying and pickling give the same object.
- A `Size` is a tuple; slicing, adding and repeating one give a `Size`.
- `make_size` trusts its argument: the fast way for shapes that are already ints (or symbolic extents).
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, SupportsIndex, final, overload

from .modes import MODES
from .nested_int import NestedInt
from .shown_name import SHOWN
from .symbols import SymInt


class _Immutable:
    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable; cannot delete {name!r}")


# --- device ---------------------------------------------------------------------------------------

_DEVICE = re.compile(r"([a-z]+)(?::(0|[1-9][0-9]*))?", re.ASCII)
_DEVICE_TYPES = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)
_DEVICES: dict[tuple[str, int | None], device] = {}


@final
class device(_Immutable):
    """Where a tensor lives: `cpu`, or `meta` for tensors that have a shape and no data.

    device("cpu"), device("cpu:0"), device("cpu", 0), device(another_device). As in PyTorch, `device("cpu")`
    and `device("cpu:0")` are different values. Other devices have names as well, so that programs can speak
    of them; `place` refuses them where a tensor would have to live there. `with device("meta"):` makes it the
    device of new tensors.

    >>> rl.device("cpu").type
    'cpu'
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __new__(cls, type: str | device, index: int | None = None) -> device:
        if isinstance(type, device) and index is None:
            return type
        if not isinstance(type, str):
            _refuse_device(type, index)
        known = _DEVICES.get((type, index))
        if known is not None and index.__class__ is not bool:
            return known
        return _intern_device(cls, *_parse_device(type, index))

    def __repr__(self) -> str:
        suffix = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{suffix})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type, self.index))

    def __enter__(self) -> device:
        MODES.devices = (*MODES.devices, self)
        return self

    def __exit__(self, *exception: object) -> None:
        MODES.devices = MODES.devices[:-1]

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: object) -> device:
        return self


def _refuse_device(type: object, index: object) -> NoReturn:
    if isinstance(type, int) and not isinstance(type, bool) and index is None:
        raise RuntimeError(
            f"device: index {type} names an accelerator; rushlight runs on cpu and meta, use device('cpu')"
        )
    raise TypeError(
        f"device: expected a device, or a str such as 'cpu' and an int index, got {type!r} and {index!r}"
    )


def _parse_device(text: str, index: int | None) -> tuple[str, int | None]:
    match = _DEVICE.fullmatch(text)
    if match is None:
        raise RuntimeError(
            f"device: invalid device string {text!r}; expected 'cpu' or 'meta', optionally "
            "with an index as in 'cpu:0'"
        )
    kind, inline = match.groups()
    if kind not in _DEVICE_TYPES:
        raise RuntimeError(
            f"device: {kind!r} is none of {', '.join(_DEVICE_TYPES)}; rushlight runs on cpu and meta"
        )
    if inline is None and index is None:
        return kind, None
    if index is None:
        return kind, int(inline)
    if inline is not None:
        raise RuntimeError(f"device: {text!r} includes an index, yet index={index} was passed as well")
    if not isinstance(index, int) or isinstance(index, bool):
        raise TypeError(f"device: index must be an int, got {index.__class__.__name__}")
    if index < 0:
        raise RuntimeError(f"device: the index must not be negative, got {index}")
    return kind, index


def _intern_device(cls: type[device], kind: str, index: int | None) -> device:
    known = _DEVICES.get((kind, index))
    if known is not None:
        return known
    made = object.__new__(cls)
    object.__setattr__(made, "type", kind)
    object.__setattr__(made, "index", index)
    return _DEVICES.setdefault((kind, index), made)


cpu = device("cpu")
meta = device("meta")


def place(wanted: str | device) -> device:
    """The device to put a tensor on; refuses those that are not here."""
    found = device(wanted)
    if found.type in ("cpu", "meta"):
        return found
    message = f"device: {str(found)!r} is not available; rushlight runs on cpu and meta"
    if found.type == "cuda":
        message += " (Torch not compiled with CUDA enabled)"
    if found.type in ("cuda", "xpu"):
        raise AssertionError(message)  # PyTorch's type for builds without it
    raise NotImplementedError(message)


# --- layout, memory format ------------------------------------------------------------------------


class _Token(_Immutable):
    __slots__ = ("name",)

    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        return f"{SHOWN.package}.{self.name}"

    def __reduce__(self) -> str:  # pickle looks the name up in this module
        return self.name

    def __copy__(self) -> _Token:
        return self

    def __deepcopy__(self, memo: object) -> _Token:
        return self


class layout(_Token):
    """How the elements of a tensor are stored.

    >>> rl.ones(1).layout
    rushlight.strided
    """

    __slots__ = ()


class memory_format(_Token):
    """The order of the dimensions in memory.

    >>> rl.ones(1, 3, 2, 2).contiguous(memory_format=rl.channels_last).stride()
    (12, 1, 6, 3)
    """

    __slots__ = ()


class qscheme(_Token):
    """How the integers of a quantized tensor stand for numbers.

    >>> rl.per_tensor_affine
    rushlight.per_tensor_affine
    """

    __slots__ = ()


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
sparse_csc = layout("sparse_csc")
sparse_bsr = layout("sparse_bsr")
sparse_bsc = layout("sparse_bsc")
jagged = layout("jagged")

contiguous_format = memory_format("contiguous_format")
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")

per_tensor_affine = qscheme("per_tensor_affine")
per_channel_affine = qscheme("per_channel_affine")
per_tensor_symmetric = qscheme("per_tensor_symmetric")
per_channel_symmetric = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")

LAYOUTS: dict[str, layout] = {
    token.name: token
    for token in (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc, jagged)
}
MEMORY_FORMATS: dict[str, memory_format] = {
    token.name: token for token in (contiguous_format, preserve_format, channels_last, channels_last_3d)
}


# --- size -----------------------------------------------------------------------------------------


@final
class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple of ints that stays a Size when sliced, added or repeated.

    >>> rl.Size([2, 3]).numel()
    6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:
        size = make_size(sizes)
        for extent in size:
            if type(extent) is not int:  # a live number passes for an int by its __class__
                return make_size([_checked_extent(*item) for item in enumerate(size)])
        return size

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        count = 1
        for extent in self:
            count *= extent
        return count

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, key: slice, /) -> Size: ...
    def __getitem__(self, key: SupportsIndex | slice, /) -> int | Size:
        item = tuple.__getitem__(self, key)
        return make_size(item) if key.__class__ is slice else item  # type: ignore[arg-type, return-value]

    def __add__(self, other: object, /) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(f"Size: can only add a tuple, not a {type(other).__name__}")
        return self._joined(tuple.__add__(self, other), other)

    def __radd__(self, other: object, /) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return self._joined(other + tuple(self), other)

    @staticmethod
    def _joined(joined: tuple[Any, ...], other: tuple[Any, ...]) -> Size:
        return make_size(joined) if other.__class__ is Size else Size(joined)

    def __mul__(self, count: SupportsIndex, /) -> Size:
        return make_size(tuple.__mul__(self, count))

    def __rmul__(self, count: SupportsIndex, /) -> Size:
        return make_size(tuple.__mul__(self, count))

    def __repr__(self) -> str:
        return f"{SHOWN.package}.Size([{', '.join(map(repr, self))}])"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Size, (tuple(self),))


def _checked_extent(position: int, extent: SupportsIndex) -> int:
    if isinstance(extent, NestedInt) or type(extent) is SymInt:
        return extent  # type: ignore[return-value]
    try:
        return operator.index(extent)
    except TypeError:
        raise TypeError(
            f"Size: expected an iterable of ints, but item {position} is a {type(extent).__name__}"
        ) from None


make_size: Callable[[Iterable[Any]], Size] = functools.partial(tuple.__new__, Size)
