"""`autograd.backward` and `autograd.grad`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from ..batching.vmap import Vmap
from ..core.dispatch import run_name
from ..core.dtypes import DType
from ..core.errors import check, warn_once
from ..core.nested_base import NestedBase
from ..core.tensor import META_DEVICE, Tensor
from ..core.tokens import Size
from . import inner
from .edges import edge_of
from .engine import Run
from .tape import AccumulateGrad, Edge, Node

Tensors = Tensor | Sequence[Tensor]


class GradientEdge(NamedTuple):
    """An edge of the graph, which stands for a tensor in `grad` and `backward`.

    >>> type(rl.autograd.graph.get_gradient_edge(rl.ones(1, requires_grad=True))).__name__
    'GradientEdge'
    """

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge of the graph that stands for a tensor.

    >>> rl.autograd.graph.get_gradient_edge(rl.ones(1, requires_grad=True)).output_nr
    0
    """
    edge = edge_of(tensor)
    check(
        edge is not None,
        "It is not possible to get the gradient edge for a Tensor that does not require gradients",
    )
    return GradientEdge(*edge)  # type: ignore[misc]


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves (or only of `inputs`) they were computed from.

    >>> x = rl.ones(2, requires_grad=True)
    >>> rl.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 2.])
    """
    if grad_variables is not None:
        check(
            grad_tensors is None,
            "`grad_tensors` and `grad_variables` (deprecated) arguments both passed "
            "to `backward()`. Please only use `grad_tensors`.",
        )
        grad_tensors = grad_variables
    if create_graph:
        warn_once(
            "Using backward() with create_graph=True makes a reference cycle: the gradient in .grad "
            "refers to the graph, the graph to the leaf. Use autograd.grad, or set .grad to None "
            "afterwards.",
            stacklevel=3,
        )
    roots = _roots(_tuple(tensors), grad_tensors, create_graph, batched=False)
    keep = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        Run(retain_graph=keep, create_graph=create_graph, inputs=None, accumulate=True).start(roots)
        return
    given = _tuple(inputs)
    check(len(given) > 0, "`inputs` argument to `backward()` cannot be empty.")
    edges = _input_edges(given)
    run = Run(retain_graph=keep, create_graph=create_graph, inputs=edges, accumulate=True)
    run.start(roots)
    for i, tensor in enumerate(given):
        found = run.captured.get(i)
        if found is not None and isinstance(tensor, Tensor) and not isinstance(edges[i][0], AccumulateGrad):
            tensor._grad = found if tensor._grad is None else tensor._grad + found


def _trace(outputs: Any) -> Any:
    """The interpreter at whose level the outputs live."""
    first = _tuple(outputs)[0]
    return first._trace if isinstance(first, Tensor) else None


def _input_edges(inputs: tuple[Any, ...]) -> list[Edge]:
    edges = []
    for tensor in inputs:
        edge = _edge(tensor)
        if edge is None:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
        if not isinstance(edge[0], AccumulateGrad):
            inner.ask(*edge)
        edges.append(edge)
    return edges


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs`, weighted by `grad_outputs`, with respect to `inputs`.

    >>> x = rl.tensor([3.0], requires_grad=True)
    >>> rl.autograd.grad((x * x).sum(), x)
    (tensor([6.]),)
    """
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs=False is ignored; gradients are not added to leaves. To do that, "
            "use autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but "
            "got: allow_unused=False."
        )
    inputs = _several(inputs)
    wanted = _tuple(inputs)
    roots = _roots(_tuple(outputs), grad_outputs, create_graph, batched=is_grads_batched)
    check(len(wanted) > 0, "grad requires non-empty inputs.", ValueError)
    edges = _input_edges(wanted)
    run = Run(
        retain_graph=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        inputs=edges,
        accumulate=False,
        trace=_trace(outputs),
    )
    if is_grads_batched:
        results = _run_batched(run, roots, len(edges))
    else:
        run.start(roots)
        results = [run.captured.get(i) for i in range(len(edges))]
    if materialize_grads:
        results = _materialized(wanted, results, create_graph)
    elif not allow_unused:
        _check_used(results)
    results = [
        tensor.like(result) if isinstance(tensor, NestedBase) and result is not None else result
        for tensor, result in zip(inputs, results, strict=True)
    ]
    if not create_graph:
        results = [
            result if result is None or not result.requires_grad else result.detach() for result in results
        ]
    return tuple(results)


def _check_used(results: list[Any]) -> None:
    if any(result is None for result in results):
        unused = next(i for i, result in enumerate(results) if result is None)
        raise RuntimeError(
            f"The differentiated Tensor at index {unused} appears to not have been used in "
            "the graph. Set allow_unused=True if this is the desired behavior."
        )


def _materialized(wanted: tuple[Any, ...], results: list[Any], create_graph: bool) -> list[Any]:
    """Zeros for the gradients of what was not used."""
    check(
        all(
            result is not None or isinstance(tensor, Tensor)
            for tensor, result in zip(wanted, results, strict=True)
        ),
        "materialize_grads cannot be used when the given input is a GradientEdge",
    )
    return [
        _zeros_like(tensor)._set_requires_grad(create_graph) if result is None else result
        for tensor, result in zip(wanted, results, strict=True)
    ]


def _zeros_like(tensor: Tensor) -> Tensor:
    return run_name("zeros_like", tensor, None, None, None, None, None)


def _run_batched(run: Run, roots: list[tuple[Edge, Tensor]], count: int) -> list[Any]:
    """One pass for a batch of gradients, their first dimension mapped over."""
    size = roots[0][1].shape[0]
    with Vmap(size, direct=True) as trace:
        run.start([(edge, trace.lift(grad, 0)) for edge, grad in roots])
        found = [run.captured.get(i) for i in range(count)]
        return [None if grad is None else _unbatched(trace, grad) for grad in found]


def _unbatched(trace: Vmap, grad: Tensor) -> Tensor:
    value, batched, _ = trace.front(grad)
    return value if batched else value.expand(trace.size, *value.shape)


def _tuple(value: Any) -> tuple[Any, ...]:
    """One or several as a tuple; a nested tensor is its values here."""
    return tuple([each._values if isinstance(each, NestedBase) else each for each in _several(value)])


def _several(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor | GradientEdge) else tuple(value)


def _edge(tensor: Any) -> Edge | None:
    return tensor if isinstance(tensor, GradientEdge) else edge_of(tensor)


def _roots(
    outputs: tuple[Any, ...], grad_outputs: Any, create_graph: bool, *, batched: bool
) -> list[tuple[Edge, Tensor]]:
    grads = (None,) * len(outputs) if grad_outputs is None else _tuple(grad_outputs)
    check(len(grads) == len(outputs), f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots: list[tuple[Edge, Tensor]] = []
    for output, given in zip(outputs, grads, strict=True):
        edge = _edge(output)
        if edge is None:
            if isinstance(output, Tensor) and given is not None:
                _check_gradient(output, given, batched)
            raise RuntimeError(
                f"element {len(roots)} of tensors does not require grad and does not have a grad_fn"
            )
        roots.append((edge, _root_gradient(output, given, batched)))
    return roots


def _root_gradient(output: Any, given: Any, batched: bool) -> Tensor:
    if given is not None:
        check(
            isinstance(given, Tensor),
            f"gradients can be either Tensors or None, but got {type(given).__name__}",
            TypeError,
        )
        dtype = _check_gradient(output, given, batched)
        return given if given.dtype is dtype else given.to(dtype)
    if isinstance(output, GradientEdge):
        shape, dtype, on_meta = output.node._meta[output.output_nr]
        check(all(size == 1 for size in shape), "grad can be implicitly created only for scalar outputs")
        check(
            not dtype.is_complex,
            f"grad can be implicitly created only for real scalar outputs but got rushlight.{dtype.name}",
        )
        return run_name("ones", shape, dtype, None, META_DEVICE if on_meta else None, None)
    check(output.numel() == 1, "grad can be implicitly created only for scalar outputs")
    check(
        not output.dtype.is_complex,
        f"grad can be implicitly created only for real scalar outputs but got rushlight.{output.dtype.name}",
    )
    return run_name("ones_like", output.detach(), None, None, None, None, None)


def _check_gradient(output: Tensor | GradientEdge, given: Tensor, batched: bool) -> DType:
    """Refuse a gradient that is not like the output; the dtype that it is to be cast to."""
    if isinstance(output, Tensor) and not batched and output._spec is None and given._spec is None:
        mine, other = output._array, given._array
        if (
            mine is not None
            and other is not None
            and mine.shape == other.shape
            and output.dtype is given.dtype
        ):
            return output.dtype
    expected, dtype = (
        (tuple(output.shape), output.dtype)
        if isinstance(output, Tensor)
        else output.node._meta[output.output_nr][:2]
    )
    if tuple(given.shape[1:] if batched else given.shape) != expected:
        hint = (
            " If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
            "dimension; the others must be those of the output."
            if batched
            else ""
        )
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {given.shape} and output[0] has a shape of "
            f"{Size(expected)}.{hint}"
        )
    if given.dtype.is_complex != dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and "
            "output are required to have the same dtype. Mismatch in dtype: grad_output[0] has a dtype of "
            f"{given.dtype} and output[0] has a dtype of {dtype}."
        )
    return dtype
