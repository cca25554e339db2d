"""swap_tensors: two tensor objects exchange what they are, and everybody who holds one sees the other.

A tensor is its class, its `__dict__` and the slots of its class; those are exchanged. What was recorded of
either before must not be mistaken for the other's: views are refused, gradient accumulators are poisoned, and
both count as written, so that a backward pass that saved one of them raises.
"""

from __future__ import annotations

import copyreg
import gc
import sys
import weakref
from typing import Any

from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange the contents of two tensors; each object stays where it is referred to."""
    for name, tensor in (("t1", t1), ("t2", t2)):
        check(
            not _has_views(tensor),
            f"swap_tensors: Expected use_count of {name} to be 1, but it has views, which would become views "
            "of the other tensor; delete them first",
        )
    exchange(t1, t2)


def exchange(t1: Tensor, t2: Tensor) -> None:
    """swap_tensors without the search for views, which takes as long as the heap is large: for parameters of
    a module, whose views cannot be written to while they require grad."""
    if AMBIENT.trace is not None:
        AMBIENT.trace.refuse("it swaps tensors")
    slots = _slots(t1)
    for name, tensor in (("t1", t1), ("t2", t2)):
        known = weakref.getweakrefs(tensor)
        check(not known, f"Cannot swap {name} because it has weakref associated with it")
    check(slots == _slots(t2), "Cannot swap t1 and t2 if they have different slots")
    _poison(t1)
    _poison(t2)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for slot in slots:
        _swap_slot(t1, t2, slot)
    if not (t1._inference or t2._inference):
        _count_as_written(t1, t2)


def _slots(tensor: Tensor) -> set[str]:
    return set(copyreg._slotnames(type(tensor)))  # type: ignore[attr-defined]


def _swap_slot(first: Any, second: Any, slot: str) -> None:
    values = [getattr(first, slot, _UNSET), getattr(second, slot, _UNSET)]
    for tensor, value in zip((first, second), reversed(values), strict=True):
        if value is not _UNSET:
            setattr(tensor, slot, value)
        elif hasattr(tensor, slot):
            delattr(tensor, slot)


_UNSET: Any = object()


def _has_views(tensor: Tensor) -> bool:
    """Whether some tensor is a view of this one. All of them share its counter of versions, so that the long
    search is made only where somebody does."""
    if tensor._versions is None or sys.getrefcount(tensor._versions) <= 2:
        return False
    for holder in gc.get_referrers(tensor):
        fields = holder.__dict__ if isinstance(holder, Tensor) else holder
        if isinstance(fields, dict) and fields.get("_base") is tensor:
            return True
    return False


def _poison(tensor: Tensor) -> None:
    """Backward must not add to the gradient of what `tensor` becomes."""
    node = None if tensor._accumulator is None else tensor._accumulator()
    if node is not None:
        node.register_prehook(_refuse)
        tensor._accumulator = None


def _refuse(grads: Any) -> Any:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors: the tensor it belongs to "
        "was swapped after the forward pass (by a conversion of its module, with "
        "set_swap_module_params_on_conversion(True)). Convert before forward, or after backward."
    )


def _count_as_written(t1: Tensor, t2: Tensor) -> None:
    written = max(t1._version, t2._version) + 1
    t1.version_counter.value = t2.version_counter.value = written
