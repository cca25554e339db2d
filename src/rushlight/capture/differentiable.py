"""The forward and the backward program of a captured call as one node of the tape.

What the backward program needs is kept as eager execution keeps it: it is let go when the pass is over,
tensors of the caller that were written to since are an error, and hooks on saved tensors see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.edges import edge_of
from ..autograd.function import BackwardCFunction, Function
from ..autograd.saved import modified, second_time, shallow_copy
from ..autograd.tape import FREED, meta_of
from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, TRACED, Tensor, wrap
from .replay import gradients_again


class Differentiable(Function):
    """The forward and backward programs as one node of the tape."""

    @staticmethod
    def forward(
        ctx: Any,
        specialization: Any,
        inputs: list[np.ndarray],
        sources: list[Any],
        sizes: list[int],
        *different: Tensor,
    ) -> Any:
        outputs = _computed(ctx, specialization, inputs, sources, sizes)
        ctx.set_materialize_grads(True)
        wanted = specialization.differentiated
        ctx.mark_non_differentiable(*[output for i, output in enumerate(outputs) if i not in wanted])
        return tuple(outputs) if len(outputs) != 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return (None, None, None, None, *_gradients(ctx, grads))


def _computed(
    ctx: Any, specialization: Any, inputs: list[np.ndarray], sources: list[Any], sizes: list[int]
) -> list[Tensor]:
    """Run the forward program, and keep what the backward program needs. The outputs."""
    former = {
        i: inputs[i].copy()
        for i in specialization.overwritten
        if not (isinstance(sources[i], Tensor) and sources[i].requires_grad)
    }
    arrays = specialization.artifact.executable.run(inputs, sizes)
    ctx.sizes = sizes
    ctx.inputs = [
        (source, 0 if source._versions is None else source._versions.value)
        if isinstance(source, Tensor) and i not in former
        else (former.get(i, array), 0)
        for i, (source, array) in enumerate(zip(sources, inputs, strict=True))
    ]
    outputs = [wrap(array) for array in arrays[: specialization.outputs]]
    ctx.specialization = specialization
    found = arrays[specialization.outputs :]
    ctx.layouts = None
    if MODES.saved_hooks:
        saved = [
            shallow_copy(sources[i]) if isinstance(sources[i], Tensor) else wrap(inputs[i])
            for i in specialization.kept
        ]
        saved += map(wrap, found)
        ctx.save_for_backward(*saved)
        ctx.layouts = [_data(tensor).strides for tensor in saved]
    else:  # the same, but quicker
        ctx.versions = [
            (tensor, 0 if tensor._versions is None else tensor._versions.value)
            for tensor in map(sources.__getitem__, specialization.kept)
            if isinstance(tensor, Tensor)
        ]
        ctx.arrays = [inputs[i] for i in specialization.kept] + found
    return outputs


def _gradients(ctx: Any, grads: Sequence[Tensor]) -> list[Tensor | None]:
    """Run the backward program. The gradients of the tensors that were given."""
    specialization: Any = ctx.specialization
    if ctx.layouts is not None:  # hooks may give back another tensor
        saved = [
            _laid_out(_data(tensor), strides)
            for tensor, strides in zip(ctx.saved_tensors, ctx.layouts, strict=True)
        ]
    else:
        saved = ctx.arrays
        if saved is FREED:
            raise second_time()
        for tensor, version in ctx.versions:
            if tensor._versions is not None and tensor._versions.value != version:
                raise modified(tensor, version, tensor._node, tensor._output_nr, ctx)
    given = [grads[i] for i in specialization.differentiated]
    if MODES.grad or any(grad._keys & TRACED for grad in given):
        sizes = dict(zip(specialization.live.sizes, ctx.sizes, strict=True))
        again = gradients_again(specialization.call, ctx.inputs, given, sizes, ctx)
        return list(again)
    tangents = [np.ascontiguousarray(grad.numpy_array()) for grad in given]
    assert specialization.backward is not None
    arrays = iter(specialization.backward.executable.run([*saved, *tangents], ctx.sizes))
    return [None if g is None else wrap(next(arrays)) for g in specialization.call.backward]


def _data(tensor: Tensor) -> np.ndarray:
    assert tensor._array is not None
    return tensor._array


def _laid_out(array: np.ndarray, strides: tuple[int, ...]) -> np.ndarray:
    """`array`, or a copy of it that lies in memory as the program expects it."""
    if array.strides == strides:
        return array
    memory = (
        np.empty(
            sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)) + array.itemsize, np.uint8
        )
        if array.size
        else np.empty(0, np.uint8)
    )
    copy = np.ndarray(array.shape, array.dtype, memory, 0, strides)
    np.copyto(copy, array)
    return copy


class CompiledFunctionBackward(BackwardCFunction):
    """The node itself."""

    _function = Differentiable
    layouts: Any  # of what hooks keep; None if there are none, and it is here:
    arrays: Any
    specialization: Any
    inputs: list[tuple[Tensor | np.ndarray, int]]  # of the program, and how often they had been written to
    # tensors of the caller among them, and how often they had been written to
    versions: list[tuple[Tensor, int]]

    def apply(self, *grads: Any) -> Any:
        """As of any custom function, but quicker: it gives one gradient for each tensor, and nothing else."""
        given = grads[0] if len(grads) == 2 and isinstance(grads[0], list) else grads
        return _gradients(self, self._materialized(given))

    def show(self, output: int) -> None:
        if output in self.specialization.call.inner:
            raise RuntimeError(
                f"the gradient of result {output} of a call that was compiled on its own is asked for, and "
                "other results of that call are computed from it. What to do: ask for such gradients from the "
                "first calls on, so that the call is not compiled, or put torch.compiler.disable on it"
            )

    def _release(self) -> None:
        super()._release()
        if self.layouts is None and self.arrays:
            self.arrays, self.versions = FREED, []
        self.inputs = []

    def _owns_results(self) -> bool:
        return True  # gradients are new tensors, which leaves may keep


Differentiable._backward_cls = CompiledFunctionBackward


def run_differentiably(
    specialization: Any,
    inputs: list[np.ndarray],
    sources: list[Any],
    sizes: list[int],
    different: Sequence[Tensor],
) -> list[Tensor]:
    """The outputs of a program, with their history: what `Differentiable.apply` gives, but quicker where nobody
    looks at operators or at what is saved."""
    edges = None
    if not (_is_seen() or any(tensor._keys & ~AUTOGRAD for tensor in different)):
        edges = tuple([edge_of(tensor) if tensor._keys else None for tensor in different])
    if not edges or edges.count(None) == len(edges):
        found = Differentiable.apply(specialization, inputs, sources, sizes, *different)
        return list(found) if isinstance(found, tuple) else [found]
    node = CompiledFunctionBackward()
    node._inputs = (*(False,) * 4, *(True,) * len(different))
    node.needs_input_grad = (*(False,) * 4, *[edge is not None for edge in edges])
    MODES.grad, grad = False, MODES.grad
    try:
        outputs = _computed(node, specialization, inputs, sources, sizes)
    finally:
        MODES.grad = grad
    node._saved, node._next = [], edges
    node._meta = tuple(map(meta_of, outputs))
    for number in specialization.differentiated:
        output = outputs[number]
        if output.dtype.is_differentiable:
            output._node, output._output_nr, output._keys = node, number, AUTOGRAD
    return outputs


def _is_seen() -> bool:
    """Whether a transform, a capture or a hook looks at functions or at what they save."""
    return bool(
        AMBIENT.keys
        or AMBIENT.trace is not None
        or MODES.transforms
        or MODES.traces
        or MODES.dual_levels
        or MODES.silent
        or MODES.saved_hooks
        or MODES.watch is not None
        or not MODES.grad
    )
