"""Operators that are given live numbers: as operands where they take them, else rewritten or specialised.

In: an operator and its arguments, some of them `LiveNumber`. `rewritten` gives the same call in terms of
operators that take the number as an operand, with the same bits as a result, where there is such a form;
`specialised` puts values in place of the numbers, which guards on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.dispatch import Arguments, infer, run_name
from ..core.dtypes import DTYPES
from ..core.registry import Kind, OpDef
from ..core.shapes import Spec, memory_order
from ..core.tensor import Tensor
from .deferred import DeferredNumber
from .numbers import LiveNumber


def specialised(op: OpDef, args: Arguments) -> tuple[Arguments, list[int]]:
    """`args` with plain numbers in place of live ones where `op` needs values, and where live ones remain."""
    stays = op.operands if op.kind is Kind.POINTWISE and not op.checks_numbers else ()
    plain = tuple(a if i in stays else _plain(a) for i, a in enumerate(args))
    return plain, [i for i in stays if is_live(plain[i])]


def is_live(argument: Any) -> bool:
    """Whether an argument is a number that is known only when the program runs."""
    return type(argument) is LiveNumber or type(argument) is DeferredNumber


def _plain(argument: Any) -> Any:
    if type(argument) is LiveNumber:
        return argument.specialise()
    if type(argument) is DeferredNumber:
        return argument.read()
    if type(argument) is tuple and any(is_live(a) for a in argument):
        return tuple(_plain(a) for a in argument)
    return argument


def rewritten(op: OpDef, args: Arguments, live: list[int]) -> Callable[[], Any] | None:
    """The call in terms of operators that take the live number as an operand, where there is such a form."""
    rule = REWRITES.get(op.name)
    if rule is None or not live:
        return None
    names = op.schema.argument_names
    if any(names[i] not in ("alpha", "value", "fill_value", "s") for i in live):
        return None
    spec = infer(op, tuple(a.value if is_live(a) else a for a in args))  # validates
    exact = spec.dtype.is_floating_point or all(isinstance(args[i], int) for i in live)
    if spec.dtype.opmath is not spec.dtype or spec.dtype is DTYPES["bool"] or not exact:
        return None  # rounded once, or compared: not the same arithmetic
    return lambda: rule(spec, *args)


def _filled(spec: Spec, number: Any) -> Tensor:
    """`number` everywhere, in the memory order of `spec`: times one, which is exact."""
    shape = spec.known_shape()
    order = memory_order(shape, spec.known_strides())
    ones: Tensor = run_name("full", tuple([shape[d] for d in order]), 1, spec.dtype, None, None, None)
    return run_name("permute", ones, tuple([order.index(d) for d in range(len(order))])) * number


# The same arithmetic in the same order, so that the results are the same bits.
REWRITES: dict[str, Callable[..., Any]] = {
    "add.Tensor": lambda spec, self, other, alpha: self + other * alpha,
    "sub.Tensor": lambda spec, self, other, alpha: self - other * alpha,
    "rsub.Tensor": lambda spec, self, other, alpha: other - self * alpha,
    "addcmul": lambda spec, self, first, second, value: self + (first * value) * second,
    "addcdiv": lambda spec, self, first, second, value: self + (first * value) / second,
    "scalar_tensor": lambda spec, s, *rest: _filled(spec, s),
    "full": lambda spec, size, value, *rest: _filled(spec, value),
    "fill.Scalar": lambda spec, self, value: _filled(spec, value),
    "full_like": lambda spec, self, value, *rest: _filled(spec, value),
    "new_full": lambda spec, self, size, value, *rest: _filled(spec, value),
}
