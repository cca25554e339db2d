"""Automatic mixed precision: which dtype an operator computes in while autocast is on.

The state of a thread is in `AUTOCAST_STATE`; while autocast is on for the CPU, the ambient keys carry
AUTOCAST, so that a call without it pays nothing. An operator with a policy has its floating point arguments
cast, and then runs with autocast off: what it is made of was decided with it. The other operators run as they
are, and those inside of a composite are looked at one by one. float64, integer and complex tensors are left
alone.

A weight is cast once: casts of leaves are kept until the outermost autocast ends, or the weight is written.
"""

from __future__ import annotations

import enum
import threading
from typing import Any

from .dispatch import AMBIENT, Arguments, call, install_layer
from .dtypes import DTYPES, DType
from .errors import RegistrationError
from .modes import MODES
from .registry import REGISTRY, OpDef
from .tensor import AUTOCAST, META, TRACED, Tensor

FLOAT32 = DTYPES["float32"]
NARROW = (DTYPES["float16"], DTYPES["bfloat16"])
DEVICES = ("cpu", "cuda", "xpu", "ipu", "hpu", "xla", "mps", "mtia", "maia", "meta", "privateuseone")


class Policy(enum.Enum):
    """In which dtype an operator computes under autocast."""

    LOWER = "the dtype of autocast"
    FLOAT32 = "float32"
    PROMOTE = "float32 if an argument is, else the dtype of autocast"
    # of composites that PyTorch has as one kernel: their parts are not looked at
    WHOLE = "as its arguments"


class _State(threading.local):
    nesting = 0
    cache_enabled = True

    def __init__(self) -> None:
        self.enabled = dict.fromkeys(DEVICES, False)
        self.dtypes = {name: DTYPES["float16" if name in ("cuda", "mps") else "bfloat16"] for name in DEVICES}
        # by the identity of a weight: the weight, what the cast depends on, the cast
        self.casts: dict[int, tuple[Tensor, tuple[Any, ...], Tensor]] = {}


AUTOCAST_STATE = _State()


def set_enabled(device_type: str, enabled: bool) -> None:
    AUTOCAST_STATE.enabled[device_type] = enabled
    if device_type == "cpu":
        AMBIENT.keys = AMBIENT.keys | AUTOCAST if enabled else AMBIENT.keys & ~AUTOCAST


def autocast_key() -> DType | None:
    """What of the state a compiled program depends on."""
    return AUTOCAST_STATE.dtypes["cpu"] if AMBIENT.keys & AUTOCAST else None


def is_any_enabled() -> bool:
    """Whether autocast is on, for whichever device."""
    return any(AUTOCAST_STATE.enabled.values())


class autocast_off:
    """A region in which no operator is cast; the state that the user sees stays as it is."""

    def __enter__(self) -> None:
        self._keys = AMBIENT.keys & AUTOCAST
        AMBIENT.keys &= ~AUTOCAST

    def __exit__(self, *exc: object) -> None:
        AMBIENT.keys |= self._keys


def policy(kind: Policy, *names: str) -> None:
    """Declare how operators run under autocast."""
    for name in names:
        op = REGISTRY[name]
        if op.autocast is not None:
            raise RegistrationError(f"{name} already has an autocast policy")
        op.autocast = kind


def run_autocast(op: OpDef, args: Arguments) -> Any:
    """Run an operator that has a policy, with its arguments cast."""
    if op.autocast is Policy.WHOLE:
        dtype = None
    else:
        dtype = AUTOCAST_STATE.dtypes["cpu"] if op.autocast is Policy.LOWER else FLOAT32
        if op.autocast is Policy.PROMOTE:
            dtype = _widest(op, args)
    with autocast_off():
        if dtype is not None:
            args = tuple([_cast(value, dtype) for value in args])
        return call(op, args)


def lowered(value: Any) -> Any:
    """A tensor, or a tuple of them, cast as operators of the policy LOWER have theirs cast."""
    return _cast(value, AUTOCAST_STATE.dtypes["cpu"])


def in_single(value: Any) -> Any:
    """A tensor cast as operators of the policy FLOAT32 have theirs cast."""
    return _cast(value, FLOAT32)


def _cast(value: Any, dtype: DType) -> Any:
    if isinstance(value, Tensor):
        return _cast_tensor(value, dtype) if _eligible(value) and value.dtype is not dtype else value
    if type(value) is tuple and any(isinstance(item, Tensor) for item in value):
        return tuple([_cast(item, dtype) for item in value])
    return value


def _eligible(tensor: Tensor) -> bool:
    return (tensor.dtype is FLOAT32 or tensor.dtype in NARROW) and (
        not tensor._keys & META or bool(tensor._keys & TRACED)
    )


def _widest(op: OpDef, args: Arguments) -> DType:
    lower = AUTOCAST_STATE.dtypes["cpu"]
    tensors = [args[i] for i in op.tensor_positions] + [t for i in op.list_positions for t in args[i] or ()]
    found = {tensor.dtype for tensor in tensors if tensor is not None and _eligible(tensor)}
    return lower if found <= {lower} else FLOAT32


def _cast_tensor(tensor: Tensor, dtype: DType) -> Tensor:
    weight = (
        AUTOCAST_STATE.cache_enabled
        and AUTOCAST_STATE.nesting
        and dtype in NARROW
        and tensor._requires_grad
        and tensor.dtype is FLOAT32
        and tensor._node is None
        and tensor._base is None
        and tensor._tangents is None
        and not tensor._keys & TRACED
    )
    if not weight:
        return tensor.to(dtype)
    # A capture has casts of its own, and so have regions that record nothing.
    depends = (dtype, tensor.version_counter.value, AMBIENT.trace, MODES.grad, MODES.inference)
    known = AUTOCAST_STATE.casts.get(id(tensor))
    if known is not None and known[0] is tensor and known[1] == depends:
        return known[2]
    result: Tensor = tensor.to(dtype)
    AUTOCAST_STATE.casts[id(tensor)] = tensor, depends, result
    return result


def clear_casts() -> None:
    """Forget the casts that are kept."""
    AUTOCAST_STATE.casts.clear()


install_layer("autocast", run_autocast)
