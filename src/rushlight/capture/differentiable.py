"""The forward and the backward program of a captured call as one node of the tape.

What the backward program needs is kept as eager execution keeps it: it is let go when the pass is over,
tensors of the caller that were written to since are an error, and hooks on saved tensors see it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.function import BackwardCFunction, Function
from ..autograd.saved import modified, second_time, shallow_copy
from ..autograd.tape import FREED, Node, meta_of
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, TRACED, Tensor, wrap


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
        arrays = specialization.artifact.executable.run(inputs, sizes)
        ctx.sizes = sizes
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
        ctx.set_materialize_grads(True)
        wanted = specialization.differentiated
        ctx.mark_non_differentiable(*[output for i, output in enumerate(outputs) if i not in wanted])
        return tuple(outputs) if len(outputs) != 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        specialization: Any = ctx.specialization
        if any(grads[i]._keys & TRACED for i in specialization.differentiated):
            raise RuntimeError(
                "a compiled function cannot be differentiated for a batch of gradients at "
                "once (vmap, is_grads_batched); do so inside of the compiled function"
            )
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
        tangents = [np.ascontiguousarray(grads[i].numpy_array()) for i in specialization.differentiated]
        assert specialization.backward is not None
        arrays = iter(specialization.backward.executable.run([*saved, *tangents], ctx.sizes))
        found = [None if g is None else wrap(next(arrays)) for g in specialization.call.backward]
        if MODES.grad:
            for grad in found:
                if grad is not None:
                    grad._node, grad._keys = _Twice(ctx._next, (meta_of(grad),)), grad._keys | AUTOGRAD
        return (None, None, None, None, *found)


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


class _Twice(Node):
    """The history of gradients that a backward program computed with create_graph=True."""

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        raise RuntimeError(
            "a compiled function can be differentiated once only; take the inner gradient "
            "inside of the compiled function, or call the function itself"
        )


class CompiledFunctionBackward(BackwardCFunction):
    """The node itself."""

    _function = Differentiable
    layouts: Any  # of what hooks keep; None if there are none, and it is here:
    arrays: Any
    # tensors of the caller among them, and how often they had been written to
    versions: list[tuple[Tensor, int]]

    def _release(self) -> None:
        super()._release()
        if self.layouts is None and self.arrays:
            self.arrays, self.versions = FREED, []

    def _owns_results(self) -> bool:
        return True  # gradients are new tensors, which leaves may keep


Differentiable._backward_cls = CompiledFunctionBackward
