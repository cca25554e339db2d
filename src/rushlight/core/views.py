"""Running view operators: tensors over the memory of another one.

The shape rule of a view looks at the geometry of its source and at numbers alone. What it says is therefore
remembered, for plain tensors, by these: the next view like it costs a dictionary look-up, an array and a tensor.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .modes import MODES
from .registry import OpDef
from .shapes import Shape, Spec
from .tensor import AUTOGRAD, LAZY, QUANTIZED, Tensor, alias

Arguments = tuple[Any, ...]

_new = object.__new__
_LIMIT = 1024  # geometries that are remembered of one operator
_NUMBERS = (int, bool, type(None))


class Geometry(NamedTuple):
    """Where a view lies in the memory of its source, which has the same dtype."""

    shape: Shape
    steps: Shape  # in bytes
    strides: Shape
    offset: int  # from the beginning of the source, in elements
    has_elements: bool
    tracked: bool  # it is a view in the eyes of autograd
    counted: bool  # writes to it are writes to its source


def run_view(op: OpDef, args: Arguments) -> Any:
    """Run a view operator: a tensor, or a tuple of tensors."""
    source = args[0]
    array = source._array
    if array is None or source._spec is not None or source._keys & (LAZY | QUANTIZED):
        return _run_rule(op, args, source)
    key: tuple[Any, ...] = (array.shape, array.strides, source._strides, source.dtype, args[1:])
    if op.reaches_storage:
        key += place_in_storage(source)
    try:
        known = op.plans.get(key)
    except TypeError:  # an argument that is no number, and cannot be looked up
        return _run_rule(op, args, source)
    if known is None:
        views = _run_rule(op, args, source)
        _remember(op, key, args, views)
        return views
    if type(known) is Geometry:
        return _remembered_view(op, args, source, known)
    return _several(op, tuple([_remembered_view(op, args, source, geometry) for geometry in known]))


def place_in_storage(source: Tensor) -> tuple[int, int]:
    """Where it begins, and how many bytes there are."""
    return source._offset, source.storage_object.nbytes()


def geometry_of(op: OpDef, args: Arguments) -> Any:
    """What is remembered of such a view: its geometry, or a tuple of several; None if nothing is."""
    source = args[0]
    array = source._array
    if array is None or source._spec is not None or source._keys & (LAZY | QUANTIZED):
        return None
    key: tuple[Any, ...] = (array.shape, array.strides, source._strides, source.dtype, args[1:])
    if op.reaches_storage:
        key += place_in_storage(source)
    try:
        return op.plans.get(key)
    except TypeError:
        return None


def _run_rule(op: OpDef, args: Arguments, source: Tensor) -> Any:
    specs = op.rule(args)  # type: ignore[misc]
    if isinstance(specs, Spec):
        return _view(op, args, source, specs)
    return _several(op, tuple([_view(op, args, source, spec) for spec in specs]))


def _several(op: OpDef, views: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    for i, tensor in enumerate(views):
        tensor._output_nr = i
    for tensor in views if op.tracked and MODES.grad else ():
        restrict_view(tensor, tensor._creation or "multi_output")
    return views


def _view(op: OpDef, args: Arguments, source: Tensor, spec: Spec) -> Tensor:
    tensor = alias(source, spec)
    if op.schema.returns[0].type.alias is None:
        tensor._versions = None
    elif source._inference:  # it has no history that a view could share
        tensor._inference = True
        tensor._keys |= AUTOGRAD
    elif op.tracked:
        _track_view(op, args, source, tensor)
    return tensor


def _remember(op: OpDef, key: Any, args: Arguments, views: Any) -> None:
    """Keep the geometry of views if their rule looks at nothing but what is in the key."""
    source, found = args[0], views if type(views) is tuple else (views,)
    if op.family == "library":
        return
    for value in args[1:]:
        if type(value) not in _NUMBERS and (
            type(value) is not tuple or any(type(v) is not int for v in value)
        ):
            return
    if any(view.dtype is not source.dtype or view._keys & LAZY for view in found):
        return
    counted = op.schema.returns[0].type.alias is not None
    known = []
    for view in found:
        array = view._array
        place = (array.shape, array.strides, view._strides, view._offset - source._offset)
        known.append(Geometry(*place, array.size > 0, counted and op.tracked, counted))
    if len(op.plans) >= _LIMIT:
        op.plans.clear()
    op.plans[key] = tuple(known) if type(views) is tuple else known[0]


def _remembered_view(op: OpDef, args: Arguments, source: Tensor, geometry: Geometry) -> Tensor:
    """What `_view` makes of a spec with that geometry."""
    shape, steps, strides, offset, has_elements, tracked, counted = geometry
    storage = source._storage
    if storage is None:
        storage = source.storage_object
    dtype = source.dtype
    tensor: Tensor = _new(Tensor)
    tensor.dtype = dtype
    tensor._storage = storage
    tensor._strides = strides
    offset += source._offset
    if offset:
        tensor._offset = offset
    if has_elements:
        tensor._array = np.ndarray(shape, dtype.numpy, storage.buffer, offset * dtype.itemsize, steps)
    else:
        tensor._array = np.empty(shape, dtype.numpy)
    if counted:
        versions = source._versions
        tensor._versions = source.version_counter if versions is None else versions
        if source._inference:
            tensor._inference = True
            tensor._keys = AUTOGRAD
        elif tracked:
            _track_view(op, args, source, tensor)
    return tensor


def restrict_view(tensor: Tensor, creation: str) -> None:
    """Note in which way a view was made that forbids writes to its memory to become part of its history."""
    tensor._creation = creation
    tensor._seen_version = tensor.version_counter.value


def _track_view(op: OpDef, args: Arguments, source: Tensor, tensor: Tensor) -> None:
    base = source._base
    tensor._base = base = source if base is None else base
    tensor._view_of = (op, args)
    if tensor.dtype.is_differentiable:
        tensor._keys |= AUTOGRAD  # it takes part in whatever history its base acquires later
        node = base._node
        if node is not None:
            tensor._seen = node
        creation = source._creation if MODES.grad else "inference" if MODES.inference else "no_grad"
        if creation is not None:
            restrict_view(tensor, creation)


def track_views(op: OpDef, args: Arguments, result: Any) -> None:
    """Make the results of a view that a class ran itself views of its first argument."""
    source, views = args[0], result if type(result) is tuple else (result,)
    for i, tensor in enumerate(views):
        if tensor._base is not None or tensor is source or op.schema.returns[0].type.alias is None:
            continue
        tensor._versions = source.version_counter
        if op.tracked:
            tensor._output_nr = i if type(result) is tuple else 0
            _track_view(op, args, source, tensor)
            if type(result) is tuple and MODES.grad:
                restrict_view(tensor, tensor._creation or "multi_output")


def is_row_of_elements(tensor: Tensor) -> bool:
    """Whether its elements, of which there are some, surely lie one after the other: then any shape of as many is
    a view of it."""
    array = tensor._array
    return array is not None and tensor._spec is None and array.flags.c_contiguous and array.size > 0


def copied_object(tensor: Tensor) -> Tensor:
    """Another object of the same class with the same fields."""
    copy = _new(type(tensor))
    copy.__dict__.update(tensor.__dict__)
    for name in tensor._slots:
        if hasattr(tensor, name):
            setattr(copy, name, getattr(tensor, name))
    if copy._trace is not None:
        copy._trace.claim(copy)
    return copy
