"""Running a specialization.

To run one is to fill the inputs of its program from the arguments, their gradients, tensors from elsewhere and
numbers, and then to do what the function did besides computing: write to the caller's tensors, set gradients,
return views and aliases. A call of plain tensors is done by a native callable as far as it can
(`native_entry`); what it refuses, and every other call, takes the long path (`run_specialization`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ..capture.captured_call import CapturedCall, Leaf
from ..capture.differentiable import run_differentiably
from ..capture.random import Draws
from ..capture.references import Argument, GradOf, TensorRef
from ..core.dispatch import call as run_operator
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.modes import MODES
from ..core.mutation import READ_ONLY
from ..core.tensor import AUTOGRAD, Tensor, alias, wrap
from ..runtime import redzones
from ..runtime.invoke import NO_GUARDS, Invoker, Source, available, may_write
from .guards import lack
from .native_call import make_native_call, may_be_read, write_back
from .specialization import CallPath, Specialization

# Native callables.


def native_entry(
    spec: Specialization, tensors: Sequence[Tensor]
) -> Callable[..., Any] | Literal[False] | None:
    """What is called with plain arguments, if there can be such a callable for these; False: not for others
    either. It is the native callable, with what its path leaves to Python before it, and gives NotImplemented,
    with nothing done, if it refuses the call."""
    if spec.path is CallPath.NATIVE_WITH_NUMBERS:
        found = _with_effects(spec, tensors)
        if not found:
            return False if found is False else None
        return _after_numbers(spec, found.call)
    invoker = _without_effects(spec, tensors)
    if invoker is None:
        return None
    native, locations_hold = invoker.call, spec.check.locations_hold
    if spec.path is CallPath.NATIVE:
        return native
    absent = spec.check.absent
    return lambda *args: native(*args) if locations_hold() and lack(args, absent) else NotImplemented


def _after_numbers(spec: Specialization, native: Callable[..., Any]) -> Callable[..., Any]:
    live, types = spec.live, spec.number_types

    def with_numbers(*args: Any) -> Any:
        if MODES.transforming or MODES.traces or MODES.dual_levels:
            return NotImplemented
        numbers = live.filled(types)
        return NotImplemented if numbers is None else native(*args, *numbers)

    return with_numbers


def _with_effects(spec: Specialization, tensors: Sequence[Tensor]) -> Invoker | Literal[False] | None:
    """A native callable for a program with effects, of which it does all but to read the numbers.

    Arguments that require no gradient may share memory with others, and begin anywhere in theirs: what is written
    to does not.
    """
    native = spec.native_call
    if not native:
        return False if native is False else None
    if not all(may_be_read(tensor) and not tensor.requires_grad for tensor in tensors):
        return None
    numbers = spec.live.filled(spec.number_types)
    return None if numbers is None else native.direct(spec, tensors, numbers) or False


def _without_effects(spec: Specialization, tensors: Sequence[Tensor]) -> Invoker | None:
    executable = spec.artifact.fixed
    if not executable.native or not available() or MODES.inference:
        return None
    sources = []
    for ref, slot in zip(spec.inputs, executable.inputs, strict=True):
        assert not isinstance(ref, Draws | type)
        example = ref.find(tensors)
        if not may_be_read(example):
            return None
        if isinstance(ref, Argument):
            sources.append(Source(ref.index, None, example, slot))
        else:
            sources.append(Source(-1, example, example, slot))
    used = {source.which for source in sources}
    for i, tensor in enumerate(tensors):  # an argument that the program does not use must still look the same
        if i not in used:
            if not may_be_read(tensor):
                return None
            sources.append(Source(i, None, tensor, None))
    return executable.invoker(
        len(tensors),
        sources,
        tensors=True,
        single=spec.single and spec.outputs == 1,
        guards=spec.native_guards or NO_GUARDS,
    )


def finish_native(spec: Specialization, found: Any) -> Any:
    """The result of a native call that is not a single tensor."""
    if type(found) is int:
        spec.artifact.fixed.report(found)
    outputs = dict(zip(spec.native_call.listed, found, strict=True)) if spec.native_call else found
    return spec.call.structure.unflatten(
        [outputs[leaf.index] if leaf.kind == "value" else leaf.python for leaf in spec.call.leaves]
    )


# The long path.


def run_specialization(
    spec: Specialization, leaves: Sequence[Any], numbers: list[Any], arguments: Any = ((), {})
) -> Any:
    """Run a specialization on the leaves of the arguments and the live numbers of a call."""
    call = spec.call
    sources: list[Any] = list(spec.constants)
    for i, ref in spec.found:
        sources[i] = ref.find(leaves)
    if not spec.native_call or call.draws or redzones.enabled():  # it looks itself; but before it draws
        _check_writes(call, sources)
    for argument, flag in call.flags:
        if flag:
            argument.find(leaves)._set_requires_grad()
    for i in spec.filled:
        sources[i] = _filled(spec, i, numbers)
    # gradients whose writes are counted, which may be gone afterwards
    written = {ref: ref.find(leaves) for ref, _ in call.versions if isinstance(ref, GradOf)}
    sizes = spec.live.sizes_of(numbers)
    outputs, writes, gradients, counts = _computed(spec, leaves, sources, sizes)
    if spec.live.symbols.data:
        spec.live.found(numbers, sizes)
    write_back(spec, sources, outputs, writes)
    given = _LeavesOfCall(spec, sizes, (leaves, sources, outputs, numbers))
    for waiting in call.deferred:
        given.deferred.append(waiting.run(waiting.mapped(Leaf, given)))
    returned = _results(spec, given)
    for target, leaf in gradients:
        target.find(leaves)._grad = given(leaf)
    data = [given(leaf) for _, leaf in call.replaced]
    for ref, count in counts:
        (written[ref] if ref in written else ref.find(leaves)).version_counter.value += count
    _change_tensors(call, leaves, data)
    result = call.structure.unflatten(returned)
    if call.grad_mode is not None:
        MODES.grad = call.grad_mode
    if call.stores:
        result, values = result
        for store, value in zip(call.stores, values, strict=True):
            store.put(value, arguments)
    return result


class _LeavesOfCall:
    """What stands for a leaf of the captured call in a call that has run.

    A closure that calls itself would be a cycle, and keep all outputs until garbage is collected."""

    def __init__(self, spec: Specialization, sizes: list[Any], call: tuple[Any, ...]) -> None:
        self.spec, self.sizes, self.call = spec, sizes, call
        self.deferred: list[Any] = []  # what was computed after the program

    def __call__(self, leaf: Leaf) -> Any:
        if leaf.kind == "deferred":
            found = self.deferred[leaf.index]
            return found if leaf.python is None else found[leaf.python]
        if leaf.held is not None:
            return leaf.python(self(leaf.held))
        return _returned(self.spec.sized(leaf, self.sizes), *self.call)


def _results(spec: Specialization, given: Callable[[Leaf], Any]) -> list[Any]:
    """The leaves of what the function returns."""
    call = spec.call
    if spec.repeated:
        once = {id(leaf): given(leaf) for leaf in call.leaves}
        returned = [once[id(leaf)] for leaf in call.leaves]
    else:
        returned = [given(leaf) for leaf in call.leaves]
    for i, kind in call.kinds.items():
        returned[i] = returned[i].as_subclass(kind)
    for i in call.inference:
        returned[i]._inference, returned[i]._keys = True, returned[i]._keys | AUTOGRAD
    return returned


def _computed(
    spec: Specialization, leaves: Sequence[Any], sources: list[Any], sizes: list[Any]
) -> tuple[Any, Any, Any, Any]:
    """Run the program. The outputs by number, and which writes, gradients and counts of writes are left."""
    call = spec.call
    if spec.native_call is None and sizes:
        spec.native_call = False
    if spec.native_call is None and not redzones.enabled():
        spec.native_call = make_native_call(spec, sources) or False
    native = spec.native_call
    if native and not redzones.enabled():
        for i, _ in native.writes:
            check(sources[i]._array.flags.writeable, READ_ONLY)
        _drop(native.dropped, leaves)
        outputs: Any = native.run(leaves, sources)
        if outputs is not None:
            return outputs, native.writes, native.gradients, native.counts
        _check_writes(call, sources)
    shared = [i for i in spec.updated.values() if not may_write(sources[i])]
    _drop(spec.dropped, leaves)
    arrays: list[Any] = [s._array if isinstance(s, Tensor) else s for s in sources]
    for i in shared:
        arrays[i] = arrays[i].copy(order="K")
    if spec.backward is None:
        found = spec.artifact.executable.run(arrays, sizes)
        for i in shared:
            np.copyto(sources[i]._array, arrays[i])
        updated = spec.updated  # nobody asks for these outputs
        outputs = [None if i in updated else wrap(array) for i, array in enumerate(found)]
        return outputs, spec.new_contents, call.gradients, call.versions
    different = [ref.find(leaves) for ref in call.differentiable]
    grad, MODES.grad = MODES.grad, True  # a program may record in spite of no_grad around it
    try:
        outputs = run_differentiably(spec, arrays, sources, sizes, different)
    finally:
        MODES.grad = grad
    return outputs, spec.new_contents, call.gradients, call.versions


def _check_writes(call: CapturedCall, sources: list[Any]) -> None:
    for i, _ in call.writes:
        check(sources[i]._array.flags.writeable, READ_ONLY)


def _drop(targets: list[TensorRef], leaves: Sequence[Any]) -> None:
    """Let gradients go, as the program does before it computes others: their memory is free then."""
    for target in targets:
        target.find(leaves)._grad = None


def _change_tensors(call: CapturedCall, leaves: Sequence[Any], data: list[Tensor]) -> None:
    """What the program did to the caller's tensors besides writing to their memory."""
    for change in call.changes:
        change.apply(change.target.find(leaves))
    for (target, _), value in zip(call.replaced, data, strict=True):
        target.find(leaves).data = value
    for argument, flag in call.flags:
        if not flag:
            argument.find(leaves)._set_requires_grad(False)


def _filled(spec: Specialization, i: int, numbers: list[Any]) -> np.ndarray:
    """The contents of an input that is no tensor of the caller."""
    source: Any = spec.inputs[i]
    if isinstance(source, Draws):
        return source.fill(dict(zip(spec.live.sizes, spec.live.sizes_of(numbers), strict=True)))
    return spec.live.fill(source, numbers)


def _returned(leaf: Leaf, leaves: Sequence[Any], sources: list[Any], outputs: Any, numbers: list[Any]) -> Any:
    if leaf.kind == "value":
        return outputs[leaf.index]
    if leaf.kind == "view":
        assert leaf.spec is not None
        return alias(outputs[leaf.index], leaf.spec)
    if leaf.kind == "shared" and leaf.python is not None:
        return _replayed(outputs[leaf.index], leaf.python)
    if leaf.kind == "shared":
        assert leaf.spec is not None
        shape, strides = leaf.spec.known_shape(), leaf.spec.known_strides()
        return run_name("as_strided", outputs[leaf.index], shape, strides, leaf.spec.offset)
    if leaf.kind == "python":
        return leaf.python
    if leaf.kind == "number":
        return leaf.python(numbers)
    if leaf.given is not None:
        return leaf.given.find(leaves)
    source = sources[leaf.index]
    viewed = source if leaf.of is None else leaf.of.find(leaves)
    if leaf.kind == "replayed":
        return _replayed(viewed, leaf.python)
    spec = leaf.spec
    assert spec is not None
    offset = spec.offset + source.storage_offset()
    if leaf.requires_grad:
        return run_name("as_strided", viewed, spec.known_shape(), spec.known_strides(), offset)
    return alias(source, replace(spec, offset=offset))


def _replayed(tensor: Tensor, steps: list[tuple[Any, tuple[Any, ...]]]) -> Tensor:
    """The view of `tensor` that view operators make, one after the other."""
    for op, rest in steps:
        tensor = run_operator(op, (tensor, *rest))
    return tensor
