"""A compiled call becomes a specialization: its guards are collected.

In:  a `CompiledCall`, the leaves of the arguments that it was captured with, its environment. Out: a
`Specialization`, which holds on to no tensor of that call but those that the function knows from elsewhere:
where the captured call named tensors of the caller, it has references afterwards (capture/references.py).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..autograd import hooks
from ..capture.captured_call import CapturedCall, Leaf
from ..capture.locations import NOTHING_KNOWN, Environment
from ..capture.references import Argument, At, Captured, GradOf, TensorRef, layout_of
from ..core.tensor import Tensor
from .call_key import CallKey
from .guards import (
    ARGUMENTS,
    Aspect,
    Guard,
    guards_of_key,
    guards_of_locations,
    guards_of_numbers,
    sharing_with,
)
from .pipeline import CompiledCall
from .specialization import Input, Specialization


def build_specialization(
    compiled: CompiledCall,
    leaves: Sequence[Any],
    environment: Environment = NOTHING_KNOWN,
    *,
    key: CallKey | None = None,
) -> Specialization:
    """The specialization of a compiled call. `key` is that of the calls that it serves."""
    programs, call = compiled.programs, compiled.programs.call
    guards = [] if key is None else guards_of_key(key, leaves)
    references = _References(call, leaves)
    guards += _guards_of_tensors(call, references, leaves)
    guards += _guards_of_environment(call, environment, leaves)
    inputs = references.bind()
    return Specialization(
        call,
        compiled.forward,
        compiled.backward,
        programs.outputs,
        programs.taken,
        inputs,
        programs.kept,
        guards,
    )


class _References:
    """What the tensors of the caller are in every call."""

    def __init__(self, call: CapturedCall, leaves: Sequence[Any]) -> None:
        self.call = call
        self._arguments: dict[int, TensorRef] = {
            id(leaf): Argument(i) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)
        }
        gradients: dict[int, TensorRef] = {
            id(grad): GradOf(self.owner(leaf)) for leaf, grad in call.leaves_used if grad is not None
        }
        # what is read from a location of Python's where the program puts another tensor
        stored: dict[int, TensorRef] = {
            id(store.old): At(store.place, store.key, f"what the program replaces at {store.key!r}")
            for store in call.stores
            if store.old is not None
        }
        self._all = gradients | stored | self._arguments

    def owner(self, tensor: Tensor) -> Argument | Captured:
        """An argument, or the tensor itself: one that is no gradient."""
        found = self._arguments.get(id(tensor))
        return found if isinstance(found, Argument) else Captured(tensor)

    def of(self, tensor: Tensor) -> TensorRef:
        return self._all.get(id(tensor)) or Captured(tensor)

    @functools.cached_property
    def inputs(self) -> list[Input]:
        """What fills the inputs of the program."""
        return [self.of(s) if isinstance(s, Tensor) else s for s in self.call.sources]

    def bind(self) -> list[Input]:
        """Put references in the place of tensors in the captured call; what fills its inputs.

        The tensors of this call are of no use to others, and their memory is the caller's.
        """
        call, inputs = self.call, self.inputs
        call.stores = [replace(store, old=None) for store in call.stores]
        call.versions = [(self.of(tensor), count) for tensor, count in call.versions]
        call.flags = [(self.owner(tensor), flag) for tensor, flag in call.flags]
        call.replaced = [(self.owner(target), self._leaf(leaf)) for target, leaf in call.replaced]
        call.changes = [replace(c, target=self.owner(c.target)) for c in call.changes]
        call.differentiable = [self.of(tensor) for tensor in call.differentiable]
        once = {id(leaf): self._leaf(leaf) for leaf in call.leaves}
        call.leaves = [once[id(leaf)] for leaf in call.leaves]
        call.deferred = [replace(waiting, args=waiting.mapped(Leaf, self._leaf)) for waiting in call.deferred]
        call.gradients = [(self.owner(target), self._leaf(leaf)) for target, leaf in call.gradients]
        call.sources, call.leaves_used = [], []
        return inputs

    def _leaf(self, leaf: Leaf) -> Leaf:
        if leaf.held is not None:
            return replace(leaf, held=self._leaf(leaf.held))
        if isinstance(leaf.of, Tensor):
            leaf = replace(leaf, of=self.owner(leaf.of))
        if not isinstance(leaf.python, Tensor) or leaf.kind not in ("alias", "given"):
            return leaf
        return replace(leaf, python=None, given=self.owner(leaf.python))


def _guards_of_tensors(call: CapturedCall, references: _References, leaves: Sequence[Any]) -> list[Guard]:
    """On tensors from elsewhere, and on gradients."""
    inputs = references.inputs
    captured = [ref.tensor for ref in inputs if isinstance(ref, Captured)]
    changed = [references.owner(change.target) for change in call.changes]
    captured += [ref.tensor for ref in changed if isinstance(ref, Captured)]
    guards = [Guard(Captured(tensor), Aspect.LAYOUT, layout_of(tensor)) for tensor in captured]
    guards += [
        Guard(Captured(tensor), Aspect.HOOKS, tuple(hooks.hooks_of(tensor)))
        for tensor in captured
        if tensor.requires_grad
    ]
    for leaf, grad in call.leaves_used:
        guards.append(Guard(GradOf(references.owner(leaf)), Aspect.PRESENCE, grad is not None))
    for source, ref in zip(call.sources, inputs, strict=True):
        if isinstance(ref, GradOf | At):
            guards.append(Guard(ref, Aspect.LAYOUT, layout_of(source)))
    related = sharing_with(captured, leaves) if captured else []
    if captured and (call.writes or related):  # else it does not matter what shares memory
        guards.append(Guard(ARGUMENTS, Aspect.SHARING_CAPTURED, related))
    return guards


def _guards_of_environment(
    call: CapturedCall, environment: Environment, leaves: Sequence[Any]
) -> list[Guard]:
    """On locations of Python's, on live numbers, and on arguments that are known from elsewhere, too."""
    known = {id(value) for _, _, value, _ in environment.places if isinstance(value, Tensor)}
    pinned = [
        Guard(Argument(i), Aspect.IDENTITY, leaf)
        for i, leaf in enumerate(leaves)
        if isinstance(leaf, Tensor) and id(leaf) in known
    ]
    lacking = [Guard(ARGUMENTS, Aspect.ATTRIBUTES, environment.absent)] if environment.absent else []
    return [
        *pinned,
        *lacking,
        *guards_of_locations([*call.locations, *call.live.places]),
        *guards_of_numbers(call.live),
    ]
