"""Checkpointing: trade computation for memory by running a part of the forward pass again during backward.

Without re-entry, what the part would save is replaced by places in a list, which a second run of the part
fills when backward first asks for one of them. With re-entry, the part is a custom function whose backward
runs it again and calls backward on it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from ..amp.autocast_mode import autocast, get_autocast_dtype, is_autocast_cache_enabled, is_autocast_enabled
from ..autograd import backward, enable_grad, no_grad
from ..autograd.function import Function
from ..autograd.graph import saved_tensors_hooks
from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.generator import default_generator
from ..core.modes import MODES
from ..core.tensor import Tensor
from .checkpoint_debug import OperatorLog, explained
from .checkpoint_policy import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    _CachedTorchDispatchMode,
    _CachingTorchDispatchMode,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "_CachedTorchDispatchMode",
    "_CachingTorchDispatchMode",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed part did not do what the first did.

    >>> issubclass(rl.utils.checkpoint.CheckpointError, RuntimeError)
    True
    """


class _StopRecomputation(Exception):
    """Everything that was saved in the first run has been computed again."""


_early_stop = True


class set_checkpoint_early_stop:
    """Whether the second run may stop as soon as it has computed all that backward needs.

    >>> with rl.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     pass
    """

    def __init__(self, enable: bool) -> None:
        self.enable = enable

    def __enter__(self) -> None:
        global _early_stop
        self._saved, _early_stop = _early_stop, self.enable

    def __exit__(self, *exception: Any) -> None:
        global _early_stop
        _early_stop = self._saved


_debug: bool | None = None


class set_checkpoint_debug_enabled:
    """Whether parts that are checkpointed inside log their operators, whatever their own `debug` says; None
    leaves it to them.

    >>> with rl.utils.checkpoint.set_checkpoint_debug_enabled(False):
    ...     pass
    """

    def __init__(self, enabled: bool | None) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        global _debug
        self._saved, _debug = _debug, self.enabled

    def __exit__(self, *exception: Any) -> None:
        global _debug
        _debug = self._saved


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing.

    >>> len(rl.utils.checkpoint.noop_context_fn())
    2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without their history that still require grad where they did.

    >>> rl.utils.checkpoint.detach_variable((rl.ones(1, requires_grad=True) * 2,))[0].is_leaf
    True
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple(
        value.detach()._set_requires_grad(value.requires_grad) if isinstance(value, Tensor) else value
        for value in inputs
    )


def check_backward_validity(inputs: Sequence[Any]) -> None:
    """Warns if no input requires grad, so that nothing would be differentiated.

    >>> rl.utils.checkpoint.check_backward_validity([rl.ones(1, requires_grad=True)])
    """
    if not any(isinstance(value, Tensor) and value.requires_grad for value in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4)


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args)` without keeping what its backward needs; it is computed again then.

    >>> x = rl.ones(2, requires_grad=True)
    >>> rl.utils.checkpoint.checkpoint(lambda x: x.exp().sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([2.7183, 2.7183])
    """
    if use_reentrant is None:
        warnings.warn(
            "rushlight.utils.checkpoint: the use_reentrant parameter should be passed explicitly. "
            "use_reentrant=False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        logs = _logs(debug, context_fn)
        contexts = context_fn if logs is None else lambda: logs
        frame = _Frame(early_stop and _early_stop, _compares(determinism_check), logs)
        return _without_reentry(function, args, kwargs, preserve, contexts, frame)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if AMBIENT.trace is not None and any(isinstance(a, Tensor) and a.requires_grad for a in args):
        # a backward pass inside of another has no place in a graph; the gradients are the same
        frame = _Frame(early_stop and _early_stop, _compares(determinism_check), None)
        return _without_reentry(function, args, {}, preserve, context_fn, frame)
    return CheckpointFunction.apply(function, preserve, *args)


# With re-entry.


class CheckpointFunction(Function):
    """The part as a custom function: it keeps its inputs and runs again in backward.

    >>> x = rl.tensor([3.0], requires_grad=True)
    >>> rl.utils.checkpoint.CheckpointFunction.apply(lambda x: x * x, True, x).backward()
    >>> x.grad
    tensor([6.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.state = default_generator.get_state() if preserve_rng_state else None
        ctx.autocast = _autocast_again()
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.others = [None if isinstance(value, Tensor) else value for value in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        check(
            MODES.run is None or MODES.run.is_full(),
            "checkpoint(use_reentrant=True) is incompatible "
            "with autograd.grad() and with the `inputs` of "
            "backward(), which it would not see; use "
            "use_reentrant=False",
        )
        inputs = list(ctx.others)
        for i, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[i] = tensor
        detached = detach_variable(tuple(inputs))
        with _random_state(ctx.state), ctx.autocast(), enable_grad():
            outputs = ctx.run_function(*detached)
        several = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [
            (o, g) for o, g in zip(several, grads, strict=True) if isinstance(o, Tensor) and o.requires_grad
        ]
        check(len(pairs) > 0, "none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, *[value._grad if isinstance(value, Tensor) else None for value in detached])


def _autocast_again() -> Callable[[], Any]:
    """A context that has the autocast of now, whenever it is opened."""
    enabled, dtype = is_autocast_enabled("cpu"), get_autocast_dtype("cpu")
    cached = is_autocast_cache_enabled()
    return lambda: autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cached)


class _random_state:
    """Inside, random numbers continue from `state`; afterwards as if nothing had been drawn."""

    def __init__(self, state: Tensor | None) -> None:
        self.state = state

    def __enter__(self) -> None:
        if self.state is not None:
            self._saved = default_generator.get_state()
            default_generator.set_state(self.state)

    def __exit__(self, *exception: Any) -> None:
        if self.state is not None:
            default_generator.set_state(self._saved)


# Without.


_Logs = tuple[OperatorLog, OperatorLog] | None


def _logs(debug: bool, context_fn: Callable[[], Any]) -> _Logs:
    """Logs of the first and of the second run, if they are asked for."""
    if not (debug if _debug is None else _debug):
        return None
    if context_fn is not noop_context_fn:
        raise ValueError("debug=True is incompatible with non-default context_fn")
    return OperatorLog(), OperatorLog()


def _compares(determinism_check: str) -> bool:
    check(
        determinism_check in ("default", "none"),
        f"determinism_check should be 'default' or 'none', but got {determinism_check}",
        ValueError,
    )
    return determinism_check == "default"


class _Frame:
    """What one checkpointed call needs to run again, and what the second run found, for each backward pass.

    A value that was found is given out once and then forgotten, so that it lives no longer than it is needed.
    """

    def __init__(self, early_stop: bool, compare: bool, logs: _Logs) -> None:
        self.again: Callable[[], Any] = lambda: None
        self.early_stop = early_stop
        self.compare = compare
        self.logs = logs
        self.complete = False  # a backward pass inside of the first run knows but a part of what it saves
        self.metadata: list[tuple[Any, ...]] = []
        self.found: WeakKeyDictionary[Any, list[Tensor | None]] = WeakKeyDictionary()

    def pack(self, tensor: Tensor) -> int:
        self.metadata.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return len(self.metadata) - 1

    def unpack(self, place: int) -> Tensor:
        run = MODES.run
        values = self.found.get(run) if run is not None else None
        if values is None:
            values = self._recompute()
            if run is not None:
                self.found[run] = values
        if place >= len(values):
            self._refuse(
                "A different number of tensors was saved "
                "during the original forward and recomputation.\nNumber of tensors saved "
                f"during forward: {len(self.metadata)}\nNumber of tensors saved during "
                f"recomputation: {len(values)}."
            )
        value, values[place] = values[place], None
        if value is None:
            self._refuse(
                "Unpack is being triggered for a tensor that was already unpacked once. A backward that reads "
                "ctx.saved_tensors must do so only once."
            )
        return value

    def _recompute(self) -> list[Tensor | None]:
        values: list[Tensor | None] = []

        def keep(tensor: Tensor) -> int:
            place = len(values)
            if place < len(self.metadata):
                self._check(place, tensor)
            elif self.complete:
                self._refuse(
                    "trying to save more tensors during recomputation than during the original forward pass."
                )
            values.append(tensor.detach() if tensor.requires_grad else tensor)
            if self.early_stop and len(values) == len(self.metadata):
                raise _StopRecomputation
            return place

        hooks = saved_tensors_hooks(keep, values.__getitem__)  # type: ignore[arg-type]
        with contextlib.suppress(_StopRecomputation), enable_grad(), hooks:
            self.again()
        return values

    def _check(self, place: int, tensor: Tensor) -> None:
        now = (tuple(tensor.shape), tensor.dtype, tensor.device)
        if self.compare and now != self.metadata[place]:
            names = ("shape", "dtype", "device")
            self._refuse(
                "Recomputed values for the following tensors "
                "have different metadata than during the forward pass.\ntensor at position "
                f"{place}:\nsaved metadata: "
                f"{dict(zip(names, self.metadata[place], strict=True))}\nrecomputed "
                f"metadata: {dict(zip(names, now, strict=True))}"
            )

    def _refuse(self, text: str) -> NoReturn:
        text = f"rushlight.utils.checkpoint: {text}"
        raise CheckpointError(text if self.logs is None else explained(text, *self.logs))


def _without_reentry(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve: bool,
    context_fn: Callable[[], tuple[Any, Any]],
    frame: _Frame,
) -> Any:
    if not MODES.grad:
        return function(*args, **kwargs)
    forward_context, recompute_context = context_fn()
    state = default_generator.get_state() if preserve else None
    as_now = _autocast_again()

    def again() -> None:
        with _random_state(state), as_now(), recompute_context:
            function(*args, **kwargs)

    frame.again = again
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        result = function(*args, **kwargs)
    frame.complete = True
    return result


def checkpoint_sequential(
    functions: Any, segments: int, input: Tensor, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions, all but the last segment of it checkpointed.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    >>> rl.utils.checkpoint.checkpoint_sequential(model, 2, rl.ones(1, 2), use_reentrant=False).shape
    rushlight.Size([1, 1])
    """
    if use_reentrant is None:
        warnings.warn(
            "rushlight.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should "
            "be passed explicitly. use_reentrant=False is recommended.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(start: int, end: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return forward

    size = len(steps) // segments
    end = -1
    for start in range(0, size * (segments - 1), size):
        end = start + size - 1
        input = checkpoint(
            segment(start, end + 1), input, use_reentrant=use_reentrant, preserve_rng_state=preserve
        )
    return segment(end + 1, len(steps))(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The states of the generators of other devices among the arguments': there are none."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    if devices:
        raise NotImplementedError(
            f"torch.utils.checkpoint.set_device_states: there are no devices {list(devices)}"
        )
