"""Running pointwise operators: promotion plans, the NumPy handler, and the shape rule they all share.

In: a pointwise OpDef and its argument tuple. Out: tensors, or Specs without data. A plan says how the
operands of one combination of dtypes are promoted; it is made once and kept in `op.plans`.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .arrays import array_over
from .dtypes import BY_NUMPY, DType
from .errors import fail
from .modes import MODES
from .promotion import Promotion, common, resolve
from .quiet import quietly
from .registry import LIBRARY, REGISTRY, OpDef
from .shapes import (
    Shape,
    Spec,
    broadcast_shapes,
    check_bytes,
    check_rank,
    contiguous_strides,
    elementwise_strides,
)
from .tensor import AUTOGRAD, LAZY, Tensor, wrap

Arguments = tuple[Any, ...]

_handler: Any = None


def install_handler(handler: Any) -> None:
    """Install the NumPy handler that runs pointwise bodies eagerly."""
    global _handler
    _handler = handler


class Plan:
    """How one combination of operand dtypes is computed."""

    __slots__ = ("casts", "checked", "result", "result_dtype", "ufunc", "uniform")

    def __init__(
        self,
        op: OpDef,
        operands: Sequence[Any],
        compute: DType,
        result: DType,
        casts: list[tuple[np.dtype, ...]],
    ) -> None:
        self.casts = casts  # for each operand the dtypes it is converted to, one after the other
        self.result_dtype = result
        self.result = result.numpy
        self.uniform = all(isinstance(o, Tensor) and not c for o, c in zip(operands, casts, strict=True))
        present = sum(o is not None for o in operands)
        ufunc = getattr(_handler, op.instruction) if op.instruction else None
        self.ufunc = ufunc if isinstance(ufunc, np.ufunc) and ufunc.nin == present else None
        self.checked = not op.checks_numbers  # the check need not be repeated


def plan_for(op: OpDef, args: Arguments, operands: Sequence[Any]) -> Plan:
    """The plan for `operands`, the promoted ones among `args`; raises for dtypes that `op` does not take."""
    key: tuple[Any, ...] = tuple([o.dtype if isinstance(o, Tensor) else type(o) for o in operands])
    if op.promote_by is not None:
        key = (*key, op.promote_by(args))
    plan = op.plans.get(key)
    if plan is None:
        ranked = (*key, *[isinstance(o, Tensor) and o.ndim == 0 for o in operands])
        plan = op.plans.get(ranked)
        if plan is None:
            plan = _new_plan(op, args, operands)
            mixed = len({o.dtype for o in operands if isinstance(o, Tensor)}) > 1
            op.plans[ranked if mixed else key] = plan  # rank matters only between tensors of different dtypes
    return plan


def _new_plan(op: OpDef, args: Arguments, operands: Sequence[Any]) -> Plan:
    if op.check is not None:
        op.check(args)
    promoted = [o for i, o in zip(op.operands, operands, strict=True) if i not in op.conditions]
    dtype = common([(o.dtype, o.ndim == 0) if isinstance(o, Tensor) else o for o in promoted])
    check_dtype(op, dtype)
    promote = op.promote if op.promote_by is None else op.promote_by(args)
    compute, result = resolve(promote or Promotion.DEFAULT, dtype)
    if op.moves and dtype.opmath is compute:
        compute = dtype
    casts: list[tuple[np.dtype, ...]] = []
    for i, operand in zip(op.operands, operands, strict=True):
        own = operand.dtype if isinstance(operand, Tensor) else None
        if i in op.conditions:
            casts.append(() if own is dtypes.bool_ else (dtypes.bool_.numpy,))
        elif own is compute or operand is None:
            casts.append(())
        elif dtype.opmath is compute and own is not dtype and compute is not dtype and i not in op.exact:
            casts.append((dtype.numpy, compute.numpy))
        else:
            casts.append((compute.numpy,))
    return Plan(op, operands, compute, result, casts)


def _forget_plans() -> None:
    for op in itertools.chain(REGISTRY, LIBRARY):
        op.plans.clear()


dtypes.on_default_change(_forget_plans)


def check_dtype(op: OpDef, dtype: DType) -> None:
    """NotImplementedError where `op` does not take `dtype`, as in PyTorch."""
    if op.dtypes is not None and dtype not in op.dtypes:
        allowed = ", ".join(sorted(d.name for d in op.dtypes))
        raise NotImplementedError(
            f"\"{op.schema.name}\" not implemented for '{dtype.torch_name}'; it takes {allowed}"
        )


def _dtype_of_part(op: OpDef, part: Any, plan: Plan, number: int) -> Any:
    """The dtype of one of several outputs: that of the result for the first, and for others that were
    computed in the same, wider one."""
    wider = plan.result is not None and part.dtype == plan.result_dtype.opmath.numpy
    return plan.result if not number or wider else part.dtype


def run_pointwise(op: OpDef, args: Arguments) -> Any:
    """Run a pointwise operator on data."""
    operands = [args[i] for i in op.operands]
    plan = plan_for(op, args, operands)
    plain = True  # every parameter has its default
    for i in op.settings:
        if args[i] is not op.defaults[i]:  # identity, since True == 1 == 1.0
            plain = False
    if op.check is not None and not (plain and plan.checked):
        op.check(args)
    if plan.uniform:
        values = [o._array if not o._keys & LAZY else o.numpy_array() for o in operands]
    else:
        values = [_value(o, cast) for o, cast in zip(operands, plan.casts, strict=True)]
    try:
        if plain and plan.ufunc is not None:
            result = quietly(plan.ufunc, *values)
        else:
            result = _run_body(op, args, values)
            if type(result) is tuple:
                return tuple(
                    [
                        _finished(part, _dtype_of_part(op, part, plan, i), operands)
                        for i, part in enumerate(result)
                    ]
                )
    except (MemoryError, ValueError) as error:
        shape = broadcast_shapes(*[o.shape for o in operands if isinstance(o, Tensor)], name=op.schema.name)
        check_rank(shape)
        check_bytes(shape, None, plan.result_dtype.itemsize)
        if isinstance(error, MemoryError):
            raise RuntimeError(f"not enough memory: {error}") from None
        raise
    return _finished(result, plan.result, operands)


def changes_memory_alone(operands: Sequence[Any]) -> bool:
    """Whether a write to one of these, whose keys are those of autograd at most, changes nothing but memory."""
    if MODES.transforming is not None or MODES.dual_levels:
        return False
    return not any(
        isinstance(operand, Tensor) and (operand._inference or (MODES.grad and operand.requires_grad))
        for operand in operands
    )


def run_in_place(op: OpDef, args: Arguments) -> bool:
    """Compute straight into the memory of the first argument, if one NumPy call does it and nothing but that
    memory changes; otherwise False, with nothing done."""
    target = args[0]
    storage, array = target._storage, target._array
    operands = [args[i] for i in op.operands]
    keys = 0
    for operand in operands:
        if isinstance(operand, Tensor):
            keys |= operand._keys
            if operand._array is None or (
                storage is not None and operand._storage is storage and operand is not target
            ):
                return False
    if keys and (keys > AUTOGRAD or not changes_memory_alone(operands)):
        return False
    if target._base is not None or op.operands[0] != 0 or not array.flags.carray:
        return False
    for i in op.settings:
        if args[i] is not op.defaults[i]:
            return False
    plan = plan_for(op, args, operands)
    if plan.ufunc is None or plan.result_dtype is not target.dtype or plan.casts[0]:
        return False
    if op.check is not None and not plan.checked:
        op.check(args)
    values = [_value(o, cast) for o, cast in zip(operands, plan.casts, strict=True)]
    try:
        quietly(plan.ufunc, *values, array)
    except (TypeError, ValueError):  # shapes or dtypes that do not fit: the long way says so
        return False
    target.version_counter.value += 1
    return True


def copy_in_place(target: Tensor, source: Tensor) -> bool:
    """Copy if nothing but memory changes, and one copy does it, broadcast at most; otherwise False, with
    nothing done."""
    keys = target._keys | source._keys
    if keys > AUTOGRAD or (keys and not changes_memory_alone((target, source))):
        return False
    to, values = target._array, source._array
    if to is None or values is None or target.dtype is not source.dtype or not to.flags.writeable:
        return False
    if target._spec is not None or source._spec is not None or values.ndim > to.ndim:
        return False
    try:
        np.copyto(to, values)
    except ValueError:  # shapes that do not fit: the long way says so
        return False
    target.version_counter.value += 1
    return True


def _run_body(op: OpDef, args: Arguments, values: Sequence[Any]) -> Any:
    full = list(args)
    for i, value in zip(op.operands, values, strict=True):
        full[i] = value
    result = quietly(op.body, _handler, *full)  # type: ignore[arg-type]
    shape = values[0].shape if len(values) == 1 else np.broadcast(*[v for v in values if v is not None]).shape
    if type(result) is tuple:
        return tuple([_owned(r, shape, values) for r in result])
    return _owned(result, shape, values)


def _owned(result: Any, shape: tuple[int, ...], values: Sequence[Any]) -> Any:
    """`result` in the full `shape`, with its own memory: a body may return an operand or a constant."""
    if result.shape != shape:
        return np.broadcast_to(result, shape).copy()
    if result.base is not None or any(result is v for v in values):
        return result.copy(order="K")
    return result


def _finished(result: Any, dtype: np.dtype, operands: Sequence[Any]) -> Tensor:
    """`result` rounded to `dtype`, in the memory order of the operands: the one that the shape rule tells."""
    if result.dtype is not dtype and result.dtype != dtype:
        result = quietly(result.astype, dtype)
    if result.ndim > 1 and result.size:
        shape = result.shape
        for operand in operands:
            # NumPy does not look at the strides of dimensions of size 1, which decide where they are expanded
            if isinstance(operand, Tensor) and _of_other_order(operand, shape):
                inputs = [(o._array.shape, o.strides()) for o in operands if isinstance(o, Tensor)]  # type: ignore[union-attr]
                result = _in_order(result, _known_strides(shape, tuple(inputs)))
                break
    return wrap(result)


_known_strides = functools.lru_cache(maxsize=4096)(elementwise_strides)


def _of_other_order(t: Tensor, shape: Shape) -> bool:
    array = t._array
    assert array is not None
    return not array.flags.c_contiguous or (t._strides is not None and array.shape != shape)


def _in_order(result: np.ndarray, strides: Shape | None) -> np.ndarray:
    """`result` with these strides, in elements; None means contiguous. NumPy at times chooses others."""
    itemsize = result.itemsize
    wanted = contiguous_strides(result.shape) if strides is None else strides
    if result.strides == tuple([s * itemsize for s in wanted]):
        return result
    ordered = array_over(np.empty(result.nbytes, np.uint8), result.shape, wanted, 0, BY_NUMPY[result.dtype])
    ordered[...] = result
    return ordered


def _strides(shape: Shape, tensors: Sequence[Tensor]) -> Shape | None:
    return elementwise_strides(shape, [(tuple(t.shape), t.strides()) for t in tensors])


def _value(operand: Any, cast: tuple[np.dtype, ...]) -> Any:
    """An operand as an array or NumPy scalar of the compute dtype."""
    if operand is None:
        return None
    if isinstance(operand, Tensor):
        array = operand.numpy_array()
    else:
        array, cast = quietly(number, operand, cast[0]), cast[1:]
    for dtype in cast:
        array = quietly(array.astype, dtype)
    return array


def number(value: Any, dtype: np.dtype) -> Any:
    """A Python number as a NumPy scalar of `dtype`; integers out of range wrap around, as in C."""
    try:
        return dtype.type(value)
    except OverflowError:
        return scalar_array(value, dtype)[()]
    except TypeError:
        if not isinstance(value, complex) or value.imag:
            fail(f"value cannot be converted to type {dtype.name} without overflow: {value}")
        return number(value.real, dtype)


def scalar_array(value: Any, dtype: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers out of range wrap around, as C conversions do."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"value {value} cannot be converted to a 64-bit integer without overflow")
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


# Without data.


def infer_pointwise(op: OpDef, args: Arguments) -> Any:
    """The Spec, or tuple of Specs, of the outputs."""
    operands = [args[i] for i in op.operands]
    plan = plan_for(op, args, operands)
    if op.check is not None:
        op.check(args)
    tensors = [o for o in operands if isinstance(o, Tensor)]
    shape = broadcast_shapes(*[t.shape for t in tensors], name=op.schema.name)
    strides = _strides(shape, tensors)
    if len(op.schema.returns) == 1:
        return Spec(shape, plan.result_dtype, strides)
    return tuple([Spec(shape, dtype, strides) for dtype in _output_dtypes(op, args)])


def _output_dtypes(op: OpDef, args: Arguments) -> list[DType]:
    """Dtypes of a pointwise operator with several outputs, found by running its body on 0-d arrays."""
    sample = tuple([wrap(np.ones((), a.dtype.numpy)) if isinstance(a, Tensor) else a for a in args])
    return [output.dtype for output in run_pointwise(op, sample)]
