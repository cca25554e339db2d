"""Attributes that programs give to tensors, beside those that every tensor has."""

from __future__ import annotations

import functools
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..core.tensor import Tensor
from .locations import MISSING, OfArgument, OfTensor
from .object_kinds import is_own

if TYPE_CHECKING:
    from .collector import Collector

_OF_CAPTURE = {"_value", "_value_writes", "_deferred"}  # what a capture keeps at its tensors


def look_at_tensors(collector: Collector) -> None:
    """Guard on the attributes of tensors that the code mentions, and watch those that it may set."""
    settable = may_be_set(collector.assigned)
    wanted = may_be_set(collector.names) | settable
    looked_for = wanted, collector.asks_names
    before = collector.tensors_seen[1] if collector.tensors_seen[0] == looked_for else 0
    collector.tensors_seen = looked_for, len(collector.tensors)
    for tensor, name, seen in list(islice(collector.tensors.values(), before, None)):
        new = wanted - seen
        found = _present(tensor, new)
        if collector.asks_names and "*" not in seen:
            seen.add("*")
            found |= own_attributes(tensor).keys()
        for attribute in sorted(found):
            value = tensor.__dict__[attribute]
            collector.place(tensor.__dict__, attribute, value, f"{name}.{attribute}", True)
            collector.objects.append((value, f"{name}.{attribute}"))
        if not new:
            continue
        seen |= new
        held = OfTensor(tensor)
        collector.missing(held, (new & collector.asked) - found, name)
        for attribute in (new & settable) - found:
            collector.watch(held, attribute, f"{name}.{attribute}")


def look_at_argument(collector: Collector, tensor: Tensor) -> None:
    """A tensor among the arguments: the next call has another one, whose attributes may differ."""
    name, settable = "a tensor among the arguments", may_be_set(collector.assigned)
    found = _present(tensor, may_be_set(collector.names))
    if collector.asks_names:
        found |= own_attributes(tensor).keys()
    for attribute in found:
        collector.refuse(f"it may read {attribute} of {name}, which may differ from call to call")
    held = OfArgument(tensor)
    for attribute in settable:
        collector.watch(held, attribute, f"{attribute} of {name}")


def own_attributes(tensor: Tensor) -> dict[str, Any]:
    """What a program has set, by name."""
    known = _known(type(tensor))
    return {name: value for name, value in tensor.__dict__.items() if name not in known}


def may_be_set(names: set[str]) -> frozenset[str]:
    """Those of `names` that are no attributes of every tensor."""
    return frozenset(names - _known(Tensor))


def _present(tensor: Tensor, names: frozenset[str]) -> set[str]:
    """Which of `names` are attributes of the tensor itself."""
    kind = type(tensor)
    return {n for n in names if not hasattr(kind, n) and getattr(tensor, n, MISSING) is not MISSING}


@functools.lru_cache(maxsize=256)
def _known(kind: type) -> frozenset[str]:
    """The names that the classes of the package give to their objects."""
    classes = [base for base in kind.__mro__ if is_own(base.__module__)]
    found = {name for base in classes for name in (*vars(base), *vars(base).get("__annotations__", ()))}
    return frozenset(found | _OF_CAPTURE)
