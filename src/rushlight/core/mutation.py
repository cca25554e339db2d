"""In-place and out= forms, derived from the functional operator.

`call_inplace` and `call_out` run the functional operator, then write its result into an existing tensor. They
check everything that PyTorch checks (cast, shape, overlap, leaf that requires grad) before anything is
written, and count the
write in the version counter. Autograd installs `rebase`, which gives the written tensor the history of the
result.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .autocast import autocast_off
from .determinism import DETERMINISM, undefined
from .dispatch import AMBIENT, Arguments, call, tensors_in
from .dtypes import Category, can_cast
from .errors import check, fail
from .modes import MODES
from .pointwise import run_in_place
from .promotion import Promotion
from .quantized import write_quantized
from .quiet import quietly
from .registry import REGISTRY, Api, Kind, OpDef
from .shapes import Spec, check_bytes, contiguous_strides, extent, is_dense
from .storage import resize_storage
from .tensor import AUTOCAST, AUTOGRAD, DISPATCH, LAZY, META, TRACED, Tensor, array_over, wrap

before_write: Callable[[Tensor, str], None] | None = None
prepare: Callable[[Tensor, Tensor], None] | None = None
rebase: Callable[[Tensor, Tensor], None] | None = None
traced_write: Callable[[Tensor, Tensor], None] | None = None

READ_ONLY = "the tensor's memory is read-only; clone() it to get a tensor that can be written"


def install_autograd(
    check_writable: Callable[[Tensor, str], None],
    prepare_write: Callable[[Tensor, Tensor], None],
    rebase_history: Callable[[Tensor, Tensor], None],
) -> None:
    """Autograd's part of a write: `check_writable` and, once the new value is known, `prepare_write` may
    refuse it; `rebase_history` records it."""
    global before_write, prepare, rebase
    before_write, prepare, rebase = check_writable, prepare_write, rebase_history


def install_traced_write(write: Callable[[Tensor, Tensor], None]) -> None:
    """How a tensor that belongs to a transform or capture takes a new value."""
    global traced_write
    traced_write = write


# How the in-place and out= forms of operators are run by classes and modes (see python_dispatch.py); None
# until there is one.
dispatch_inplace: Callable[[OpDef, Arguments], None] | None = None
dispatch_out: Callable[[OpDef, Arguments, Any], None] | None = None


def install_dispatch(
    inplace: Callable[[OpDef, Arguments], None], out: Callable[[OpDef, Arguments, Any], None]
) -> None:
    global dispatch_inplace, dispatch_out
    dispatch_inplace, dispatch_out = inplace, out


def is_dispatched(op: OpDef, args: Arguments, targets: Any = ()) -> bool:
    """Whether a class or a mode runs the operator."""
    keys = _keys_with(op, args, targets)
    if keys & DISPATCH and AMBIENT.trace is not None and not MODES.undispatched:
        AMBIENT.trace.refuse(f"{op.name} takes a tensor of a class that runs operators itself")
        keys = _keys_with(op, args, targets)  # abstract tensors have data now
    return bool((keys | AMBIENT.keys) & DISPATCH) and not keys & TRACED and not MODES.undispatched


def _keys_with(op: OpDef, args: Arguments, targets: Any) -> int:
    keys = _any_keys(op, args)
    for target in targets:
        keys |= target._keys
    return keys


def _call_dispatched(op: OpDef, args: Arguments, target: Tensor, name: str) -> bool:
    """Give the in-place form of `op` to the class or mode that runs operators; False if it must be made of
    the functional operator."""
    if op.kind is Kind.COMPOSITE and op.derivative is None:
        return False
    if op.schema.returns[0].type.alias is not None:
        return False
    if MODES.below or op.derivative is None:
        dispatch_inplace(op, args)  # type: ignore[misc]
        return True
    check_target(target, name, op.api)
    first = op.tensor_positions[0]
    given = args
    if MODES.grad and _saves(op, args, first):  # its backward wants the values from before
        given = (*args[:first], call(REGISTRY["clone"], (target, None)), *args[first + 1 :])
    MODES.pending = (op, target)
    try:
        result = call(op, given)
        if MODES.pending is not None:
            return False
    finally:
        MODES.pending = None
    result = result[0] if isinstance(result, tuple) else result
    if (target._keys | result._keys) & AUTOGRAD and rebase is not None:
        if result._node is not None:
            _spoil(result._node, target)
        rebase(target, result)
    return True


def _saves(op: OpDef, args: Arguments, first: int) -> bool:
    """Whether autograd saves the argument at `first` for the backward of this call."""
    entry, mask = op.derivative, 0
    for number, position in enumerate(entry.targets):
        several = args[position] if isinstance(args[position], tuple) else (args[position],)
        if any(tensor is not None and tensor.requires_grad for tensor in several):
            mask |= 1 << number
    return bool(mask) and any(
        index == first and not output and take.name == "TENSOR"
        for take, index, output in entry.plan(mask).captures
    )


def _spoil(node: Any, target: Tensor) -> None:
    """What a node saved of a tensor that its own operator then overwrote is of no use to its backward."""
    saved = getattr(node, "saved", None)
    if isinstance(saved, list):
        node.saved = [
            (item[0], item[1] - 1, item[2])
            if type(item) is tuple and len(item) == 3 and item[0] is target
            else item
            for item in saved
        ]


def call_inplace(op: OpDef, args: Arguments) -> Tensor:
    """`op` with its first tensor overwritten by the (first) result; returns that tensor."""
    if (
        op.kind is Kind.POINTWISE
        and not AMBIENT.keys
        and op.tensor_positions[0] == 0
        and run_in_place(op, args)
    ):
        return args[0]
    if dispatch_inplace is not None and is_dispatched(op, args):
        several = op.list_positions and op.list_positions[0] == 0
        if several and not any(tensor.requires_grad for tensor in tensors_in(op, args)):
            dispatch_inplace(op, args)
            return args[0]
        if not several and _call_dispatched(op, args, args[op.tensor_positions[0]], f"{op.public_name}_"):
            return args[op.tensor_positions[0]]
    if AMBIENT.keys & AUTOCAST and op.autocast is not None:
        with autocast_off():  # what is written to decides
            return call_inplace(op, args)
    if len(op.schema.returns) > 1 and (written := _written_arguments(op)):
        return _call_named_inplace(op, args, written)
    if op.list_positions and op.list_positions[0] == 0:
        return _call_list_inplace(op, args)
    target = args[op.tensor_positions[0]]
    name = f"{op.public_name}_"
    if op.schema.returns[0].type.alias is not None:
        return _reshape_inplace(op, args, name)
    check_target(target, name, op.api)
    if target.dtype.is_complex and op.promote is Promotion.REAL:
        fail(f"In-place {op.schema.name} is not supported for complex tensors: its result is real")
    for other in tensors_in(op, args)[1:]:
        if op.api & Api.APART_INPLACE:
            if not _is_read_first(op, args, other):
                check_no_overlap(target, other)
        elif other.ndim or other is not _value(op, args):
            check_no_partial_overlap(target, other)
    result = call(op, _with_kept_values(op, args))
    if isinstance(result, tuple):
        result = result[0]
    if target.dtype is not result.dtype and op.api & Api.EXACT:
        fail(
            f"{name}: the result is {result.dtype.name}, which cannot be written in place to a tensor of "
            "dtype "
            f"{target.dtype.name}: the operation's result requires dtype {result.dtype.name}"
        )
    check_result(target, result, name)
    assign(target, result)
    return target


def _value(op: OpDef, args: Arguments) -> Any:
    """The argument `value`, a number that is read before anything is written."""
    names = op.schema.argument_names
    return args[names.index("value")] if "value" in names else None


def _is_read_first(op: OpDef, args: Arguments, other: Tensor) -> bool:
    """Whether nothing of `other` is left to read when the write begins: a number, or a mask among indices."""
    if other is _value(op, args):
        return other.ndim == 0
    masks = (mask for position in op.list_positions for mask in args[position])
    return other.dtype.category is Category.BOOL and any(other is mask for mask in masks)


def _written_arguments(op: OpDef) -> list[int]:
    """For each output the argument that it is written to, if the schema tells by names (`grads_out`)."""
    names = op.schema.argument_names
    outputs = [(r.name or "").removesuffix("_out") for r in op.schema.returns]
    if not any(name in names for name in outputs):
        return []
    return [names.index(name) if name in names else i for i, name in enumerate(outputs)]


def _call_named_inplace(op: OpDef, args: Arguments, written: list[int]) -> Any:
    """`op` with several arguments overwritten, each a tensor or a list of them; returns the first if it is a
    tensor."""
    name = f"{op.public_name}_"
    targets = [args[i] if isinstance(args[i], tuple | list) else (args[i],) for i in written]
    for target in (target for some in targets for target in some):
        check_target(target, name, op.api)
    results = [r if isinstance(r, tuple | list) else (r,) for r in call(op, args)]
    pairs = [pair for some, new in zip(targets, results, strict=True) for pair in zip(some, new, strict=True)]
    for target, result in pairs:
        check_result(target, result, name)
    for target, result in pairs:
        assign(target, result)
    return args[0] if isinstance(args[0], Tensor) else None


def _call_list_inplace(op: OpDef, args: Arguments) -> Any:
    """`op` of a list with every tensor of it overwritten by its result; returns the list."""
    targets, name = args[0], f"{op.public_name}_"
    for target in targets:
        check_target(target, name, op.api)
    values = targets
    if MODES.grad and any(tensor.requires_grad for tensor in tensors_in(op, args)):
        values = tuple([call(REGISTRY["clone"], (target, None)) for target in targets])  # saved for backward
    results = call(op, (values, *args[1:]))
    for target, result in zip(targets, results, strict=True):
        check(
            result.dtype.is_complex or not target.dtype.is_complex,
            f"In-place {op.public_name.removeprefix('_foreach_')} is not supported for complex tensors.",
        )
        check_result(target, result, name)
    for target, result in zip(targets, results, strict=True):
        assign(target, result)
    return list(targets)


def _with_kept_values(op: OpDef, args: Arguments) -> Arguments:
    """The body of a composite may save its first argument for backward.

    What it saves must survive the write.
    """
    first = op.tensor_positions[0]
    target = args[first]
    through = (op.kind is Kind.COMPOSITE and op.derivative is None) or (
        target._array is None and target._parts is not None
    )
    if through and _records(op, args, target):
        return (*args[:first], call(REGISTRY["clone"], (target, None)), *args[first + 1 :])
    return args


def _reshape_inplace(op: OpDef, args: Arguments, name: str) -> Tensor:
    """The in-place form of a view (`squeeze_`, `t_`): the tensor itself takes the geometry of the view."""
    target = args[0]
    if target._keys & AUTOGRAD and before_write is not None:
        before_write(target, name)
    versions = target.version_counter
    former = target.__copy__()  # stands for the tensor as it was in the history of what it becomes
    result = call(op, (former, *args[1:]))
    if target._trace is not None:
        target._trace.take_geometry(target, result)
    elif target._parts is not None:
        target._parts, target._spec = result._parts, result._spec
    else:
        set_geometry(target, tuple(result.shape), result.strides(), result.storage_offset())
    versions.value += 1
    target._reshaped = True
    if target._base is not None:
        target._view_of, target._seen = result._view_of, result._seen
    if result._node is not None:
        target._node, target._output_nr = result._node, result._output_nr
    target._tangents = result._tangents
    return target


def call_out(op: OpDef, args: Arguments, out: Any) -> Any:
    """`op` with its results written to `out`, a tensor or one per output; returns `out`."""
    if AMBIENT.keys & AUTOCAST and op.autocast is not None:
        with autocast_off():
            return call_out(op, args, out)
    targets = out if isinstance(out, tuple | list) else (out,)
    for target in targets:
        check(
            isinstance(target, Tensor),
            f"{op.schema.name}(): argument 'out' must be Tensor, not {type(target).__name__}",
            TypeError,
        )
        check(
            not (target._keys | _any_keys(op, args)) & AUTOGRAD or not _records(op, args, target),
            f"{op.schema.name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one "
            "of the arguments requires grad.",
        )
        check(
            not target._inference or MODES.inference,
            "Inplace update to inference tensor outside "
            "InferenceMode is not allowed; clone it to get a tensor that can be written to.",
        )
    if MODES.dual_levels and MODES.forward_grad and any(map(has_tangent, (*targets, *tensors_in(op, args)))):
        fail(
            f"Trying to use forward AD with {op.schema.name}_out that does not support it because it is an "
            "out= function",
            NotImplementedError,
        )
    if (
        dispatch_out is not None
        and is_dispatched(op, args, targets)
        and (op.kind is not Kind.COMPOSITE or op.derivative is not None)
    ):
        dispatch_out(op, args, tuple(targets))
        return out
    results = call(op, _with_dtype_of(targets[0], op, args))
    results = results if isinstance(results, tuple) else (results,)
    check(
        len(results) == len(targets),
        f"{op.schema.name}(): out= needs {len(results)} tensors, got {len(targets)}",
        TypeError,
    )
    for target, result in zip(targets, results, strict=True):
        check(
            not (target.is_nested or result.is_nested),
            f"{op.schema.name}(): out= does not take nested tensors; write to them with copy_()",
            NotImplementedError,
        )
        check(
            target._keys & META == result._keys & META,
            f"{op.schema.name}(): expected out tensor to be on {result.device}, but it is on {target.device}",
        )
        check(
            op.api & Api.CASTS or can_cast(result.dtype, target.dtype),
            f"{op.schema.name}(): result type {result.dtype.torch_name} can't "
            f"be cast to the desired output type {target.dtype.torch_name} (expected scalar_type "
            f"{result.dtype.torch_name} but found {target.dtype.torch_name})",
        )
        check(
            not op.api & Api.EXACT or target.dtype is result.dtype,
            f"{op.schema.name}(): Expected out tensor to have "
            f"dtype {result.dtype.name}, but got {target.dtype.name} instead; {op.schema.name} only supports "
            f"{result.dtype.name} tensor for result, got: {target.dtype.name} (expected scalar_type "
            f"{result.dtype.torch_name} but found {target.dtype.torch_name})",
        )
        if op.api & Api.APART:
            _check_apart(op, args, target, result)
        if not op.api & Api.EXPANDED and (target.shape == result.shape or _keeps_shape(op, target, result)):
            check_no_internal_overlap(target)
        for tensor in () if op.api & Api.OVERLAPS else tensors_in(op, args):
            check_no_partial_overlap(target, tensor)
    for target, result in zip(targets, results, strict=True):
        if target.shape != result.shape:
            if _keeps_shape(op, target, result):
                result = call(REGISTRY["view"], (result, tuple(target.shape)))
            else:
                resize_output(target, result, warn=not op.api & Api.REFITS)
        _put(target, result)
    return out


def _keeps_shape(op: OpDef, target: Tensor, result: Tensor) -> bool:
    """Whether a flat result is written to an output of another shape as it is."""
    return bool(op.api & Api.FLAT) and target.numel() == result.numel()


def _check_apart(op: OpDef, args: Arguments, target: Tensor, result: Tensor) -> None:
    check_no_internal_overlap(target)
    for tensor in tensors_in(op, args):
        check_no_overlap(target, tensor)
        if (
            target.shape != result.shape
            and target._storage is not None
            and target._storage is tensor._storage
        ):
            first, (other_first, other_last) = _span(target)[0], _span(tensor)  # the output will be resized
            check(other_last <= first or first + result.nbytes <= other_first, _PARTIAL)


def _with_dtype_of(target: Tensor, op: OpDef, args: Arguments) -> Arguments:
    """The arguments of a factory with dtype=None replaced by that of its output.

    A different one is refused.
    """
    names = op.schema.argument_names
    if "dtype" not in names:
        return args
    if op.tensor_positions or op.list_positions:
        given = args[names.index("dtype")]
        check(
            given is None or given is target.dtype,
            f"{op.schema.name}(): Expected out tensor to have "
            f"dtype {given}, which was asked for, but got {target.dtype} instead",
        )
        return args
    if target._parts is not None and "layout" in names and args[names.index("layout")] is None:
        where = names.index("layout")
        args = (*args[:where], target.layout, *args[where + 1 :])
    at = names.index("dtype")
    if "layout" in names:
        check(
            args[names.index("layout")] in (None, target.layout),
            f"{op.schema.name}(): layout "
            f"{args[names.index('layout')]} does not match layout of out parameter ({target.layout})",
        )
    check(
        args[at] in (None, target.dtype, op.schema.arguments[at].default),
        f"{op.schema.name}(): dtype {args[at]} does not match dtype of out parameter ({target.dtype})",
    )
    return (*args[:at], target.dtype, *args[at + 1 :])


def has_tangent(tensor: Tensor) -> bool:
    """Whether a tensor, or the one it is a view of, has a tangent at an open level."""
    holders = (tensor,) if tensor._base is None else (tensor, tensor._base)
    return any(level.active for holder in holders for level in holder._tangents or ())


def _any_keys(op: OpDef, args: Arguments) -> int:
    keys = 0
    for tensor in tensors_in(op, args):
        keys |= tensor._keys
    return keys


def _records(op: OpDef, args: Arguments, target: Tensor) -> bool:
    """Whether the call would be recorded by autograd."""
    return MODES.grad and any(t.requires_grad for t in (*tensors_in(op, args), target))


def check_target(target: Tensor, name: str, api: Api = Api.NONE) -> None:
    """Refuse a write that PyTorch refuses, whatever the value."""
    if target._keys & AUTOGRAD and before_write is not None:
        before_write(target, name)
    if not has_internal_overlap(target):
        return
    if not api & (Api.EXPANDED | Api.EXPANDED_WARNS):
        check_no_internal_overlap(target)
    elif api & Api.EXPANDED_WARNS:
        warnings.warn(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before "
            "performing "
            "this operation.",
            UserWarning,
            stacklevel=4,
        )


def check_result(target: Tensor, result: Tensor, name: str) -> None:
    if result.dtype is not target.dtype:
        check(
            can_cast(result.dtype, target.dtype),
            f"{name}: result type {result.dtype.torch_name} can't be cast to "
            f"the desired output type {target.dtype.torch_name}",
        )
    if target._array is None and (target.is_nested or result.is_nested):
        return  # the interpreter of nested tensors looks at the rows
    if result.shape != target.shape:
        fail(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )


def assign(target: Tensor, result: Tensor) -> None:
    """Write `result` into `target` and give `target` the history of `result`."""
    keys = target._keys | result._keys
    if (
        dispatch_inplace is not None
        and not keys & TRACED
        and (keys | AMBIENT.keys) & DISPATCH
        and not MODES.undispatched
    ):
        call_inplace(REGISTRY["copy"], (target, result, False))
        return
    tracked = keys & AUTOGRAD and rebase is not None
    if tracked:
        prepare(target, result)  # type: ignore[misc]
    _put(target, result)
    if tracked:
        rebase(target, result)  # type: ignore[misc]


def _put(target: Tensor, result: Tensor) -> None:
    """Write, at whatever level of transforms and captures the two are."""
    if (target._keys | result._keys) & TRACED and traced_write is not None:
        traced_write(target, result)
    else:
        write(target, result)


def write(target: Tensor, result: Tensor) -> None:
    """Copy the values of `result` (same shape) into the memory of `target`; counts as one write."""
    if AMBIENT.keys and MODES.before_write is not None:
        MODES.before_write(target)
    if (target._array is None or result._array is None) and (target._parts or result._parts):
        _write_sparse(target, result)
    elif target._quantizer is not None or result._quantizer is not None:
        write_quantized(target, result)
    elif target._array is not None:
        values = result.numpy_array()
        if target._keys & LAZY:
            if target._conj:
                values = np.conjugate(values)
            if target._neg:
                values = np.negative(values)
        if not target._array.flags.writeable:
            raise RuntimeError(READ_ONLY)
        # Of the elements of an expanded tensor that share one location, one that was changed decides.
        changed = values != target._array if has_internal_overlap(target) else True
        quietly(np.copyto, target._array, values, "unsafe", changed)
    target.version_counter.value += 1


def _write_sparse(target: Tensor, result: Tensor) -> None:
    """`write` where one of the two is not strided.

    Values whose places stay are written to their memory, so that aliases of them see it.
    """
    if target._parts is None:
        write(target, call(REGISTRY["_to_dense"], (result, None, None)))
        target.version_counter.value -= 1  # one write, counted by the caller
        return
    check(
        result.layout is target.layout,
        f"a {result.layout.name} tensor cannot be written to a "
        f"{target.layout.name} tensor in place; convert one of the two first",
    )
    parts = result._parts
    if parts.values.dtype is not target.dtype:
        parts = parts.with_values(parts.values.to(target.dtype))
    if target._parts.same_structure(parts):
        write(target._parts.values, parts.values)
    else:
        target._parts = parts


# Overlap.


def check_no_internal_overlap(target: Tensor) -> None:
    """Refuse to write to a tensor in which several elements share one memory location, such as an expanded
    one.
    """
    if has_internal_overlap(target):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to "
            "a single "
            "memory location. Please clone() the tensor before performing the operation."
        )


def has_internal_overlap(target: Tensor) -> bool:
    """Whether `target` is expanded. Other overlaps inside a tensor (unfold) are not found, as in PyTorch."""
    array = target._array
    if array.flags.c_contiguous if array is not None else target._parts is not None or target.is_nested:
        return False
    return (
        any(stride == 0 and size > 1 for size, stride in zip(target.shape, target.strides(), strict=True))
        and target.numel() > 0
    )


def check_no_partial_overlap(target: Tensor, other: Tensor) -> None:
    """Refuse an operation whose input and written-to tensor overlap without being the same elements."""
    if other is target or target._array is None or other._array is None or target._storage is None:
        return
    if target.storage_object is not other.storage_object or not target.numel() or not other.numel():
        return
    if _same_elements(target, other):
        return
    if not (is_dense(target.shape, target.strides()) and is_dense(other.shape, other.strides())):
        # too hard to tell cheaply; the result is computed before it is written, so it is right all the same
        return
    first, last = _span(target)
    other_first, other_last = _span(other)
    if first == other_first and last == other_last:
        check(target.strides() == other.strides(), _PARTIAL)
    check(last <= other_first or other_last <= first, _PARTIAL)


def check_no_overlap(target: Tensor, other: Tensor) -> None:
    """Refuse an operation whose input and written-to tensor share memory, the same elements or not."""
    check(other is not target and not _same_elements(target, other), _PARTIAL)
    check_no_partial_overlap(target, other)


def _same_elements(target: Tensor, other: Tensor) -> bool:
    return (
        target._storage is not None
        and target._storage is other._storage
        and target._offset == other._offset
        and target.shape == other.shape
        and target.strides() == other.strides()
    )


_PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
    "single memory "
    "location. Please clone() the tensor before performing the operation."
)


def _span(tensor: Tensor) -> tuple[int, int]:
    start = tensor._offset * tensor.dtype.itemsize
    return start, start + tensor.nbytes


# Resizing.


def resize_output(target: Tensor, result: Tensor, warn: bool = True) -> None:
    """Give `target` the shape of `result`.

    Warns, as PyTorch mostly does, when a non-empty tensor must be resized.
    """
    if target.shape == result.shape:
        return
    if target._parts is not None:
        target._spec = Spec(tuple(result.shape), target.dtype)
        return
    if warn and target.numel() != 0:
        warnings.warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which "
            f"does not match the required output shape {list(result.shape)}. Pass an output of the "
            "right "
            "shape, or an empty one.",
            UserWarning,
            stacklevel=4,
        )
    strides = (
        result.strides() if is_dense(result.shape, result.strides()) else contiguous_strides(result.shape)
    )
    set_geometry(target, tuple(result.shape), strides)


def set_geometry(
    target: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None
) -> None:
    """Change shape and strides of `target` in place; its storage grows if it must, keeping its bytes."""
    offset = target._offset if offset is None else offset
    if target._trace is not None and target._trace.resize(target, shape, strides, offset):
        return
    if AMBIENT.trace is not None:
        if AMBIENT.trace.set_geometry(target, shape, strides, offset):
            return
        AMBIENT.trace.refuse("it changes the shape of a tensor of the caller in place")
    check_bytes(shape, strides, target.dtype.itemsize, offset)
    shared = _holders(target) > _ALONE
    storage = target.storage_object
    span = extent(shape, strides)
    needed = (offset + span) * target.dtype.itemsize if span else 0
    if storage.buffer is None:
        target._spec = Spec(shape, target.dtype, strides, offset)
        storage._meta_bytes = max(storage._meta_bytes, needed)
    else:
        if needed > storage.buffer.nbytes:
            had = storage.buffer.nbytes
            resize_storage(storage, needed, shared)
            if DETERMINISM.fills and target.dtype.category is not Category.QUANTIZED:
                size = target.dtype.itemsize
                new = storage.buffer[-(-had // size) * size : needed].view(target.dtype.numpy)
                new[...] = undefined(target.dtype)
        target._array = array_over(storage.buffer, shape, strides, offset, target.dtype)
    target._strides, target._offset = strides, offset


def _holders(tensor: Tensor) -> int:
    """How many references there are to the storage of a tensor."""
    return sys.getrefcount(tensor._storage) if tensor._storage is not None else 0


def _count_of_one() -> int:
    tensor = wrap(np.empty(1))
    assert tensor.storage_object is not None
    return _holders(tensor)


_ALONE = _count_of_one()
