"""Classes and modes that run operators themselves: `__torch_dispatch__`.

Below autograd and transforms, an operator with an argument of a class that defines `__torch_dispatch__`,
or any operator while a `TorchDispatchMode` is open, is given to it as `ops.aten.name.overload` with the
arguments of the call. Such tensors and open modes carry the key DISPATCH; a call without it pays nothing.

A composite without a derivative of its own is run as what it consists of, and in-place and out= forms of
other operators are given as such (`aten.add_.Tensor`, `aten.add.out`). While it runs, nothing is recorded by
autograd, which sees the operator alone (`MODES.below`), and a mode runs with the modes outside of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .aten import INPLACE, OUT, OpOverload, overload
from .dispatch import AMBIENT, Arguments, call, install_layer, tensors_in
from .dtypes import get_default_dtype
from .facts import DEVICE, LAYOUT, SHAPE, STRIDES
from .modes import MODES
from .mutation import install_dispatch
from .overrides import modes_replaced, on_dispatching
from .registry import REGISTRY, Kind, OpDef
from .schema import Schema
from .shapes import Spec, contiguous_strides
from .tensor import AUTOGRAD, DISPATCH, META, Tensor, _new, install_asked
from .tokens import place
from .traits import Trait
from .views import copied_object, track_views


def dispatching_types(tensors: list[Tensor]) -> tuple[type, ...]:
    """The classes among those of `tensors` that are asked, once each, derived classes before their bases."""
    found: list[type] = []
    for tensor in tensors:
        kind = type(tensor)
        if kind in found or not tensor._keys & DISPATCH:
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
        found.insert(place, kind)
    return tuple(found)


def as_called(schema: Schema, values: Arguments) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A complete argument tuple as a caller would give it: without the defaults at its end, and with what is
    keyword-only by name."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for argument, value in zip(schema.arguments, values, strict=True):
        value = list(value) if type(value) is tuple else value
        if argument.keyword_only:
            if not _is_default(value, argument.default):
                named[argument.name] = value
        else:
            given.append(value)
    positional = schema.positional
    while given and _is_default(given[-1], positional[len(given) - 1].default):
        given.pop()
    return tuple(given), named


def _is_default(value: Any, default: Any) -> bool:
    if type(value) is list:
        return type(default) is tuple and tuple(value) == default
    return value is default or (
        type(value) is type(default) and not isinstance(value, Tensor) and value == default
    )


# What a class or mode does with one operator, instead of its __torch_dispatch__.
RULES: dict[tuple[OpDef, type], Callable[..., Any]] = {}


def dispatch(func: OpOverload, values: Arguments, tensors: list[Tensor]) -> Any:
    """What the innermost mode, or else the classes of `tensors`, make of `func` on its argument tuple."""
    args, kwargs = as_called(func.schema, values)
    kinds, modes = dispatching_types(tensors), MODES.dispatchers
    saved = MODES.silent, MODES.forward_grad, MODES.below, AMBIENT.keys
    MODES.silent, MODES.forward_grad, MODES.below = saved[0] | {None}, False, True
    result: Any = NotImplemented
    try:
        if modes:
            MODES.dispatchers = modes[:-1]
            if len(modes) == 1:
                AMBIENT.keys &= ~DISPATCH
            rule = RULES.get((func.op, type(modes[-1]))) if RULES else None
            run = modes[-1].__torch_dispatch__ if rule is None else functools.partial(rule, modes[-1])
            result = run(func, kinds, args, kwargs)
        for kind in kinds:
            if result is not NotImplemented:
                break
            rule = RULES.get((func.op, kind)) if RULES else None
            asked: Any = kind.__torch_dispatch__ if rule is None else functools.partial(rule, kind)  # type: ignore[attr-defined]
            result = asked(func, kinds, args, kwargs)
    finally:
        MODES.silent, MODES.forward_grad, MODES.below, AMBIENT.keys = saved
        MODES.dispatchers = modes
    if result is NotImplemented:
        named = [*map(repr, modes[-1:]), *[kind.__name__ for kind in kinds]]
        raise TypeError(
            f"Multiple dispatch failed for {func.name()!r}: no implementation was found; all of "
            f"{', '.join(named)} returned NotImplemented"
        )
    return result


def seen_as(op: OpDef) -> OpDef:
    """The overload that is told of a call: `x + 1` is `aten.add.Tensor` with a number, as in PyTorch."""
    schema = op.schema
    if schema.overload in ("Scalar", "Scalar_mode") and op.traits & Trait.NUMBER_AS_TENSOR:
        return REGISTRY[f"{schema.name}.{schema.overload.replace('Scalar', 'Tensor')}"]
    return op


def run_dispatched(op: OpDef, args: Arguments) -> Any:
    """The layer of dispatch: `op`, or its in-place form where that is what was called."""
    if MODES.pending is not None and MODES.pending[0] is op:
        target, MODES.pending = MODES.pending[1], None
        return _run_inplace(op, args, target)
    tensors = tensors_in(op, args)
    func = overload(seen_as(op))
    result = dispatch(func, args, tensors)
    if type(result) is list:
        result = tuple(result)
    _check_result(func, result)
    if not MODES.below:
        recorded = MODES.grad and any(tensor.requires_grad for tensor in tensors)
        if recorded:
            result = _apart(result, tensors)
        if op.kind is Kind.VIEW:
            track_views(op, args, result)
    return result


def _check_result(func: OpOverload, result: Any) -> None:
    returns = func.schema.returns
    if len(returns) == 1 and returns[0].type.is_tensor and not isinstance(result, Tensor):
        raise TypeError(
            f"__torch_dispatch__ must return a Tensor for {func.name()}, not a {type(result).__name__}"
        )


def _apart(result: Any, tensors: list[Tensor]) -> Any:
    """Results as objects that autograd can give a history: not those of the arguments."""
    if isinstance(result, Tensor):
        if result._node is not None or any(result is tensor for tensor in tensors):
            return without_history(result)
        return result
    return tuple([_apart(part, tensors) for part in result]) if type(result) is tuple else result


def without_history(tensor: Tensor) -> Tensor:
    """Another object for the same tensor."""
    tensor.version_counter  # noqa: B018  made here, so that both share it
    copy = copied_object(tensor)
    for name in _HISTORY:
        copy.__dict__.pop(name, None)
    copy._keys &= ~AUTOGRAD
    return copy


_HISTORY = (
    "_node",
    "_output_nr",
    "_requires_grad",
    "_grad",
    "_hooks",
    "_accumulator",
    "_seen",
    "_base",
    "_view_of",
    "_creation",
)


def _run_inplace(op: OpDef, args: Arguments, target: Tensor) -> Any:
    """The in-place form; its result, for autograd, is an object that stands for the written tensor."""
    first = op.tensor_positions[0]
    args = (*args[:first], target, *args[first + 1 :])
    versions = target.version_counter
    before = versions.value
    dispatch(overload(seen_as(op), INPLACE), args, tensors_in(op, args))
    if versions.value == before:
        versions.value += 1
    return without_history(target)


def dispatch_inplace(op: OpDef, args: Arguments) -> Any:
    """The in-place form of an operator without a history to record."""
    dispatch(overload(seen_as(op), INPLACE), args, tensors_in(op, args))


def dispatch_out(op: OpDef, args: Arguments, targets: tuple[Tensor, ...]) -> None:
    """The out= form of an operator."""
    func = overload(seen_as(op), OUT)
    kept = set(func.schema.argument_names)
    values = [value for name, value in zip(op.schema.argument_names, args, strict=True) if name in kept]
    outs = (targets,) if func.schema.arguments[-1].type.is_list else targets
    dispatch(func, (*values, *outs), [*tensors_in(op, args), *targets])


def ask(op: OpDef, args: Arguments) -> Any:
    """An operator that returns no tensor."""
    return dispatch(overload(op), args, tensors_in(op, args))


# Modes.


def activate() -> None:
    """There is a class or a mode that runs operators: in-place and out= forms look for it from now on."""
    install_dispatch(dispatch_inplace, dispatch_out)


def push_mode(mode: Any) -> None:
    activate()
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("a mode that runs operators itself is opened")
    MODES.dispatchers = (*MODES.dispatchers, mode)
    AMBIENT.keys |= DISPATCH


def pop_mode() -> Any:
    *rest, mode = MODES.dispatchers
    MODES.dispatchers = tuple(rest)
    if not rest:
        AMBIENT.keys &= ~DISPATCH
    return mode


# Classes.


def _make_wrapper_subclass(
    cls: type[Tensor],
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: Any = None,
    storage_size: int | None = None,
) -> Tensor:
    """A tensor of the class `cls` without data: what its `__torch_dispatch__` makes of operators is all there
    is to it."""
    if not cls._dispatches:
        raise RuntimeError(f"{cls.__name__} must define __torch_dispatch__ to have objects without data")
    if AMBIENT.trace is not None and not cls._has_graph:  # the operators of a graph are the compiler's
        AMBIENT.trace.refuse(f"an object of the class {cls.__name__}, which runs operators itself, is made")
    if dispatch_sizes_strides_policy not in (None, "sizes", "strides"):
        raise RuntimeError(
            "dispatch_sizes_strides_policy must be 'sizes' or 'strides', not "
            f"{dispatch_sizes_strides_policy!r}"
        )
    shape = tuple([int(n) for n in size])
    dtype = dtype or get_default_dtype()
    spec = Spec(
        shape, dtype, contiguous_strides(shape) if strides is None else tuple(strides), storage_offset or 0
    )
    tensor = _new(cls)
    tensor._array, tensor.dtype, tensor._spec = None, dtype, spec
    tensor._offset = storage_offset or 0
    tensor._keys = DISPATCH | (META if device is not None and place(device).type == "meta" else 0)
    if layout is not None:
        tensor._layout = layout
    if dispatch_sizes_strides_policy is not None or dispatch_device or dispatch_layout:
        tensor._policy = (dispatch_sizes_strides_policy, dispatch_device, dispatch_layout)
    return Tensor._set_requires_grad(tensor) if requires_grad else tensor


_FACTS = {"shape": SHAPE, "strides": STRIDES, "device": DEVICE, "layout": LAYOUT}


def ask_fact(tensor: Tensor, fact: str) -> Any:
    """A fact about an object of a class that wants to be asked for it; None if it does not."""
    sizes, device, layout = tensor._policy
    if MODES.undispatched or fact in MODES.asking:
        return None
    wanted = {"shape": sizes is not None, "strides": sizes == "strides", "device": device, "layout": layout}
    if not wanted[fact]:
        return None
    saved, MODES.asking = MODES.asking, (*MODES.asking, fact)
    try:
        with modes_replaced(()):
            return dispatch(overload(_FACTS[fact]), (tensor,), [tensor])
    finally:
        MODES.asking = saved


def read_number(tensor: Tensor) -> Any:
    """The number in a tensor of one element, as the class or mode that runs operators gives it."""
    return dispatch(overload(REGISTRY["_local_scalar_dense"]), (tensor,), [tensor])


def read_elements(tensor: Tensor) -> np.ndarray:
    """The values of an object without data, asked for one by one."""
    shape = tuple(tensor.shape)
    found = np.empty(shape, tensor.dtype.numpy)
    for index in np.ndindex(shape):
        element = tensor
        for i in index:
            element = call(REGISTRY["select.int"], (element, 0, i))
        found[index] = read_number(element)
    return found


install_layer("python", run_dispatched)
install_layer("number", read_number)
install_layer("elements", read_elements)
install_asked(ask_fact)
on_dispatching(activate)
Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)  # type: ignore[attr-defined]
