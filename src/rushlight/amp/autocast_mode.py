"""`autocast`: a region, or a function, in which operators choose their precision; and what asks and sets its
state. How operators are cast is in core/autocast.py, which ones in policies.py."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from ..core import autocast as state
from ..core.autocast import AUTOCAST_STATE
from ..core.dtypes import DTYPES, DType
from ..core.tensor import Tensor
from ..core.tokens import device

_SUPPORTED = {"cpu": (DTYPES["bfloat16"], DTYPES["float16"])}


def _known(device_type: Any) -> str:
    """`device_type`, after it was found to be one."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if device_type not in state.DEVICES:
        raise RuntimeError(
            f"Invalid device string: '{device_type}'; expected one of {', '.join(state.DEVICES)}"
        )
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for such devices.

    >>> rl.amp.is_autocast_available("cpu")
    True
    """
    return _known(device_type) in _SUPPORTED


class autocast:
    """A region, or with `@autocast("cpu")` a function, in which operators choose their precision.

    dtype          bfloat16 (the default) or float16
    enabled        with False: a region without casts inside of one with casts
    cache_enabled  whether casts of weights are kept until the outermost region ends

    >>> with rl.autocast("cpu"):
    ...     (rl.ones(2, 2) @ rl.ones(2, 2)).dtype
    rushlight.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        self.device = _known(device_type)
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type not in _SUPPORTED:
            warnings.warn(
                f"User provided device_type of '{device_type}', but there is no such device. "
                "Disabling autocast.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        elif enabled and self.fast_dtype not in _SUPPORTED[device_type]:
            names = ", ".join(str(kind) for kind in _SUPPORTED[device_type])
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype {self.fast_dtype} is not "
                f"supported; it can be {names}. Disabling autocast.",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[tuple[bool, DType, bool]] = []  # one for each time it is entered

    def __enter__(self) -> autocast:
        self._before.append(
            (is_autocast_enabled(self.device), get_autocast_dtype(self.device), is_autocast_cache_enabled())
        )
        set_autocast_enabled(self.device, self._enabled)
        set_autocast_dtype(self.device, self.fast_dtype)
        set_autocast_cache_enabled(self._cache_enabled)
        autocast_increment_nesting()
        return self

    def __exit__(self, *exc: object) -> None:
        enabled, dtype, cached = self._before.pop()
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        set_autocast_enabled(self.device, enabled)
        set_autocast_dtype(self.device, dtype)
        set_autocast_cache_enabled(cached)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


# The state.


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a kind of device.

    >>> rl.is_autocast_enabled("cpu")
    False
    """
    return AUTOCAST_STATE.enabled[_known(device_type)]


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switches autocast on or off for a kind of device.

    >>> rl.set_autocast_enabled("cpu", False)
    """
    state.set_enabled(_known(device_type), bool(enabled))


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that autocast computes in on a kind of device.

    >>> rl.get_autocast_dtype("cpu")
    rushlight.bfloat16
    """
    return AUTOCAST_STATE.dtypes[_known(device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Sets the dtype that autocast computes in on a kind of device.

    >>> rl.set_autocast_dtype("cpu", rl.bfloat16)
    """
    if not isinstance(dtype, DType):
        raise TypeError(f"set_autocast_dtype: dtype must be a dtype, not {type(dtype).__name__}")
    AUTOCAST_STATE.dtypes[_known(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether autocast keeps casts of weights.

    >>> rl.is_autocast_cache_enabled()
    True
    """
    return AUTOCAST_STATE.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Whether autocast shall keep casts of weights.

    >>> rl.set_autocast_cache_enabled(True)
    """
    AUTOCAST_STATE.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Forgets the casts that autocast has kept.

    >>> rl.clear_autocast_cache()
    """
    state.clear_casts()


def autocast_increment_nesting() -> int:
    """Counts one region of autocast more; `autocast` calls it on entering.

    >>> rl.autocast_increment_nesting() - rl.autocast_decrement_nesting()
    1
    """
    AUTOCAST_STATE.nesting += 1
    return AUTOCAST_STATE.nesting


def autocast_decrement_nesting() -> int:
    """Counts one region of autocast less; `autocast` calls it on leaving.

    >>> rl.autocast_increment_nesting() - rl.autocast_decrement_nesting()
    1
    """
    AUTOCAST_STATE.nesting -= 1
    return AUTOCAST_STATE.nesting


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on for the CPU.

    >>> rl.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switches autocast on or off for the CPU.

    >>> rl.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """The dtype that autocast computes in on the CPU.

    >>> rl.get_autocast_cpu_dtype()
    rushlight.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """Sets the dtype that autocast computes in on the CPU.

    >>> rl.set_autocast_cpu_dtype(rl.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


# Functions with a backward of their own.


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Floating point tensors inside of `value` in `dtype`; float64 stays."""
    if isinstance(value, Tensor):
        cast = (
            value.is_floating_point()
            and value.device.type == device_type
            and value.dtype is not DTYPES["float64"]
        )
        return value.to(dtype) if cast else value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_cast(item, device_type, dtype) for item in value])
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None
) -> Callable[..., Any]:
    """Decorates `forward` of an autograd.Function.

    With `cast_inputs` it runs with autocast off and its floating point arguments in that dtype, if autocast
    is on around it.

    >>> class Twice(rl.autograd.Function):
    ...     @staticmethod
    ...     @rl.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @rl.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Twice.apply(rl.ones(1))
    tensor([2.])
    """
    device(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx, enabled = args[0], is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None or not enabled:
            ctx._fwd_used_autocast = cast_inputs is None and enabled
            return fwd(*args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Callable[..., Any]:
    """Decorates `backward` of an autograd.Function: it runs in the autocast state of its forward.

    >>> class Twice(rl.autograd.Function):
    ...     @staticmethod
    ...     @rl.amp.custom_fwd(device_type="cpu")
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @rl.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> Twice.apply(rl.ones(1))
    tensor([2.])
    """
    device(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return decorated
