"""In-place and out= forms, derived from the functional operator.

`call_inplace` and `call_out` run the functional operator, then write its result into an existing tensor. They
check everything that PyTorch checks (cast, shape, overlap, leaf that requires grad) before anything is
written, and count the
write in the version counter. Autograd installs `rebase`, which gives the written tensor the history of the
result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .autocast import autocast_off
from .dispatch import AMBIENT, Arguments, call, tensors_in
from .dtype_promotion import can_cast
from .dtypes import Category
from .errors import check, fail
from .modes import MODES
from .overlap import (
    check_no_internal_overlap,
    check_no_overlap,
    check_no_partial_overlap,
    has_internal_overlap,
)
from .plain_writes import are_written_plainly, fits_plainly, is_plain_write
from .pointwise import copy_in_place, run_in_place
from .promotion import Promotion
from .quantized import write_quantized
from .quiet import quietly
from .registry import REGISTRY, Api, Kind, OpDef
from .resizing import set_geometry
from .tensor import AUTOCAST, AUTOGRAD, DISPATCH, LAZY, TRACED, Tensor

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
    several = (*tensors_in(op, args), *targets) if keys & DISPATCH else ()
    graphless = any(t._keys & DISPATCH and not t._has_graph for t in several)
    if graphless and AMBIENT.trace is not None and not MODES.undispatched:
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


# as a number, since asking a set of flags takes as long as a small operator
_APART_INPLACE = Api.APART_INPLACE.value


def call_inplace(op: OpDef, args: Arguments) -> Tensor:
    """`op` with its first tensor overwritten by the (first) result; returns that tensor."""
    if (
        op.kind is Kind.POINTWISE
        and not AMBIENT.keys
        and op.tensor_positions[0] == 0
        and run_in_place(op, args)
    ):
        return args[0]
    if is_plain_write(op, args):
        return write_plainly(op, args)
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
    apart = op.api.value & _APART_INPLACE
    for other in tensors_in(op, args)[1:]:
        if apart:
            if not _is_read_first(op, args, other):
                check_no_overlap(target, other)
        elif other.ndim or other is not _value(op, args):
            check_no_partial_overlap(target, other)
    return _take(op, target, call(op, _with_kept_values(op, args)))


def write_plainly(op: OpDef, args: Arguments) -> Tensor:
    """`call_inplace` where `is_plain_write`: what would be looked at before is known."""
    target: Tensor = args[0]
    result = call(op, args)
    fits = result._array is not None and result.shape == target.shape
    if fits and copy_in_place(target, result):
        return target
    return _take(op, target, result)


def _take(op: OpDef, target: Tensor, result: Any) -> Tensor:
    """Write the (first) result of `op` to `target`, if it can be."""
    name = f"{op.public_name}_"
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
    if len(targets) > 1 and _reads_what_it_wrote(op, args):
        for number in range(len(targets)):
            _call_list_inplace(op, _of_number(op, args, number))
        return list(targets)
    if are_written_plainly(targets):
        results = call(op, args)
        if all(fits_plainly(*pair) for pair in zip(targets, results, strict=True)):
            for target, result in zip(targets, results, strict=True):
                np.copyto(target._array, result._array)
                target.version_counter.value += 1
            return list(targets)
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


def _reads_what_it_wrote(op: OpDef, args: Arguments) -> bool:
    """Whether a tensor of a list shares memory with one that is read or written with another number: PyTorch
    writes one after the other."""
    own = [_memory(target) for target in args[0]]
    if len(set(own)) < len(own):
        return True
    others = [args[i] for i in op.list_positions if i]
    written = set(own)
    if any(args[i] is not None and _memory(args[i]) in written for i in op.tensor_positions):
        return True
    return any(
        read != at and read in written
        for some in others
        if some is not None
        for at, read in zip(own, map(_memory, some), strict=False)
    )


def _memory(tensor: Tensor) -> int:
    """What tensors have in common that may share memory."""
    return id(tensor if tensor._storage is None else tensor._storage)


def _of_number(op: OpDef, args: Arguments, number: int) -> Arguments:
    """The arguments for one tensor of the list, with what belongs to it of other lists, and of a tensor that
    holds a number for each."""
    count = len(args[0])
    part = slice(number, number + 1)

    def own(at: int, value: Any) -> Any:
        name, kind = op.schema.arguments[at].name, op.schema.arguments[at].type
        if kind.is_list and value is not None and len(value) == count:
            return value[part]
        return value[part] if name == "scalars" and isinstance(value, Tensor) else value

    return tuple([own(at, value) for at, value in enumerate(args)])


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
