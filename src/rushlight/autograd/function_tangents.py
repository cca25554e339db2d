"""Forward mode through custom functions: their `jvp`, and what it must give back.

In: a custom function, its context, its arguments and finished outputs. Out: the outputs have tangents at every
level that an argument has one at.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from . import forward as forward_mode
from .saved import zeros
from .tape import meta_of


def push_tangents(cls: Any, ctx: Any, args: tuple[Any, ...], outputs: list[Any]) -> None:
    """Forward mode through `jvp`, level by level."""
    if not MODES.dual_levels or not MODES.forward_grad:
        return
    levels = forward_mode.levels_among(a for a in args if isinstance(a, Tensor))
    for level in levels:
        saved, MODES.limit, ctx._in_jvp = MODES.limit, level.number, True
        try:
            given = [_input_tangent(ctx, a, level) for a in args]
            versions = [0 if g is None else g._version for g in given]
            found = cls.jvp(ctx, *given)
            tangents = found if isinstance(found, tuple) else (found,)
            check(
                len(tangents) == len(outputs),
                f"jvp of {cls.__name__} returned {len(tangents)} tangents for {len(outputs)} outputs",
            )
            for number, (output, tangent) in enumerate(zip(outputs, tangents, strict=True)):
                _check_tangent(ctx, args, given, versions, number, output, tangent)
                if isinstance(output, Tensor) and tangent is not None:
                    forward_mode.set_tangent(output, level, tangent)
        finally:
            MODES.limit, ctx._in_jvp = saved, False


def _check_tangent(
    ctx: Any,
    args: tuple[Any, ...],
    given: list[Any],
    versions: list[int],
    number: int,
    output: Any,
    tangent: Any,
) -> None:
    """A tangent must follow its output: written where that was written, a view where that is a view."""
    if not isinstance(output, Tensor):
        return
    check(
        tangent is None
        or (output.dtype.is_differentiable and not any(output is n for n in ctx.non_differentiable)),
        f"jvp of {ctx._function.__name__} returned a tangent at position {number}, where the output of "
        "forward is not differentiable. You should return None at that position instead",
    )
    dirty = next((i for i, a in enumerate(args) if a is output), None)
    if dirty is not None:
        check(
            tangent is given[dirty] and (tangent is None or tangent._version != versions[dirty]),
            "An "
            "inplace custom Function is not modifying the forward mode gradients inplace. If forward "
            "writes to an input, then the jvp function must modify the corresponding gradient inplace "
            "and return it.",
        )
        return
    if output._base is None or tangent is None:
        return
    source = next(
        (
            i
            for i, a in enumerate(args)
            if isinstance(a, Tensor)
            and given[i] is not None
            and output._base is (a if a._base is None else a._base)
        ),
        None,
    )
    if source is None:
        return
    view = (
        "A custom Function's forward is returning a view (or an input as-is) but the jvp is not "
        "returning a view"
    )
    check(tangent._base is not None, view + ".")
    primal, theirs = args[source], given[source]
    expected = theirs if theirs._base is None else theirs._base
    of = "of the given gradient" if primal._base is None else "of the same base as the given gradient"
    check(tangent._base is expected, f"{view} {of}.")


def _input_tangent(ctx: Any, value: Any, level: Any) -> Any:
    if not isinstance(value, Tensor) or not value.dtype.is_differentiable:
        return None
    tangent = forward_mode.tangent_of(value, level)
    return zeros(meta_of(value)) if tangent is None and ctx.materialize_grads else tangent
