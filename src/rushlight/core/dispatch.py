"""Running an operator: the one way every call takes.

`call(op, args)` takes an operator and its complete argument tuple in schema order (see resolve.py for how a
user's call becomes that). Plain tensors go straight to eager execution; a tensor with keys goes through,
in this order, the
transform or capture it belongs to, autograd, and the meta device. Floors above core install their layer with
`install_layer`.

Eager execution by kind: pointwise bodies run on the NumPy handler, views alias the storage, composites run
their body, structural operators run their shape rule and then their kernel.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from itertools import repeat
from operator import is_
from typing import Any

import numpy as np

from .errors import InternalError, RegistrationError, check
from .modes import MODES
from .pointwise import infer_pointwise, run_pointwise
from .promotion import common, resolve
from .quantized import grids_of_views
from .quiet import quietly
from .registry import LIBRARY, REGISTRY, Kind, OpDef
from .shapes import Spec, check_bytes, check_rank
from .tensor import (
    AUTOCAST,
    AUTOGRAD,
    DISPATCH,
    META,
    PROFILED,
    QUANTIZED,
    RANDOM,
    SPARSE,
    TRACED,
    Tensor,
    meta_tensor,
    wrap,
)
from .tokens import strided
from .views import run_view

Arguments = tuple[Any, ...]
Layer = Callable[..., Any]


class _Ambient(threading.local):
    """Keys that hold for every call on this thread, whatever its arguments (an active capture, for instance)."""

    keys = 0
    trace: Any = None  # the interpreter that runs every operator, if there is one


AMBIENT = _Ambient()

_layers: dict[str, Layer] = {}


def install_layer(name: str, layer: Layer) -> None:
    """Install the function that serves calls with the key `name`.

    "traced", "autograd", or "read" for values.
    """
    if name in _layers:
        raise RegistrationError(f"the dispatch layer {name} is already installed")
    _layers[name] = layer


def call(op: OpDef, args: Arguments) -> Any:
    """Run `op` on `args`, the values of all its schema arguments in order."""
    return run_call(op, args)


def call_operator(op: OpDef, args: Arguments) -> Any:
    """What `call` does, in Python."""
    keys = AMBIENT.keys
    for i in op.tensor_positions:
        tensor = args[i]
        if tensor is not None:
            keys |= tensor._keys
    for i in op.list_positions:
        if args[i] is not None:
            for tensor in args[i]:
                if tensor is not None:
                    keys |= tensor._keys
    if keys:
        if keys & PROFILED:
            return _layers["profiled"](op, args, keys & ~PROFILED)
        if keys & AUTOCAST and op.autocast is not None:
            return _layers["autocast"](op, args)
        if keys & TRACED or (keys & RANDOM and op.random):
            return _layers["traced"](op, args, keys)
        if keys & AUTOGRAD and "autograd" in _layers:
            return _layers["autograd"](op, args, keys)
    return execute(op, args, keys)


# Operators of the package that run a kernel of the user's.
OVERRIDDEN: list[OpDef] = []

# `call_operator`, or what does the same natively (runtime/native_dispatch.py).
run_call: Callable[[OpDef, Arguments], Any] = call_operator


def below_profiler(op: OpDef, args: Arguments, keys: int) -> Any:
    """What is left of `call` for a profiler that is looking at it; what runs inside is seen again."""
    if keys & AUTOCAST and op.autocast is not None:
        return _layers["autocast"](op, args)
    if keys & TRACED or (keys & RANDOM and op.random):
        return _layers["traced"](op, args, keys)
    if keys & AUTOGRAD and "autograd" in _layers:
        return _layers["autograd"](op, args, keys)
    return execute(op, args, keys)


def autograd_layer(op: OpDef, args: Arguments, keys: int, trace: Any) -> Any:
    """Run `op` through autograd at the level of the interpreter `trace`."""
    return _layers["autograd"](op, args, keys, trace)


def execute(op: OpDef, args: Arguments, keys: int | None = None) -> Any:
    """Run `op` below autograd and transforms: on data, or on the meta device."""
    if keys is None:
        keys = _keys_of(op, args) | (AMBIENT.keys & DISPATCH)
    if op.device_position is not None:
        if args[op.device_position] is not None:
            keys = keys | META if args[op.device_position].type == "meta" else keys & ~META
        if _asked_layout(op, args) is not None:
            keys |= SPARSE
    if keys & (META | SPARSE | QUANTIZED | DISPATCH):
        if (
            keys & DISPATCH
            and not MODES.undispatched
            and (op.kind is not Kind.COMPOSITE or op.derivative is not None)
        ):
            return _layers["python"](op, args)
        if keys & QUANTIZED:
            return _run_quantized(op, args)
        if keys & SPARSE and (op.sparse is not None or op.kind is not Kind.COMPOSITE):
            return _run_sparse(op, args)
        if keys & META and op.kind is not Kind.COMPOSITE:
            return _run_meta(op, args)
    return (op.run or _keep_runner(op))(op, args)


def _runner_of(op: OpDef) -> Callable[[OpDef, Arguments], Any]:
    """What runs `op` on data: its own function, else native kernels where there are such, else the kind's way."""
    if op.own_run is not None:
        return op.own_run
    run, layer = _runners[op.kind], _layers.get("eager")
    return run if layer is None else layer(op, run)


def run_by(op: OpDef, run: Callable[[OpDef, Arguments], Any] | None) -> None:
    """Run `op` on data by this function alone, whichever kernels are in force; None: as its kind is run."""
    op.own_run = op.run = run


_choices = 0  # of runners that were taken back


def _keep_runner(op: OpDef) -> Callable[[OpDef, Arguments], Any]:
    before = _choices
    run = op.run = _runner_of(op)
    if _choices != before:  # another thread had them forgotten meanwhile, perhaps before this one was there
        op.run = None
    return run


def make_ready(op: OpDef) -> None:
    """Have the runner of an operator there before its first call."""
    if op.run is None:
        _keep_runner(op)


def forget_runner(op: OpDef) -> None:
    """Let an operator look for its runner again."""
    global _choices
    _choices += 1
    op.run = None


def forget_runners() -> None:
    """Let every operator look for its runner again."""
    global _choices
    _choices += 1
    for op in itertools.chain(REGISTRY, LIBRARY):
        op.run = None


def _asked_layout(op: OpDef, args: Arguments) -> Any:
    """The sparse layout that an argument asks for, of an operator that makes such tensors; else None."""
    if op.sparse is None or op.sparse.layout_at is None:
        return None
    layout = args[op.sparse.layout_at]
    return None if layout is strided else layout


def is_sparse_call(op: OpDef, args: Arguments) -> bool:
    """Whether an operator takes or makes a sparse tensor."""
    return (
        op.kind is Kind.SPARSE
        or _asked_layout(op, args) is not None
        or any(tensor._parts is not None for tensor in tensors_in(op, args))
    )


def _keys_of(op: OpDef, args: Arguments) -> int:
    keys = 0
    for tensor in tensors_in(op, args):
        keys |= tensor._keys
    return keys


def tensors_in(op: OpDef, args: Arguments) -> list[Tensor]:
    """All tensors among `args`, those in lists included, in schema order."""
    found = [args[i] for i in op.tensor_positions if args[i] is not None]
    for i in op.list_positions:
        if args[i] is not None:
            found.extend(tensor for tensor in args[i] if tensor is not None)
    return found


# Views, composites, structural operators.


def _run_composite(op: OpDef, args: Arguments) -> Any:
    if op.promote is None:
        return op.body(args)  # type: ignore[misc]
    tensors = [args[i] for i in op.operands if args[i] is not None]
    dtype = common([(t.dtype, t.ndim == 0) if isinstance(t, Tensor) else t for t in tensors])
    compute, result = resolve(op.promote, dtype)
    cast = tuple(
        [
            a.to(compute) if i in op.operands and isinstance(a, Tensor) and a.dtype is not compute else a
            for i, a in enumerate(args)
        ]
    )
    output = op.body(cast)  # type: ignore[misc]
    if isinstance(output, tuple):
        return tuple([o if o.dtype is result else o.to(result) for o in output])
    return output if output.dtype is result else output.to(result)


# Families whose rules look at nothing but geometries, dtypes and numbers, and say the same of the same; those of
# some operators also warn.
_PURE = frozenset(("matmul", "reduction", "conv", "pooling", "activation", "shape", "linalg", "fft"))
_PURE_OF_NUMBERS = frozenset(("creation", "random"))  # the same, of operators that take no tensor
_WARNING = ("var", "std", "range", "randint", "random")
_MOST_SPECS = 1024  # that are remembered of one operator


@functools.cache
def _is_pure(op: OpDef) -> bool:
    if op.data_dependent or op.list_positions or op.schema.name.startswith(_WARNING):
        return False
    if op.family in _PURE_OF_NUMBERS:
        return not op.tensor_positions and all(a.type.base != "Generator" for a in op.schema.arguments)
    return op.family in _PURE


def _specs_of(op: OpDef, args: Arguments) -> Any:
    """What the shape rule says, remembered for plain tensors."""
    if not _is_pure(op):
        return op.rule(args)  # type: ignore[misc]
    known: tuple[Any, ...] = (args, *map(type, args))  # since True == 1 == 1.0
    if op.tensor_positions:
        key: list[Any] = []
        for value in args:
            if isinstance(value, Tensor):
                array = value._array
                if array is None or value._keys & ~AUTOGRAD or value._spec is not None:
                    return op.rule(args)  # type: ignore[misc]
                key += (array.shape, array.strides, value._strides, value.dtype)
            else:
                key += (type(value), value)
        known = tuple(key)
    try:
        specs = op.plans.get(known)
    except TypeError:  # what cannot be looked up
        return op.rule(args)  # type: ignore[misc]
    if specs is None:
        specs = op.rule(args)  # type: ignore[misc]
        if len(op.plans) >= _MOST_SPECS:
            op.plans.clear()
        op.plans[known] = specs
    return specs


def _run_structural(op: OpDef, args: Arguments) -> Any:
    specs = _specs_of(op, args)
    if op.kernel is None:
        raise NotImplementedError(f"{op.name} has no kernel")
    reads = op.kernel_reads
    arrays = [_kernel_argument(op, a) if i in reads else a for i, a in enumerate(args)]
    try:
        return quietly(_computed, op, arrays, specs)
    except (MemoryError, ValueError, OverflowError) as error:
        refuse_impossible(specs, error)
        raise


def refuse_impossible(specs: Any, error: Exception) -> None:
    """RuntimeError, as in PyTorch, if `error` says that there is not so much memory, or that sizes are too
    large for any memory: NumPy raises several types."""
    for spec in (specs,) if isinstance(specs, Spec) else specs:
        if spec.shape is not None:
            check_rank(spec.shape)
            check_bytes(spec.shape, spec.strides, spec.dtype.itemsize)
    if isinstance(error, MemoryError) or str(error).startswith(("array is too big", "iterator is too large")):
        raise RuntimeError(f"not enough memory: {error}") from None


def _computed(op: OpDef, arrays: list[Any], specs: Any) -> Any:
    results = op.kernel((*arrays, specs))  # type: ignore[misc]
    arrays = [arrays[i] for i in op.kernel_reads]
    if isinstance(specs, Spec):
        return _finish(op, results, specs, arrays)
    if len(results) != len(specs):
        raise InternalError(
            f"{op.name}: the kernel returned {len(results)} outputs, its shape rule {len(specs)}"
        )
    return tuple([_finish(op, r, s, arrays) for r, s in zip(results, specs, strict=True)])


def _run_sparse(op: OpDef, args: Arguments) -> Any:
    """Run the kernel for tensors that are not strided."""
    layouts = {tensor.layout for tensor in tensors_in(op, args) if tensor._parts is not None}
    kernel = op.sparse
    if kernel is None or (kernel.layouts is not None and not layouts <= kernel.layouts):
        refused = layouts if kernel is None or kernel.layouts is None else layouts - kernel.layouts
        raise NotImplementedError(
            f"{op.name} is not implemented for tensors of layout {', '.join(sorted(map(repr, refused)))}; "
            "call .to_dense() on them first"
        )
    with np.errstate(all="ignore"):
        return kernel.function(args)


def _run_quantized(op: OpDef, args: Arguments) -> Any:
    """Run the kernel for quantized tensors; a view takes a view of the integers, a composite its body."""
    if op.quantized is not None:
        with np.errstate(all="ignore"):
            return op.quantized(args)
    if op.kind is Kind.COMPOSITE and op.promote is None:
        return op.body(args)  # type: ignore[misc]
    if op.kind is not Kind.VIEW:
        raise NotImplementedError(
            f"{op.name} is not implemented for quantized tensors; call dequantize() on them first"
        )
    grids = grids_of_views(op, args)
    views = run_view(op, args)
    for view, grid in zip(views if isinstance(views, tuple) else (views,), grids, strict=True):
        view._quantizer = grid
    return views


def _kernel_argument(op: OpDef, value: Any) -> Any:
    if isinstance(value, Tensor):
        array = value.numpy_array()
        dtype = value.dtype
        if dtype.opmath is not dtype and not op.moves:
            return array.astype(dtype.opmath.numpy)
        return array
    if type(value) is tuple and any(isinstance(v, Tensor) for v in value):
        return tuple([_kernel_argument(op, v) for v in value])
    return value


def _finish(op: OpDef, result: Any, spec: Spec, inputs: Sequence[Any]) -> Tensor:
    """Wrap a kernel's output after checking it against its Spec.

    An output that aliases an input is copied.
    """
    if type(result) is not np.ndarray:
        result = np.asarray(result)
    if spec.shape is not None and result.shape != spec.shape:
        raise InternalError(
            f"{op.name}: the kernel returned shape {result.shape}, its shape rule {spec.shape}"
        )
    if result.dtype != spec.dtype.numpy:
        result = result.astype(spec.dtype.numpy)
    elif (result.base is not None or any(map(is_, inputs, repeat(result)))) and (
        not result.flags.writeable or _aliases(result, inputs) or any(s < 0 for s in result.strides)
    ):
        result = result.copy()
    if spec.strides is None and spec.shape is not None and not result.flags.c_contiguous:
        result = np.ascontiguousarray(result)  # eager, meta and compiled agree on the layout
    if spec.dtype.is_quantized:
        raise RuntimeError(
            f"{op.name} cannot make a tensor of dtype {spec.dtype.name}; quantize_per_tensor "
            "and quantize_per_channel do"
        )
    tensor = wrap(result)
    if spec.strides is not None and result.size == 0:
        tensor._strides = spec.strides  # NumPy keeps no strides for arrays without elements
    return tensor


def _aliases(result: np.ndarray, inputs: Sequence[Any]) -> bool:
    for value in inputs:
        if isinstance(value, np.ndarray):
            if np.may_share_memory(result, value):
                return True
        elif type(value) is tuple and _aliases(result, value):
            return True
    return False


# The meta device.


def infer(op: OpDef, args: Arguments) -> Any:
    """The Spec, or tuple of Specs, of the outputs of a non-composite operator."""
    if op.kind is Kind.POINTWISE:
        return infer_pointwise(op, args)
    return op.rule(args)  # type: ignore[misc]


def _run_meta(op: OpDef, args: Arguments) -> Any:
    for tensor in tensors_in(op, args) if op.device_position is None else ():
        check(
            tensor._keys & META or tensor.ndim == 0,
            f"{op.schema.name}: all tensors must be on the same device, "
            "but some are on 'meta' and others on 'cpu'",
        )
    if op.kind is Kind.VIEW:
        return run_view(op, args)
    if op.kind in (Kind.SPARSE, Kind.QUANTIZED):
        raise NotImplementedError(f"{op.name}: there are no {op.kind.value} tensors on the meta device")
    specs = infer(op, args)
    if isinstance(specs, Spec):
        return _checked_meta(specs)
    return tuple([_checked_meta(spec) for spec in specs])


def _checked_meta(spec: Spec) -> Tensor:
    check_bytes(spec.known_shape(), spec.strides, spec.dtype.itemsize)
    return meta_tensor(spec)


_runners: dict[Kind, Callable[[OpDef, Arguments], Any]] = {
    Kind.POINTWISE: run_pointwise,
    Kind.VIEW: run_view,
    Kind.COMPOSITE: _run_composite,
    Kind.STRUCTURAL: _run_structural,
    Kind.SPARSE: _run_sparse,
    Kind.QUANTIZED: _run_quantized,
}


def read_number(tensor: Tensor) -> Any:
    """The number in a tensor of one element that a class or mode gives."""
    return _layers["number"](tensor)


def readable(tensor: Tensor) -> bool:
    """Whether the values are there to be checked: not on the meta device, nor while a call is captured."""
    trace = AMBIENT.trace
    return not tensor._keys & (META | TRACED) and (trace is None or not trace.depends_on(tensor))


def read_array(tensor: Tensor) -> np.ndarray:
    """The values of `tensor` for Python code to look at.

    A traced tensor asks its trace (which may refuse), and so does, under capture, a tensor of the caller.
    """
    if tensor._keys & TRACED:
        return _layers["read"](tensor)
    trace = AMBIENT.trace
    if trace is not None and trace.depends_on(tensor):
        return trace.read(tensor)
    if tensor._array is None and tensor._keys & DISPATCH:
        return _layers["elements"](tensor)
    return tensor.numpy_array()


def lifted(tensor: Tensor) -> Tensor:
    """A tensor made of Python's data, as the mode that runs operators gives it: it is told of `lift_fresh`."""
    if not AMBIENT.keys & DISPATCH or MODES.undispatched:
        return tensor
    found: Tensor = _layers["python"](REGISTRY["lift_fresh"], (tensor,))
    return found


def run_name(name: str, *args: Any) -> Any:
    """`call` by full operator name, for use inside the library."""
    op = REGISTRY.ops.get(name)
    return run_call(REGISTRY[name] if op is None else op, args)
