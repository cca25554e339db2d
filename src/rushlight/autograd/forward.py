"""Forward mode: tangents travel with the tensors.

A tensor's `_tangents` maps levels to tangents. Levels are numbered in the order they were opened, so an inner
level has a higher number. An operator is differentiated level by level, outer ones first; while the tangent
of a level is computed, `MODES.limit` hides the tangents of that level and of inner ones, so that
perturbations are never confused. Tangents may require grad and carry tangents of outer levels themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..batching.vmap import BatchedTensor
from ..core.dispatch import Arguments, call, run_name, tensors_in
from ..core.interpreters import next_level
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.tensor import AUTOGRAD, Tensor
from ..derivatives.declare import (
    ALL,
    AUTO_ELEMENTWISE,
    AUTO_LINEAR,
    AUTO_TRANSPOSE,
    FACTS,
    GRADS,
    NEEDS,
    Entry,
)
from ..derivatives.helpers import conj
from .engine import gradients
from .fit import fit
from .saved import fact, zeros
from .tape import meta_of


class Level:
    """One open level of forward mode."""

    __slots__ = ("active", "number")

    def __init__(self) -> None:
        self.number = next_level()
        self.active = True

    def __repr__(self) -> str:
        return f"<forward mode level {self.number}{'' if self.active else ', closed'}>"


def tangent_of(tensor: Tensor, level: Level) -> Tensor | None:
    """The tangent of `tensor`; a view has the same view of its base's tangent, where the base has one."""
    tangents, base = tensor._tangents, _holder(tensor, level)
    own: Tensor | None = None if tangents is None else tangents.get(level)
    if base is None or base._tangents is None or (own is not None and level in tensor._own_levels):
        return own
    source = base._tangents.get(level)
    if source is None or (own is not None and tensor._tangent_base is source):
        return own
    saved, MODES.limit = MODES.limit, level.number
    try:
        tangent = _replayed(tensor, base, laid_out(source, base))
    finally:
        MODES.limit = saved
    set_tangent(tensor, level, tangent)
    tensor._tangent_base = source
    return tangent


def _holder(tensor: Tensor, level: Level) -> Tensor | None:
    """Whose tangent a view shows part of.

    That of its base, or of a dual tensor between the two; None for a base.
    """
    source = tensor
    while source._view_of is not None:
        source = source._view_of[1][0]
        if level in source._own_levels:
            return source
    return tensor._base


def _replayed(view: Tensor, base: Tensor, source: Tensor) -> Tensor:
    """The part of `source`, the tangent of `base`, that belongs to `view`."""
    steps = []
    while view is not base:
        steps.append((view._view_of, view._output_nr))
        view = view._view_of[1][0]
        if view._base is None:
            break
    for (op, args), number in reversed(steps):
        result = call(op, (source, *args[1:]))
        source = result[number] if type(result) is tuple else result
    return source


def laid_out(tangent: Tensor, like: Tensor) -> Tensor:
    """`tangent` with the strides of its primal `like`, so that what is a view of the one is a view of the
    other; contiguous, of which there is every view, where those of the primal overlap. Nor may it be lazily
    conjugated or negated where its primal is not: such a tensor has no view as real numbers."""
    if tangent._conj and not like._conj:
        tangent = tangent.resolve_conj()
    if tangent._neg and not like._neg:
        tangent = tangent.resolve_neg()
    if like._parts is not None or tangent._parts is not None:
        return tangent
    strides = like.strides()
    if tangent.strides() == strides:
        return tangent
    if any(step == 0 and size > 1 for step, size in zip(strides, like.shape, strict=True)):
        return tangent.contiguous()
    room = run_name("new_empty_strided", tangent, tuple(like.shape), strides, None, None, None, None)
    return room.copy_(tangent)


def set_tangent(tensor: Tensor, level: Level, tangent: Tensor, *, own: bool = False) -> None:
    """Give `tensor` a tangent; an `own` one does not follow that of the tensor's base."""
    tensor._tangents = {**(tensor._tangents or {}), level: tangent}
    tensor._keys |= AUTOGRAD
    if own:
        tensor._own_levels = tensor._own_levels | {level}


def levels_among(tensors: Iterable[Tensor]) -> list[Level]:
    """The open levels at which one of `tensors`, or its base, has a tangent, outermost first."""
    found: set[Level] = set()
    for tensor in tensors:
        for holder in (tensor, tensor._base):
            if holder is not None and holder._tangents:
                found.update(
                    level for level in holder._tangents if level.active and level.number < MODES.limit
                )
    return sorted(found, key=lambda level: level.number)


def propagate(op: OpDef, entry: Entry, args: Arguments, result: Any, trace: Any = None) -> None:
    """Give the differentiable outputs their tangents, from those of the arguments at the level of `trace`."""
    tensors = tensors_in(op, args)
    levels = levels_among(tensors if trace is None else [t for t in tensors if trace.owns(t)])
    if not levels or not entry.targets:
        return
    results = result if type(result) is tuple else (result,)
    allowed = entry.outputs
    differentiable = [
        i
        for i, r in enumerate(results)
        if r is not None and r.dtype.is_differentiable and (allowed is None or i in allowed)
    ]
    if not differentiable:
        return
    modes = MODES
    for level in levels:
        saved, modes.limit = modes.limit, level.number
        try:
            tangents = _tangents(op, entry, args, results, level, differentiable)
            for i in differentiable:
                if tangents[i] is not None:
                    tangent = _fitted(tangents[i], results[i])
                    if op.kind is not Kind.VIEW and _belongs_to(tensors, tangent, level):
                        tangent = run_name("clone", tangent, None)
                    set_tangent(results[i], level, tangent)
        finally:
            modes.limit = saved


def _belongs_to(tensors: Iterable[Tensor], tangent: Tensor, level: Level) -> bool:
    """Whether a tangent is that of an argument itself, which must not change when a user writes to it."""
    return any(t._tangents is not None and t._tangents.get(level) is tangent for t in tensors)


def _fitted(tangent: Tensor, result: Tensor) -> Tensor:
    """A tangent in the shape and dtype of its primal."""
    if tangent.dtype is not result.dtype:
        tangent = tangent.to(result.dtype)
    if tangent.shape != result.shape:
        tangent = run_name("expand", tangent, tuple(result.shape), False)
    return tangent


def _tangents(
    op: OpDef, entry: Entry, args: Arguments, results: Any, level: Level, differentiable: list[int]
) -> Any:
    """The tangents of all outputs."""
    rule = entry.forward
    if rule is AUTO_LINEAR:
        tangents = call(op, _linear_arguments(entry, args, level))
        return tangents if type(tangents) is tuple else (tangents,)
    if rule is AUTO_ELEMENTWISE:
        return (_elementwise(entry, args, results, level),)
    if rule is AUTO_TRANSPOSE:
        return _transposed(entry, args, results, level, differentiable)
    assert isinstance(rule, list)
    found: list[Any] = [None] * len(results)
    for formula in rule:
        value = formula.function(*[_parameter(p, args, results, level) for p in formula.parameters])
        if formula.output is None or type(value) is tuple:
            for i, tangent in enumerate(value):
                found[i] = tangent
        else:
            found[formula.output] = value
    return found


def _parameter(parameter: tuple[str, Any], args: Arguments, results: Any, level: Level) -> Any:
    kind, at = parameter
    if kind == "t":
        return materialised(args[at], level)
    if kind == "p":
        return args[at]
    if kind == "result":
        return results[at]
    if kind == "results":
        return results
    take, index, output = at
    return fact(take, _output(results, index) if output else args[index])


def _output(results: Any, index: int) -> Any:
    return results if index == ALL else results[index]


def materialised(value: Any, level: Level) -> Any:
    """The tangent of an argument: zeros where it has none, a tuple for a list, None for None."""
    if value is None:
        return None
    if isinstance(value, tuple | list):
        return tuple([materialised(v, level) for v in value])
    tangent = tangent_of(value, level)
    return zeros(meta_of(value)) if tangent is None else tangent


def _linear_arguments(entry: Entry, args: Arguments, level: Level) -> Arguments:
    return tuple([materialised(a, level) if i in entry.targets else a for i, a in enumerate(args)])


def _elementwise(entry: Entry, args: Arguments, results: Any, level: Level) -> Any:
    """The sum over the arguments of their reverse formulas, conjugated: a holomorphic derivative acts on both
    sides alike."""
    total = None
    for formula in entry.formulas:
        argument = args[entry.targets[formula.targets[0]]]
        tangent = None if argument is None else tangent_of(argument, level)
        if tangent is None:
            continue
        values = [
            conj(tangent) if source == 0 else _captured(source, args, results) for source in formula.sources
        ]
        part = formula.function(*values)
        if part.dtype.is_complex:
            part = part.conj().resolve_conj()
        total = part if total is None else total + part
    return total


def _captured(source: Any, args: Arguments, results: Any) -> Any:
    if source == NEEDS:
        return (True,)
    take, index, output = source
    value = _output(results, index) if output else args[index]
    return fact(take, value) if take in FACTS.values() else value


def _transposed(entry: Entry, args: Arguments, results: Any, level: Level, differentiable: list[int]) -> Any:
    """The reverse formulas are linear in the gradient: the transpose of that linear map takes tangents to
    tangents."""
    dummies: list[Any] = [None] * len(results)
    for i in differentiable:
        dummy, trace = zeros(meta_of(results[i])), results[i]._trace
        dummies[i] = (dummy if trace is None else trace.pure(dummy))._set_requires_grad()
    modes = MODES
    saved = modes.grad, modes.silent
    modes.grad, modes.silent = True, frozenset()
    try:
        images, tangents = _images(entry, args, results, level, dummies)
    finally:
        modes.grad, modes.silent = saved
    wanted = [dummies[i] for i in differentiable]
    found = gradients(images, wanted, tangents, create_graph=modes.grad) if images else [None] * len(wanted)
    answer: list[Any] = [None] * len(results)
    for i, tangent in zip(differentiable, found, strict=True):
        answer[i] = zeros(meta_of(results[i])) if tangent is None else tangent
    return answer


def _images(
    entry: Entry, args: Arguments, results: Any, level: Level, dummies: list[Any]
) -> tuple[list[Any], list[Any]]:
    """The reverse formulas applied to the dummies, and the tangents they are paired with."""
    images, tangents = [], []
    for formula in entry.formulas:
        if not any(_has_tangent(args[entry.targets[target]], level) for target in formula.targets):
            continue
        values = [
            (True,) * len(formula.targets)
            if source == NEEDS
            else _dummy(source, dummies)
            if isinstance(source, int)
            else _captured(source, args, results)
            for source in formula.sources
        ]
        grads = formula.function(*values)
        for target, grad in zip(
            formula.targets, (grads,) if len(formula.targets) == 1 else grads, strict=True
        ):
            argument = args[entry.targets[target]]
            pairs = (
                zip(argument, grad, strict=True)
                if entry.lists[target] and grad is not None
                else [(argument, grad)]
            )
            for tensor, image in pairs:
                tangent = None if tensor is None or image is None else tangent_of(tensor, level)
                if tangent is not None and image.requires_grad:
                    images.append(fit(image, meta_of(tensor)))
                    tangents.append(tangent)
    return images, tangents


def _has_tangent(value: Any, level: Level) -> bool:
    if isinstance(value, tuple | list):
        return any(_has_tangent(v, level) for v in value)
    return value is not None and tangent_of(value, level) is not None


def _dummy(source: int, dummies: list[Any]) -> Any:
    return tuple(dummies) if source == GRADS else dummies[source]


def write_tangents(target: Tensor, result: Tensor) -> None:
    """Tangents of a tensor that was just written with `result`.

    No tangent is written in place: whoever saved one still has it. A write through a view gives the base a
    new tangent, and other views take theirs from it when they are next used.
    """
    if not MODES.forward_grad:
        return
    for level in levels_among((target, result)):
        saved, MODES.limit = MODES.limit, level.number
        try:
            _write_tangent(target, tangent_of(result, level), level)
        finally:
            MODES.limit = saved


def _write_tangent(target: Tensor, tangent: Tensor | None, level: Level) -> None:
    own = level in target._own_levels
    base = None if own else _holder(target, level)
    if base is None:
        given = zeros(meta_of(target)) if tangent is None else tangent.to(target.dtype)
        set_tangent(target, level, given, own=own)
        return
    whole = tangent_of(base, level)
    if whole is None and tangent is None:
        return
    room = run_name(
        "new_empty_strided",
        _like(whole, tangent),
        tuple(base.shape),
        base.strides(),
        base.dtype,
        None,
        None,
        None,
    )
    if whole is None:
        room.zero_()
    else:
        room.copy_(whole)
    part = _replayed(target, base, room)
    if tangent is None:
        part.zero_()
    else:
        part.copy_(tangent)
    set_tangent(base, level, room, own=level in base._own_levels)


def _like(first: Tensor | None, second: Tensor | None) -> Tensor:
    """A tensor that varies along every batch along which one of the two does."""
    if first is None or second is None:
        return first if second is None else second  # type: ignore[return-value]
    if _batches(first) >= _batches(second):
        return first
    return second if _batches(second) >= _batches(first) else first.sum() + second.sum()


def _batches(tensor: Any) -> set[Any]:
    """The open vmaps along whose batch `tensor` varies."""
    found = set()
    while isinstance(tensor, BatchedTensor):
        if tensor._bdim is not None:
            found.add(tensor._trace)
        tensor = tensor._value
    return found
