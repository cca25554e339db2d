"""The out= forms of operators: the functional one, and a write into the tensors that are given."""

from __future__ import annotations

from typing import Any

from . import mutation
from .autocast import autocast_off
from .dispatch import AMBIENT, Arguments, call, tensors_in
from .dtype_promotion import can_cast
from .errors import check, fail
from .modes import MODES
from .mutation import _any_keys, _put, _records, has_tangent, is_dispatched
from .overlap import _PARTIAL, _span, check_no_internal_overlap, check_no_overlap, check_no_partial_overlap
from .registry import REGISTRY, Api, Kind, OpDef
from .resizing import resize_output
from .tensor import AUTOCAST, AUTOGRAD, META, Tensor


def call_out(op: OpDef, args: Arguments, out: Any) -> Any:
    """`op` with its results written to `out`, a tensor or one per output; returns `out`."""
    if AMBIENT.keys & AUTOCAST and op.autocast is not None:
        with autocast_off():
            return call_out(op, args, out)
    targets = out if isinstance(out, tuple | list) else (out,)
    _check_targets(op, args, targets)
    if (
        mutation.dispatch_out is not None
        and is_dispatched(op, args, targets)
        and (op.kind is not Kind.COMPOSITE or op.derivative is not None)
    ):
        mutation.dispatch_out(op, args, tuple(targets))
        return out
    results = call(op, _with_dtype_of(targets[0], op, args))
    results = results if isinstance(results, tuple) else (results,)
    check(
        len(results) == len(targets),
        f"{op.schema.name}(): out= needs {len(results)} tensors, got {len(targets)}",
        TypeError,
    )
    for target, result in zip(targets, results, strict=True):
        _check_fits(op, args, target, result)
    for target, result in zip(targets, results, strict=True):
        if target.shape != result.shape:
            if _keeps_shape(op, target, result):
                result = call(REGISTRY["view"], (result, tuple(target.shape)))
            else:
                resize_output(target, result, warn=not op.api & Api.REFITS)
        _put(target, result)
    return out


def _check_targets(op: OpDef, args: Arguments, targets: Any) -> None:
    """Refuse what cannot be written to, before the operator runs."""
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


def _check_fits(op: OpDef, args: Arguments, target: Tensor, result: Tensor) -> None:
    """Refuse a target that the result cannot be written to."""
    check(
        not (target.is_nested or result.is_nested),
        f"{op.schema.name}(): out= does not take nested tensors; write to them with copy_()",
        NotImplementedError,
    )
    if target._keys & META != result._keys & META:
        fail(
            f"{op.schema.name}(): expected out tensor to be on {result.device}, but it is on {target.device}"
        )
    flags = op.api.value
    if target.dtype is not result.dtype:
        _check_dtype(op, target, result)
    if flags & _APART:
        _check_apart(op, args, target, result)
    if not flags & _EXPANDED and (target.shape == result.shape or _keeps_shape(op, target, result)):
        check_no_internal_overlap(target)
    for tensor in () if flags & _OVERLAPS else tensors_in(op, args):
        check_no_partial_overlap(target, tensor)


# as numbers, since asking a set of flags takes as long as a small operator
_APART, _EXPANDED, _OVERLAPS = Api.APART.value, Api.EXPANDED.value, Api.OVERLAPS.value


def _check_dtype(op: OpDef, target: Tensor, result: Tensor) -> None:
    """Refuse a target of a dtype that the result is not written in."""
    check(
        op.api & Api.CASTS or can_cast(result.dtype, target.dtype),
        f"{op.schema.name}(): result type {result.dtype.torch_name} can't "
        f"be cast to the desired output type {target.dtype.torch_name} (expected scalar_type "
        f"{result.dtype.torch_name} but found {target.dtype.torch_name})",
    )
    check(
        not op.api & Api.EXACT,
        f"{op.schema.name}(): Expected out tensor to have "
        f"dtype {result.dtype.name}, but got {target.dtype.name} instead; {op.schema.name} only supports "
        f"{result.dtype.name} tensor for result, got: {target.dtype.name} (expected scalar_type "
        f"{result.dtype.torch_name} but found {target.dtype.torch_name})",
    )


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
