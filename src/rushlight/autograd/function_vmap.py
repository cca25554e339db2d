"""Custom functions under vmap.

A function with a `vmap` static method is given unwrapped tensors and their batch dimensions. One with
`generate_vmap_rule` is run as another custom function one level below, whose forward and backward are the
vmapped ones; so the level below records the custom backward, and not what forward does.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

from ..batching.vmap import Vmap
from ..core import pytree
from ..core.errors import check
from ..core.interpreters import innermost
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor
from .function import BackwardCFunction, Function, WrappedContext, install_transform, run
from .function_nested import on_values

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def under_transform(cls: type[Function], args: tuple[Any, ...]) -> Any:
    """Run a custom function whose arguments are nested or belong to a vmap."""
    if any(isinstance(a, Tensor) and a.is_nested for a in args):
        return on_values(cls, args)
    trace = innermost([a for a in args if isinstance(a, Tensor)])
    if not isinstance(trace, Vmap) or (trace.direct and not cls._has_setup_context()):
        return NotImplemented
    own = [a for a in args if isinstance(a, Tensor) and trace.owns(a)]
    if any(a._keys & AUTOGRAD for a in own) and any(a.requires_grad or a._tangents for a in own):
        return run(_at_level(cls, trace), args)
    return batched_forward(cls, trace, args)


def _at_level(cls: type[Function], trace: Vmap) -> type[Function]:
    """`cls` with a forward that goes through the vmap, so that the levels below see a custom function too."""
    return type(
        cls.__name__,
        (cls,),
        {
            "forward": staticmethod(lambda *args: batched_forward(cls, trace, args)),
            "setup_context": staticmethod(cls.setup_context),
        },
    )


def batched_forward(cls: type[Function], trace: Vmap, args: tuple[Any, ...]) -> Any:
    unwrapped = [_unwrapped(trace, a) for a in args]
    values, dims = tuple(v for v, _ in unwrapped), tuple(d for _, d in unwrapped)
    has_rule = cls.vmap is not Function.vmap
    check(
        not (has_rule and cls.generate_vmap_rule),
        f"{cls.__name__} under vmap: it has "
        "generate_vmap_rule=True and a vmap staticmethod; keep one of the two",
    )
    check(
        has_rule or cls.generate_vmap_rule,
        f"{cls.__name__} does not have vmap support: give it a vmap "
        "staticmethod or set generate_vmap_rule=True",
    )
    saved = MODES.grad, MODES.forward_grad
    MODES.grad = MODES.forward_grad = True
    try:
        if has_rule:
            found = cls.vmap(VmapInfo(trace.size, trace.randomness), dims, *values)
            check(
                isinstance(found, tuple) and len(found) == 2,
                f"Expected the vmap staticmethod of "
                f"{cls.__name__} "
                "to have two returns, the outputs and their batch dimensions",
            )
            outputs, out_dims = found
            check(
                pytree.broadcast_prefix(out_dims, pytree.flatten(outputs)[1]) is not None,
                "The vmap "
                f"staticmethod of {cls.__name__} returned an incompatible (output, out_dims): {out_dims} "
                "does not fit the structure of the output",
            )
        else:
            rule = _vmapped(cls, trace, dims)
            outputs = rule.apply(*values)
            out_dims = rule.out_dims
    finally:
        MODES.grad, MODES.forward_grad = saved
    if not isinstance(outputs, tuple | list):
        return _wrapped(trace, outputs, out_dims)
    several = out_dims if isinstance(out_dims, tuple | list) else (out_dims,) * len(outputs)
    return type(outputs)(_wrapped(trace, o, d) for o, d in zip(outputs, several, strict=True))


def _unwrapped(trace: Vmap, value: Any) -> tuple[Any, Any]:
    """What an argument wraps, and its batch dimension; for a list or tuple, one of each of what it holds."""
    if type(value) not in (list, tuple):
        return trace.unwrap(value)
    found = [_unwrapped(trace, item) for item in value]
    if all(dim is None for _, dim in found):
        return value, None
    return type(value)(item for item, _ in found), type(value)(dim for _, dim in found)


def _wrapped(trace: Vmap, value: Any, dim: Any) -> Any:
    if type(value) in (list, tuple) and dim is not None:
        dims = dim if isinstance(dim, list | tuple) else (dim,) * len(value)
        return type(value)(_wrapped(trace, v, d) for v, d in zip(value, dims, strict=True))
    return trace.lift(value, dim) if isinstance(value, Tensor) else value


def _context(ctx: BackwardCFunction, trace: Vmap) -> WrappedContext:
    return WrappedContext(ctx, trace.unwrap, functools.partial(_wrapped, trace))


def reductify_leaf(
    grad_input: Tensor | None,
    grad_input_bdim: int | None,
    input_bdim: int | None,
    batch_size: int,
    target_shape_without_bdim_to_reduce_to: Any = None,
) -> Tensor | None:
    """The gradient of an input that has its batch at `input_bdim`, from one that has it at `grad_input_bdim`:
    summed over the batch where the input has none, and to the shape that is given, if any."""
    if grad_input is None:
        return None
    if grad_input_bdim is None and input_bdim is None:
        whole = grad_input
    elif grad_input_bdim is None:
        whole = grad_input.unsqueeze(0).expand(batch_size, *grad_input.shape)
    else:
        whole = grad_input.movedim(grad_input_bdim, 0)
        whole = whole.sum(0) if input_bdim is None else whole
    if input_bdim is None:
        return whole
    if target_shape_without_bdim_to_reduce_to is not None:
        target = tuple(target_shape_without_bdim_to_reduce_to)
        added = (1,) * (whole.ndim - 1 - len(target))
        whole = whole.sum_to_size((batch_size, *added, *target)).reshape((batch_size, *target))
    return whole.movedim(0, input_bdim)


def _rewrapped(trace: Vmap, output: Any, dims: Any) -> Any:
    """An output, or several, with their batch dimensions hidden."""
    if isinstance(dims, tuple):
        return tuple(_wrapped(trace, o, d) for o, d in zip(output, dims, strict=True))
    return _wrapped(trace, output, dims)


def _summed(trace: Vmap, grad: Any, dim: int | None) -> Any:
    """A gradient of an input with the batch dimension that the input has."""
    if not isinstance(grad, Tensor):
        return None
    value, bdim = trace.unwrap(grad)
    return reductify_leaf(value, bdim, dim, trace.size)


def _moved(trace: Vmap, tangent: Any, dim: int | None) -> Any:
    """A tangent of an output with the batch dimension that the output has."""
    value, batched, _ = trace.front(tangent)
    if dim is None:
        return value
    value = value if batched else value.expand(trace.size, *value.shape)
    return value.movedim(0, dim)


def _vmapped(cls: type[Function], trace: Vmap, in_dims: tuple[Any, ...]) -> Any:
    """The custom function one level below: of whole batches."""

    class Vmapped(Function):
        out_dims: Any = 0

        @staticmethod
        def forward(*values: Any) -> Any:
            inner = tuple(_wrapped(trace, v, d) for v, d in zip(values, in_dims, strict=True))
            output = cls.forward(*inner)
            outputs = output if isinstance(output, tuple) else (output,)
            unwrapped = [trace.unwrap(o) for o in outputs]
            values, dims = tuple(v for v, _ in unwrapped), tuple(d for _, d in unwrapped)
            several = isinstance(output, tuple)
            Vmapped.out_dims = dims if several else dims[0]
            return values if several else values[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            inner = tuple(_wrapped(trace, v, d) for v, d in zip(inputs, in_dims, strict=True))
            ctx.saved_notes = ctx.forward_notes = ()
            cls.setup_context(_context(ctx, trace), inner, _rewrapped(trace, output, Vmapped.out_dims))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            dims = Vmapped.out_dims
            inner = _rewrapped(trace, grads, dims if isinstance(dims, tuple) else (dims,))
            found = cls._backward_function()(_context(ctx, trace), *inner)
            return tuple(
                _summed(trace, g, d)
                for g, d in zip(found if isinstance(found, tuple) else (found,), in_dims, strict=False)
            )

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            inner = [_wrapped(trace, t, d) for t, d in zip(tangents, in_dims, strict=True)]
            found = cls.jvp(_context(ctx, trace), *inner)
            outputs = found if isinstance(found, tuple) else (found,)
            dims = Vmapped.out_dims if isinstance(found, tuple) else (Vmapped.out_dims,)
            moved = tuple(_moved(trace, t, d) for t, d in zip(outputs, dims, strict=True))
            return moved if isinstance(found, tuple) else moved[0]

    Vmapped.__name__ = f"Vmapped{cls.__name__}"
    return Vmapped


install_transform(under_transform)
