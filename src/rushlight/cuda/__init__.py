"""CUDA as a program on a machine without it meets it: not available, no devices, seeds accepted.

What asks whether there is a device is answered; what needs one raises the error that PyTorch raises where it
was built without CUDA.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..core.errors import OutOfMemoryError
from ..core.missing import missing_class
from ..core.tensor import Tensor
from . import amp
from . import nvtx as nvtx

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    return 0


def get_arch_list() -> list[str]:
    return []


# Seeds are for devices that there are none of; no memory is held on them.


def manual_seed(seed: int) -> None:
    int(seed)


def manual_seed_all(seed: int) -> None:
    int(seed)


def seed() -> None:
    return None


def seed_all() -> None:
    return None


def get_rng_state_all() -> list[Tensor]:
    return []


def set_rng_state_all(new_states: Any) -> None:
    for state in new_states:
        set_rng_state(state)


def empty_cache() -> None:
    return None


def memory_allocated(device: Any = None) -> int:
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    return OrderedDict()


class device:
    """A context in which a device is current; there is none to make current."""

    def __init__(self, device: Any) -> None:
        self.idx = device

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


device_of = device


@contextlib.contextmanager
def stream(stream: Any) -> Any:
    """A context in which a stream is current; None changes nothing."""
    if stream is not None:
        _missing("stream")
    yield


def _missing(name: str) -> Any:
    raise AssertionError(
        f"cuda.{name}: Torch not compiled with CUDA enabled: rushlight runs on cpu and "
        "meta. Ask cuda.is_available() first"
    )


def _needs_device(name: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        return _missing(name)

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


synchronize = _needs_device("synchronize")
init = _needs_device("init")
set_device = _needs_device("set_device")
current_device = _needs_device("current_device")
current_stream = _needs_device("current_stream")
default_stream = _needs_device("default_stream")
get_device_name = _needs_device("get_device_name")
get_device_capability = _needs_device("get_device_capability")
get_device_properties = _needs_device("get_device_properties")
can_device_access_peer = _needs_device("can_device_access_peer")
mem_get_info = _needs_device("mem_get_info")
memory_summary = _needs_device("memory_summary")
reset_peak_memory_stats = _needs_device("reset_peak_memory_stats")
reset_max_memory_allocated = _needs_device("reset_max_memory_allocated")
ipc_collect = _needs_device("ipc_collect")
initial_seed = _needs_device("initial_seed")
get_rng_state = _needs_device("get_rng_state")
set_rng_state = _needs_device("set_rng_state")


class Stream:
    """A queue of work on a device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Stream:
        raise RuntimeError("cuda.Stream: CUDA is not available; rushlight runs on cpu and meta")


class Event:
    """A point in a stream."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Event:
        raise RuntimeError("cuda.Event: CUDA is not available; rushlight runs on cpu and meta")


class _NoTensor(type):
    """`cuda.FloatTensor` and its like: names of tensors that cannot be made here."""

    is_cuda = True

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled."
        )


class _NoStorage:
    """`cuda.FloatStorage` and its like."""

    is_cuda = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _missing(type(self).__name__)

    @classmethod
    def _refuse(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("from_buffer: Not available for CUDA storage")

    from_buffer = _new_with_weak_ptr = _new_shared_filename = _refuse


_KINDS = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


def __getattr__(name: str) -> Any:
    """The older names of tensors and storages there."""
    if name.endswith("Tensor") and name.removesuffix("Tensor") in _KINDS:
        made: Any = _NoTensor(name, (), {})
    elif name.endswith("Storage") and name.removesuffix("Storage") in _KINDS:
        made = type(name, (_NoStorage,), {})
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = made
    return made


_NO_GPU = "there is no CUDA device"
CUDAGraph, StreamContext, graph = (
    missing_class("cuda", name, _NO_GPU) for name in ("CUDAGraph", "StreamContext", "graph")
)
