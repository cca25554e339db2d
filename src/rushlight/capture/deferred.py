"""Results that are computed after the graph has run: selections whose shape depends on data, and items.

Many programs end in a selection, `boxes[scores > limit]` or `mask.nonzero()`, or in a number, `loss.item()`.
Such a result has no place in a graph, but nothing in the graph needs it, either. The graph computes what it
is made of, and the call that makes it runs on that, eagerly, at the end of each run.

While the program is captured, a deferred result is a tensor without a shape, or a `DeferredNumber`. It may be
returned, alone or in containers. Whatever else the program does with it needs the data, which is a
`CaptureError`; and so is a write to what a deferred result is made of.
"""

from __future__ import annotations

import dis
import operator
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ..core.modes import MODES
from ..core.pytree import flatten
from .numbers import LiveNumber


@dataclass(frozen=True, eq=False)
class DeferredCall:
    """`function` of `args`, recorded by autograd if `grad`. Among `args`, or in tuples among them, are
    tensors; in a captured call, leaves in their place."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    grad: bool

    def mapped(self, kind: type, function: Callable[[Any], Any]) -> tuple[Any, ...]:
        """The arguments with `function` of those of `kind` in their place."""

        def at(value: Any) -> Any:
            if isinstance(value, tuple) and not isinstance(value, kind):
                return tuple([at(part) for part in value])
            return function(value) if isinstance(value, kind) else value

        return tuple([at(argument) for argument in self.args])

    def among(self, kind: type) -> list[Any]:
        """The arguments of `kind`."""
        found: list[Any] = []
        self.mapped(kind, found.append)
        return found

    def run(self, args: tuple[Any, ...]) -> Any:
        saved, MODES.grad = MODES.grad, self.grad
        try:
            return self.function(*args)
        finally:
            MODES.grad = saved


class DeferredNumber:
    """What `item()` returns under capture: a number that is known after the run.

    A float may have its place in the graph, too: `tensor`, of float64 and no dimensions. Operators take it as an
    operand, and sums, differences and products of it are such numbers, which `make` makes of their tensors.
    """

    __slots__ = ("__weakref__", "call", "kind", "make", "read", "tensor")

    def __init__(self, call: DeferredCall, kind: type, read: Callable[[], Any]) -> None:
        self.call, self.kind, self.read = call, kind, read
        self.tensor: Any = None
        self.make: Callable[[Any], Any] | None = None

    @property
    def value(self) -> Any:
        """A number of its kind, for whom the value does not matter."""
        return self.kind(1)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.kind  # isinstance(number, float) holds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.read(), name)


def _install() -> None:
    """Every operation on a number asks for its value."""
    names = {name for kind in (float, int, complex) for name in dir(kind) if name.startswith("__")}
    names -= {
        "__class__",
        "__new__",
        "__init__",
        "__init_subclass__",
        "__subclasshook__",
        "__getattribute__",
        "__getattr__",
        "__setattr__",
        "__delattr__",
        "__dir__",
        "__doc__",
        "__getnewargs__",
        "__sizeof__",
        "__getstate__",
    }
    for name in names | {"__complex__", "__index__"}:
        setattr(DeferredNumber, name, lambda self, *args, name=name: getattr(self.read(), name)(*args))
    for name in ("add", "sub", "mul", "truediv"):
        compute = getattr(operator, name)
        setattr(DeferredNumber, f"__{name}__", lambda a, b, c=compute: _computed(c, a, b))
        setattr(DeferredNumber, f"__r{name}__", lambda a, b, c=compute: _computed(c, b, a))
    for name in ("neg", "pos", "abs"):
        compute = getattr(operator, name)
        setattr(DeferredNumber, f"__{name}__", lambda a, c=compute: _computed(c, a))


def _computed(compute: Callable[..., Any], *operands: Any) -> Any:
    """Python's arithmetic, in the graph if what has a place there is all that it needs: as floats of 64 bits."""
    divides = compute is operator.truediv and (type(operands[1]) not in (int, float) or operands[1] == 0)
    numbers = [o for o in operands if type(o) is DeferredNumber]
    there = all(
        o.tensor is not None if type(o) is DeferredNumber else isinstance(o, int | float) for o in operands
    )
    if divides or not there or numbers[0].make is None:
        return compute(*[o.read() if type(o) is DeferredNumber else o for o in operands])
    with recorded_plainly():
        return numbers[0].make(compute(*[o.tensor if type(o) is DeferredNumber else o for o in operands]))


@contextmanager
def recorded_plainly() -> Iterator[None]:
    """Inside, operators of the graph have no history."""
    saved = MODES.grad, MODES.forward_grad
    MODES.grad = MODES.forward_grad = False
    try:
        yield
    finally:
        MODES.grad, MODES.forward_grad = saved


_install()


_PACKAGE = __name__.partition(".")[0]
# What may come between a call and the return of its result: other items, and containers of them.
_BETWEEN = frozenset(
    (
        "LOAD_FAST",
        "LOAD_FAST_BORROW",
        "LOAD_DEREF",
        "LOAD_CONST",
        "LOAD_ATTR",
        "LOAD_METHOD",
        "PRECALL",
        "CALL",
        "CALL_METHOD",
        "PUSH_NULL",
        "NOP",
        "CACHE",
        "BUILD_TUPLE",
        "BUILD_LIST",
        "BUILD_MAP",
        "BUILD_CONST_KEY_MAP",
    )
)
_CALLS = frozenset(("CALL", "CALL_METHOD"))


def returned_at_once(frame: FrameType) -> bool:
    """Whether `frame`, which runs `item()`, belongs to the captured function itself and returns the result,
    alone or in a container, without looking at it."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_name != "try_capture":
        if str(caller.f_globals.get("__name__", "")).partition(".")[0] != _PACKAGE:
            return False
        caller = caller.f_back
    method = "item"
    for step in dis.get_instructions(frame.f_code):
        if step.offset <= frame.f_lasti:
            continue
        if step.opname == "RETURN_VALUE":
            return True
        if step.opname not in _BETWEEN or (step.opname in _CALLS and method != "item"):
            return False
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            method = step.argval
    return False


def read_numbers(args: tuple[Any, ...]) -> None:
    """Ask for the values of deferred numbers among the arguments of an operator."""
    for argument in args:
        if type(argument) is tuple:
            read_numbers(argument)
        elif type(argument) is DeferredNumber and argument.tensor is None:
            argument.read()


class DeferredNumbers:
    """The deferred numbers of a capture, none of which may live on when it is done."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[DeferredNumber]] = []

    def make(self, call: DeferredCall, kind: type, read: Callable[[], Any]) -> DeferredNumber:
        number = DeferredNumber(call, kind, read)
        self._made.append(weakref.ref(number))
        return number

    def kept(self) -> bool:
        """Whether somebody still holds one."""
        return any(number() is not None for number in self._made)


def plain(value: Any) -> Any:
    """`value` with numbers in place of what stands for them."""
    leaves, structure = flatten(value, records=True)
    if not any(type(leaf) in (LiveNumber, DeferredNumber) for leaf in leaves):
        return value
    return structure.unflatten(
        [
            leaf.value if type(leaf) is LiveNumber else leaf.read() if type(leaf) is DeferredNumber else leaf
            for leaf in leaves
        ]
    )
