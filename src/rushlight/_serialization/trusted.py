"""Which names a file may use: those that only build tensors and plain containers, and those that the program
said it trusts.

A pickle names the functions that build its objects. `found` answers from a table; whatever is not in it is
refused, so that loading a file runs nothing that the file chose. Even of trusted names the modules that run
commands stay shut.
"""

from __future__ import annotations

import collections
import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from .._api.typed_storage import _storage_type_to_dtype_map
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, QUANTIZED, DType
from ..core.shapes import Spec, check_bytes, extent
from ..core.storage import UntypedStorage
from ..core.tensor import Tensor, alias, meta_tensor
from ..core.tokens import LAYOUTS, Size, device
from ..sparse import sparse_compressed_tensor, sparse_coo_tensor
from ..storage import TypedStorage
from .classes import TENSOR_CLASSES
from .safetensors import SerializationError

_BLOCKED = ("sys", "os", "posix", "nt")
_CODINGS = ("latin1", "latin-1", "ascii", "utf-8", "utf8", "raw_unicode_escape")

_trusted: dict[str, Any] = {}


class UnsafeError(SerializationError, pickle.UnpicklingError):
    """A file that asks for what is not trusted."""


class StorageType:
    """`torch.FloatStorage` and its like: what a storage is a row of; None for bytes."""

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


def refuse(message: str) -> UnsafeError:
    return UnsafeError(
        f"Weights only load failed. {message}. Only if the file comes from a source that you "
        "trust, load it with weights_only=False, which runs the code that it names"
    )


def found(module: str, name: str) -> Any:
    """What a file means by a name, if that is safe."""
    full = f"{module}.{name}"
    if module.partition(".")[0] in _BLOCKED:
        raise refuse(f"Trying to load unsupported GLOBAL {full} whose module {module} is blocked")
    if full in NAMES:
        return NAMES[full]
    if full in _trusted:
        return _trusted[full]
    known = storage_or_dtype(module, name)
    if known is None:
        raise refuse(
            f"Unsupported global: GLOBAL {full} was not an allowed global by default. If you trust "
            f"it, use `serialization.add_safe_globals([{name}])` or the "
            f"`serialization.safe_globals([{name}])` context manager to allowlist it; or save a "
            "state dict of tensors and plain containers"
        )
    return known


def is_safe(module: str, name: str) -> bool:
    try:
        found(module, name)
    except UnsafeError:
        return False
    return True


def storage_or_dtype(module: str, name: str) -> Any:
    """`torch.float32`, `torch.FloatStorage` and their like; None for other names."""
    if module in ("torch", "torch.storage"):
        if name in DTYPES:
            return DTYPES[name]
        if name in QUANTIZED:
            return QUANTIZED[name]
        if name in _storage_type_to_dtype_map():
            return StorageType(_storage_type_to_dtype_map()[name])
        if name == "UntypedStorage":
            return StorageType(None)
    return None


# Building. What comes from the file is checked before it is used.


def memory_of(storage: Any) -> UntypedStorage:
    if not isinstance(storage, TypedStorage):
        raise SerializationError("load: damaged file: a tensor without a storage")
    return storage._untyped_storage


def _tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    memory_of(storage)
    return _typed_tensor(storage, offset, size, stride, requires_grad, hooks, storage._dtype, metadata)


def _typed_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    shape, strides, memory = tuple(size), tuple(stride), memory_of(storage)
    counts = all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *strides, offset))
    if not counts or len(shape) != len(strides) or not isinstance(dtype, DType) or dtype.is_quantized:
        raise SerializationError(
            f"load: damaged file: shape {shape}, strides {strides}, offset {offset}, {dtype}"
        )
    check_bytes(shape, strides, dtype.itemsize, offset)
    if memory.buffer is None:
        return meta_tensor(Spec(shape, dtype, strides))._set_requires_grad(bool(requires_grad))
    if (offset + extent(shape, strides)) * dtype.itemsize > memory.nbytes() and 0 not in shape:
        raise SerializationError("load: damaged file: a tensor reaches beyond its storage")
    carrier = meta_tensor(Spec((0,), dtype, (1,)))
    carrier._storage, carrier._keys = memory, 0
    result = alias(carrier, Spec(shape, dtype, strides, offset))
    result._versions = None
    if metadata and metadata.get("conj"):
        result = result.conj()
    if metadata and metadata.get("neg"):
        result = result._neg_view()
    return result._set_requires_grad(bool(requires_grad)) if requires_grad else result


def _meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    shape, strides = tuple(size), tuple(stride)
    if not all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *strides)) or not isinstance(dtype, DType):
        raise SerializationError(f"load: damaged file: shape {shape}, strides {strides}, {dtype}")
    return meta_tensor(Spec(shape, dtype, strides))._set_requires_grad(bool(requires_grad))


def _nested(buffer: Any, sizes: Any, strides: Any, offsets: Any) -> Tensor:
    """A nested tensor of the strided layout; rows must lie inside of the buffer."""
    parts = (buffer, sizes, strides, offsets)
    try:
        if not all(isinstance(part, Tensor) for part in parts):
            raise RuntimeError("its parts are tensors")
        found: Tensor = run_name("_nested_view_from_buffer", *parts)
    except RuntimeError as error:
        raise SerializationError(f"load: damaged file: a nested tensor: {error}") from None
    return found


_unchecked: ContextVar[list[Callable[[], Tensor]] | None] = ContextVar("_unchecked", default=None)


@contextlib.contextmanager
def indices_come_later() -> Iterator[None]:
    """Inside, sparse tensors are made of indices that have not been read yet; they are checked at the end."""
    checks: list[Callable[[], Tensor]] = []
    token = _unchecked.set(checks)
    try:
        yield
    finally:
        _unchecked.reset(token)
    for check_one in checks:
        check_one()


def _sparse(kind: Any, data: tuple[Any, ...]) -> Tensor:
    def made(check_invariants: bool) -> Tensor:
        if kind.name == "sparse_coo":
            indices, values, size, *rest = data
            coalesced = rest[0] if rest else None
            return sparse_coo_tensor(
                indices, values, size, check_invariants=check_invariants, is_coalesced=coalesced
            )
        compressed, plain, values, size = data
        return sparse_compressed_tensor(
            compressed, plain, values, size, layout=kind, check_invariants=check_invariants
        )

    checks = _unchecked.get()
    if checks is not None:
        checks.append(lambda: made(True))
    return made(checks is None)


def _parameter(data: Tensor, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor:
    result = TENSOR_CLASSES["Parameter"](data._set_requires_grad(bool(requires_grad)))
    set_attributes(result, state)
    return result


def _from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor of a class of the program, which must be trusted."""
    result = function(*args)
    if isinstance(kind, type) and issubclass(kind, Tensor) and kind is not type(result):
        result = Tensor._make_subclass(kind, result, result.requires_grad)  # type: ignore[attr-defined]
        if hasattr(kind, "__setstate__"):
            result.__setstate__(state)
            return result
    set_attributes(result, state)
    return result


def _wrapper(
    kind: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any, place: Any, requires_grad: Any
) -> Tensor:
    """A tensor without data of a class of the program, which must be trusted."""
    if not (isinstance(kind, type) and issubclass(kind, Tensor) and kind._dispatches):
        raise SerializationError(f"load: damaged file: {kind} is no class that runs operators itself")
    _meta_tensor(dtype, size, stride, False)  # checks them
    made: Tensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        kind,
        size,
        strides=stride,
        storage_offset=int(offset),
        dtype=dtype,
        layout=layout,
        device=place,
        requires_grad=bool(requires_grad),
    )
    return made


def set_attributes(tensor: Any, state: Any) -> None:
    """What a program had set on a tensor: never what makes it a tensor, such as its memory. An object of a
    class of the program, which is trusted, may have attributes with the names of methods."""
    dictionary, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    for name, value in {**(dictionary or {}), **(slots or {})}.items():
        plain = type(tensor) is Tensor
        if (
            not isinstance(name, str)
            or name in Tensor.__annotations__
            or name.startswith("__")
            or (plain and hasattr(Tensor, name))
        ):
            raise refuse(f"The file sets the attribute {name!r} of a tensor")
        setattr(tensor, name, value)


def _encoded(text: str, coding: str) -> bytes:
    """How a pickle of protocol 2 spells bytes."""
    if coding.lower() not in _CODINGS:
        raise SerializationError(f"load: damaged file: bytes in the coding {coding!r}")
    return text.encode(coding)


def _bytearray(data: Any = b"", *coding: Any) -> bytearray:
    if isinstance(data, int):  # so many zeros, at the whim of the file
        raise SerializationError("load: damaged file: a bytearray of a size instead of bytes")
    return bytearray(data, *coding)


NAMES: dict[str, Any] = {
    "collections.OrderedDict": collections.OrderedDict,
    "collections.defaultdict": collections.defaultdict,
    "collections.Counter": collections.Counter,
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": _bytearray,
    "builtins.complex": complex,
    "builtins.slice": slice,
    "__builtin__.set": set,
    "__builtin__.bytearray": _bytearray,
    "torch.Size": lambda sizes: Size(sizes),
    "torch.device": lambda *place: device(*place),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": _meta_tensor,
    "torch._utils._rebuild_wrapper_subclass": _wrapper,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._utils._rebuild_parameter_with_state": _parameter,
    "torch._utils._rebuild_sparse_tensor": _sparse,
    "torch._utils._rebuild_nested_tensor": _nested,
    "torch._utils._rebuild_sparse_csr_tensor": _sparse,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch.Tensor": Tensor,
    "torch.nn.parameter.Parameter": lambda data=None, grad=True: _parameter(data, grad, None),
    "torch.serialization._get_layout": lambda name: LAYOUTS[name.removeprefix("torch.")],
    "_codecs.encode": _encoded,
}

BUILDABLE = (collections.OrderedDict, collections.defaultdict, collections.Counter)


def may_build(kind: type) -> bool:
    """Whether a file may give attributes to objects of a class."""
    return kind in BUILDABLE or any(kind is trusted for trusted in _trusted.values())


# What a program trusts.


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let `load` build objects of these classes, or with these functions.

    Each is a class or function, or a pair of one and the full name that files have for it.

    >>> rl.serialization.add_safe_globals([complex])
    >>> rl.serialization.get_safe_globals()
    [<class 'complex'>]
    >>> rl.serialization.clear_safe_globals()
    """
    for item in safe_globals:
        value, name = item if isinstance(item, tuple) else (item, f"{item.__module__}.{item.__qualname__}")
        _trusted[name] = value


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` allowed.

    >>> rl.serialization.get_safe_globals()
    []
    """
    return list(_trusted.values())


def clear_safe_globals() -> None:
    """Forgets what `add_safe_globals` allowed.

    >>> rl.serialization.clear_safe_globals(); rl.serialization.get_safe_globals()
    []
    """
    _trusted.clear()


@contextlib.contextmanager
def safe_globals(safe_globals: Iterable[Any]) -> Iterator[None]:
    """`add_safe_globals` for the time of a with block.

    >>> with rl.serialization.safe_globals([complex]):
    ...     rl.serialization.get_safe_globals()
    [<class 'complex'>]
    """
    before = dict(_trusted)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _trusted.clear()
        _trusted.update(before)
