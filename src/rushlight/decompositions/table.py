"""The decompositions as a table: which operators are defined by simpler ones, and how.

    get_decompositions([rushlight.ops.aten.addmm])  -> {aten.addmm.default: function, ...}

Composite operators are their decomposition; structural ones may have one beside their kernel, elementwise
ones are their scalar body on tensors, and some views are other views. In-place and out= forms are the
functional one, followed by a write. The functions take an operator's arguments as a caller gives them and are
made of ordinary operators, so they can be run, captured and differentiated.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..core.aten import FUNCTIONAL, INPLACE, OUT, OpOverload, OpOverloadPacket, namespace
from ..core.aten import overload as overload_of
from ..core.dispatch import execute, run_name
from ..core.mutation import assign, check_result
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.resizing import resize_output
from ..core.resolve import bind
from .elementwise import is_composed, run_composed

Decomposition = Callable[..., Any]

# Operators that are other ones in a way that nothing else needs to know.
_OTHERS: dict[str, Callable[..., Any]] = {
    "t": lambda self: run_name("permute", self, tuple(range(self.ndim))[::-1]),
    "transpose.int": lambda self, dim0, dim1: run_name("permute", self, _swapped(self.ndim, dim0, dim1)),
    "squeeze": lambda self: run_name("squeeze.dims", self, tuple(range(self.ndim))),
    "squeeze.dim": lambda self, dim: run_name("squeeze.dims", self, (dim,) if self.ndim else ()),
    "detach": lambda self: run_name("alias", self).detach(),
    "_unsafe_view": lambda self, size: run_name("view", self, size),
    "_reshape_alias": lambda self, size, stride: run_name("as_strided", self, size, stride, None),
    "floor_divide": lambda self, other: run_name("div.Tensor_mode", self, other, "floor"),
    "floor_divide.Scalar": lambda self, other: run_name("div.Scalar_mode", self, other, "floor"),
    "isfinite": lambda self: (self == self) & (self.abs() != float("inf")),
    "one_hot": lambda self, num_classes: _one_hot(self, num_classes),
    "unbind.int": lambda self, dim: tuple(
        [run_name("select.int", self, dim, i) for i in range(self.shape[dim])]
    ),
    "split.Tensor": lambda self, split_size, dim: _parts(self, split_size, dim),
    "unsafe_split.Tensor": lambda self, split_size, dim: _parts(self, split_size, dim),
    "unsafe_split_with_sizes": lambda self, split_sizes, dim: run_name(
        "split_with_sizes", self, split_sizes, dim
    ),
}


def _one_hot(self: Any, num_classes: int) -> Any:
    if num_classes == -1:
        num_classes = int(self.max().item()) + 1
    classes = run_name("arange", num_classes, self.dtype, None, self.device, None)
    return (self.unsqueeze(-1) == classes).to(self.dtype)


def _swapped(rank: int, first: int, second: int) -> tuple[int, ...]:
    order = list(range(rank))
    if rank:
        order[first], order[second] = order[second], order[first]
    return tuple(order)


def _parts(self: Any, size: int, dim: int) -> tuple[Any, ...]:
    length = self.shape[dim]
    starts = range(0, length, size) if size else [0]
    return tuple(
        [run_name("slice.Tensor", self, dim, start, min(start + size, length), 1) for start in starts]
        or [run_name("slice.Tensor", self, dim, 0, 0, 1)]
    )


def get_decompositions(
    aten_ops: Iterable[OpOverload | OpOverloadPacket | str], type: str = "post_autograd"
) -> dict[OpOverload, Decomposition]:
    """The decompositions of these operators.

    A packet stands for all of its overloads, a name for its operator. Operators that have none are left out.
    """
    _check_type(type)
    found: dict[OpOverload, Decomposition] = {}
    for operator in aten_ops:
        for overload in _overloads(operator):
            decomposition = _registered.get(overload) or _decomposition(overload)
            if decomposition is not None:
                found[overload] = decomposition
    return found


def core_aten_decompositions() -> dict[OpOverload, Decomposition]:
    """The operators that are no part of PyTorch's core set, with their decompositions."""
    return get_decompositions(_listed(core=True))


def remove_decompositions(
    decompositions: dict[Any, Any], aten_ops: Iterable[OpOverload | OpOverloadPacket]
) -> None:
    """Take operators out of a table; a packet stands for all of its overloads."""
    for operator in aten_ops:
        for overload in _overloads(operator):
            decompositions.pop(overload, None)


_registered: dict[OpOverload, Decomposition] = {}


def register_decomposition(
    aten_op: Any, registry: dict[Any, Any] | None = None, *, type: str = "post_autograd", unsafe: bool = False
) -> Callable[..., Any]:
    """A decorator of a function that decomposes operators: one, a packet, or several of them.

    They are added to `registry`, or to the table that `get_decompositions` looks at first.
    """
    _check_type(type)
    table = _registered if registry is None else registry

    def register(function: Decomposition) -> Decomposition:
        several = aten_op if isinstance(aten_op, list | tuple) else (aten_op,)
        for operator in several:
            for overload in _overloads(operator):
                if overload in table:
                    raise RuntimeError(f"duplicate registrations for {overload}")
                table[overload] = function
        return function

    return register


def _check_type(kind: str) -> None:
    if kind not in ("post_autograd", "pre_autograd", "meta"):
        raise ValueError(f"decompositions are of type post_autograd, pre_autograd or meta, not {kind!r}")


class _Table(dict[OpOverload, Decomposition]):
    """All decompositions, filled in when first looked at."""

    def __init__(self) -> None:
        super().__init__()
        self._complete = False

    def _fill(self) -> None:
        if not self._complete:
            self._complete = True
            self.update(get_decompositions(_listed(core=False)))
        self.update(_registered)

    def __getitem__(self, key: OpOverload) -> Decomposition:
        self._fill()
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._fill()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[OpOverload]:
        self._fill()
        return super().__iter__()

    def __len__(self) -> int:
        self._fill()
        return super().__len__()

    def get(self, key: Any, default: Any = None) -> Any:
        self._fill()
        return super().get(key, default)

    def keys(self) -> Any:
        self._fill()
        return super().keys()

    def items(self) -> Any:
        self._fill()
        return super().items()

    def values(self) -> Any:
        self._fill()
        return super().values()


decomposition_table = _Table()


@functools.cache
def _listed(core: bool) -> tuple[OpOverload, ...]:
    """The operators that PyTorch has in its table, or in that of its core set, as far as they are here."""
    here = Path(__file__).parent
    with (here.parent / "testing" / "decompositions.csv").open(newline="", encoding="utf-8") as file:
        names = [row["op"] for row in csv.DictReader(file) if row["core"] or not core]
    if core:
        names += (here / "implicit.txt").read_text(encoding="utf-8").split()
    found = []
    for name in names:
        short, _, overload = name.partition(".")
        packet = getattr(namespace("aten"), short, None)
        form = None if packet is None else getattr(packet, overload or "default", None)
        if form is not None:
            found.append(form)
    return tuple(found)


def has_decomposition(op: OpDef) -> bool:
    """Whether an operator is defined by simpler ones."""
    return op.decomposition is not None or op.name in _OTHERS or is_composed(op)


def _decomposition(overload: OpOverload) -> Decomposition | None:
    if not has_decomposition(overload.op):
        return None
    return decomposition_of(overload.op) if overload.form == FUNCTIONAL else _written(overload)


def _written(overload: OpOverload) -> Decomposition:
    """The decomposition of an in-place or out= form: that of the functional one, and a write."""
    op = overload.op

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        names = [overload.schema.arguments[i].name for i in overload.schema.out_arguments]
        outs = [kwargs.pop(name) for name in names]
        values = overload.bound(args, kwargs)
        targets = outs if overload.form == OUT else [values[op.tensor_positions[0]]]
        results = run_decomposition(op, values)
        results = results if isinstance(results, tuple) else (results,)
        for target, result in zip(targets, results, strict=False):
            if overload.form == INPLACE:
                check_result(target, result, overload._opname)
            else:
                resize_output(target, result)
            assign(target, result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    decomposition.__name__ = overload.__name__
    return decomposition


def decomposition_of(op: OpDef) -> Decomposition:
    """The decomposition of `op` as a function with the operator's signature."""
    if not has_decomposition(op):
        raise LookupError(f"{op.name} has no decomposition")

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        values = bind(op, args, kwargs)
        if isinstance(values, str):
            raise TypeError(f"{op.name}: {values}. The signature is {op.schema}")
        return run_decomposition(op, values)

    if op.decomposition is not None:
        functools.update_wrapper(decomposition, op.decomposition, updated=())
    return decomposition


def run_decomposition(op: OpDef, values: tuple[Any, ...]) -> Any:
    """The decomposition of `op` on its complete argument tuple."""
    if op.decomposition is not None:
        return execute(op, values) if op.kind is Kind.COMPOSITE else op.decomposition(values)
    return _OTHERS[op.name](*values) if op.name in _OTHERS else run_composed(op, values)


def _overloads(operator: OpOverload | OpOverloadPacket | str) -> list[OpOverload]:
    if isinstance(operator, OpOverload):
        return [operator]
    if isinstance(operator, OpOverloadPacket):
        return [getattr(operator, name) for name in operator.overloads()]
    return [overload_of(REGISTRY[operator])]
