"""Derivatives of functions, as functions: vjp, jvp, vhp, hvp, jacobian, hessian.

As in PyTorch, inputs are a tensor or a tuple of tensors, the function returns a tensor or a tuple, and
`strict` refuses results that do not depend on the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..batching.vmap import Vmap
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from .api import grad
from .forward import set_tangent, tangent_of
from .forward_ad import close_level, open_level, refuse_batched
from .grad_mode import enable_grad
from .levels import fresh

Tensors = Any


def _as_tuple(value: Any, name: str, function: str) -> tuple[bool, tuple[Tensor, ...]]:
    several = isinstance(value, tuple)
    values = value if several else (value,)
    for i, tensor in enumerate(values):
        place = f" at index {i}" if several else ""
        check(
            isinstance(tensor, Tensor),
            f"The {name} given to {function} must be either a Tensor or a "
            f"tuple of Tensors but the value{place} has type {type(tensor)}.",
            TypeError,
        )
    return several, values


def _inputs(inputs: tuple[Tensor, ...], *, create_graph: bool) -> tuple[Tensor, ...]:
    """Inputs to differentiate by: connected to their history where the result is to be differentiated again."""
    return tuple(
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_() for t in inputs
    )


def _call(func: Callable[..., Any], inputs: tuple[Tensor, ...], what: str) -> tuple[bool, tuple[Tensor, ...]]:
    return _as_tuple(func(*inputs), "outputs of the user-provided function", what)


_STRICT = " This is not allowed in strict mode."
_INDEPENDENT = {
    "back": "The output of the user-provided function is independent of input {}.",
    "back_trick": "The gradient with respect to the input is independent of entry {} in the grad_outputs "
    "that the forward derivative is taken by.",
    "double_back": "The jacobian of the user-provided function is independent of input {}.",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {} in the "
    "grad_jacobian that it is multiplied by.",
}


def _check_strict(tensors: Sequence[Any], strict: bool, kind: str) -> None:
    """Refuse, where `strict`, what does not depend on the inputs: outputs, or derivatives of this `kind`."""
    for i, tensor in enumerate(tensors) if strict else ():
        if kind == "outputs":
            check(
                tensor.requires_grad,
                f"Output {i} of the user-provided function does not require gradients." + _STRICT,
            )
            continue
        check(tensor is not None, _INDEPENDENT["back"].format(i) + _STRICT)
        of = (
            f"The {kind} of the user-provided function with respect to input {i}"
            if kind != "grad_inputs"
            else f"The gradient with respect to input {i}"
        )
        check(
            tensor.requires_grad, f"{of} is independent of the inputs of the user-provided function.{_STRICT}"
        )


def _grads(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    weights: Sequence[Any],
    *,
    create_graph: bool,
    retain_graph: bool | None = None,
) -> tuple[Any, ...]:
    kept = [(o, w) for o, w in zip(outputs, weights, strict=True) if o is not None and o.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return grad(
        [o for o, _ in kept],
        inputs,
        [w for _, w in kept],
        create_graph=create_graph,
        retain_graph=retain_graph,
        allow_unused=True,
    )


def _filled(
    grads: Sequence[Any], like: Sequence[Tensor], strict: bool, create_graph: bool, stage: str
) -> tuple[Tensor, ...]:
    """Zeros in place of what is missing; `strict` refuses that, and what cannot be differentiated again."""
    found = []
    for i, (one, tensor) in enumerate(zip(grads, like, strict=True)):
        check(one is not None or not strict, _INDEPENDENT[stage].format(i) + _STRICT)
        if one is not None and strict and create_graph:
            what = "hessian" if "double" in stage else "jacobian"
            check(
                one.requires_grad,
                f"The {what} of the user-provided function is independent of input {i}."
                f"{_STRICT[:-1]} with create_graph=True.",
            )
        found.append(run_name("zeros_like", tensor, None, None, None, None, None) if one is None else one)
    return tuple(found)


def _finish(values: Sequence[Tensor], several: bool, create_graph: bool) -> Any:
    results = tuple(values) if create_graph else tuple(v.detach() for v in values)
    return results if several else results[0]


def _vector(v: Any, like: tuple[Tensor, ...], what: str, name: str, several: bool) -> tuple[Tensor, ...]:
    if v is None:
        check(
            len(like) == 1 and like[0].numel() == 1,
            f"The vector v can only be None if the {name} a single Tensor with a single element.",
        )
        return (run_name("ones_like", like[0].detach(), None, None, None, None, None),)
    _, given = _as_tuple(v, "v", what)
    check(several or len(given) == 1, "The given v should contain a single Tensor.")
    check(
        len(given) == len(like),
        f"v is a tuple of invalid length: should be {len(like)} but got {len(given)}.",
    )
    for i, (a, b) in enumerate(zip(given, like, strict=True)):
        check(
            a.shape == b.shape,
            f"{f'Entry {i} in ' if several else ''}v has invalid size: should be "
            f"{b.shape} "
            f"but got {a.shape}.",
        )
    return given


_RETURNS, _INPUT = "user-provided function returns", "input to the user-provided function is"


def vjp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The outputs of `func`, and v times its Jacobian.

    >>> rl.autograd.functional.vjp(lambda x: x * x, rl.tensor([3.0]), rl.tensor([1.0]))[1]
    tensor([6.])
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vjp")
        leaves = _inputs(given, create_graph=create_graph)
        many, outputs = _call(func, leaves, "vjp")
        _check_strict(outputs, strict, "outputs")
        weights = _vector(v, outputs, "vjp", _RETURNS, many)
        found = _filled(
            _grads(outputs, leaves, weights, create_graph=create_graph), leaves, strict, create_graph, "back"
        )
        return _finish(outputs, many, create_graph), _finish(found, several, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The outputs of `func`, and its Jacobian times v, by differentiating a vjp.

    >>> rl.autograd.functional.jvp(lambda x: x * x, rl.tensor([3.0]), rl.tensor([1.0]))[1]
    tensor([6.])
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jvp")
        leaves = _inputs(given, create_graph=create_graph)
        direction = _vector(v, leaves, "jvp", _INPUT, several)
        many, outputs = _call(func, leaves, "jvp")
        _check_strict(outputs, strict, "outputs")
        probes = tuple(
            run_name("zeros_like", o, None, None, None, None, None).requires_grad_() for o in outputs
        )
        first = _grads(outputs, leaves, probes, create_graph=True)
        _check_strict(first, strict, "grad_inputs")
        found = _filled(
            _grads(first, probes, direction, create_graph=create_graph),
            outputs,
            strict,
            create_graph,
            "back_trick",
        )
        return _finish(outputs, many, create_graph), _finish(found, many, create_graph)


def _scalar(func: Callable[..., Any], leaves: tuple[Tensor, ...], what: str, strict: bool) -> Tensor:
    many, outputs = _call(func, leaves, what)
    check(not many, f"The function given to {what} should return a single Tensor")
    check(
        outputs[0].numel() == 1,
        f"The Tensor returned by the function given to {what} should contain a single element",
    )
    _check_strict(outputs, strict, "outputs")
    return outputs[0]


def vhp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The value of the scalar function `func`, and v times its Hessian.

    >>> rl.autograd.functional.vhp(lambda x: (x ** 3).sum(), rl.tensor([3.0]), rl.tensor([1.0]))[1]
    tensor([18.])
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "vhp")
        leaves = _inputs(given, create_graph=create_graph)
        direction = _vector(v, leaves, "vhp", _INPUT, several)
        output = _scalar(func, leaves, "vhp", strict)
        first = _grads([output], leaves, [None], create_graph=True)
        _check_strict(first, strict, "jacobian")
        found = _filled(
            _grads(first, leaves, direction, create_graph=create_graph),
            leaves,
            strict,
            create_graph,
            "double_back",
        )
        return _finish([output], False, create_graph), _finish(found, several, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Tensors,
    v: Tensors = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """The value of the scalar function `func`, and its Hessian times v.

    >>> rl.autograd.functional.hvp(lambda x: (x ** 3).sum(), rl.tensor([3.0]), rl.tensor([1.0]))[1]
    tensor([18.])
    """
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "hvp")
        leaves = _inputs(given, create_graph=create_graph)
        direction = _vector(v, leaves, "hvp", _INPUT, several)
        output = _scalar(func, leaves, "hvp", strict)
        first = _grads([output], leaves, [None], create_graph=True)
        _check_strict(first, strict, "jacobian")
        probes = tuple(
            run_name("zeros_like", t, None, None, None, None, None).requires_grad_() for t in leaves
        )
        second = _grads(first, leaves, probes, create_graph=True)
        _check_strict(second, strict, "hessian")
        found = _filled(
            _grads(second, probes, direction, create_graph=create_graph),
            leaves,
            strict,
            create_graph,
            "double_back_trick",
        )
        return _finish([output], False, create_graph), _finish(found, several, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and input a tensor of shape (*output.shape, *input.shape).

    >>> rl.autograd.functional.jacobian(lambda x: x * x, rl.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    check(
        strategy in ("forward-mode", "reverse-mode"),
        "Expected strategy to be either 'forward-mode' or 'reverse-mode'; the first is quicker for "
        "functions with more outputs than inputs, the second otherwise",
        AssertionError,
    )
    if strategy == "forward-mode":
        check(
            not create_graph,
            "forward-mode strategy with create_graph=True is not supported: use reverse-mode",
            NotImplementedError,
        )
        check(not strict, "strict=True is not supported with strategy='forward-mode'")
        check(
            vectorize,
            "strategy='forward-mode' is only supported with vectorize=True; use func.jacfwd otherwise",
            NotImplementedError,
        )
        return _jacobian_forward(func, inputs)
    check(not (vectorize and strict), "strict=True and vectorize=True are not supported together")
    with enable_grad():
        several, given = _as_tuple(inputs, "inputs", "jacobian")
        leaves = _inputs(given, create_graph=create_graph)
        many, outputs = _call(func, leaves, "jacobian")
        _check_strict(outputs, strict, "outputs")
        rows = [
            _rows_batched(o, leaves, create_graph) if vectorize else _rows(o, i, leaves, create_graph, strict)
            for i, o in enumerate(outputs)
        ]
        blocks = tuple(_finish(row, several, create_graph) for row in rows)
        return blocks if many else blocks[0]


def _rows(
    output: Tensor, number: int, inputs: Sequence[Tensor], create_graph: bool, strict: bool
) -> list[Tensor]:
    """One backward pass for each element of the output."""
    flat = output.reshape(-1)
    columns: list[list[Tensor]] = [[] for _ in inputs]
    for i in range(flat.shape[0]):
        grads = _grads([flat[i]], inputs, [None], create_graph=create_graph, retain_graph=True)
        for k, one in enumerate(grads if strict else ()):
            check(
                one is not None,
                f"Output {number} of the user-provided function is independent of input {k}.{_STRICT}",
            )
        for column, one in zip(columns, _filled(grads, inputs, strict, create_graph, "back"), strict=True):
            column.append(one)
    return [
        _stacked(column, tensor).reshape((*output.shape, *tensor.shape))
        for column, tensor in zip(columns, inputs, strict=True)
    ]


def _stacked(column: list[Tensor], like: Tensor) -> Tensor:
    return run_name("stack", tuple(column), 0) if column else like.new_zeros((0, *like.shape))


def _construct_standard_basis_for(
    tensors: Sequence[Tensor], tensor_numels: Sequence[int]
) -> tuple[Tensor, ...]:
    """For each tensor, its columns of the unit vectors of all of them laid end to end: (total, count)."""
    total = sum(tensor_numels)
    parts = []
    start = 0
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        rows = run_name("eye.m", total, count, tensor.dtype, None, tensor.device, None)
        parts.append(run_name("roll", rows, (start,), (0,)) if start else rows)
        start += count
    return tuple(parts)


def _rows_batched(output: Tensor, inputs: Sequence[Tensor], create_graph: bool) -> list[Tensor]:
    """One backward pass with a batch of unit vectors."""
    count = output.numel()
    basis = run_name("eye", count, output.dtype, None, output.device, None).reshape((count, *output.shape))
    if not output.requires_grad:
        return [tensor.new_zeros((*output.shape, *tensor.shape)) for tensor in inputs]
    grads = grad(
        output,
        inputs,
        basis,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
    )
    shapes = [(*output.shape, *tensor.shape) for tensor in inputs]
    return [
        tensor.new_zeros(shape) if one is None else one.reshape(shape)
        for one, tensor, shape in zip(grads, inputs, shapes, strict=True)
    ]


def _jacobian_forward(func: Callable[..., Any], inputs: Tensors) -> Any:
    several, given = _as_tuple(inputs, "inputs", "jacobian")
    columns = []  # for each input, for each output: (input elements, *output.shape)
    many = False
    outputs: tuple[Tensor, ...] = ()
    for i, tensor in enumerate(given):
        count = tensor.numel()
        refuse_batched(tensor)
        basis = run_name("eye", count, tensor.dtype, None, tensor.device, None)
        basis = basis.reshape((count, *tensor.shape))
        with Vmap(count) as trace:
            level = open_level()
            try:
                dual = run_name("alias", trace.lift(tensor.detach(), None))
                set_tangent(dual, level, trace.lift(basis, 0), own=True)
                many, outputs = _call(func, (*given[:i], dual, *given[i + 1 :]), "jacobian")
                columns.append(
                    [_column(trace, output, tangent_of(output, level), count) for output in outputs]
                )
            finally:
                close_level(level)
    blocks = []
    for j, output in enumerate(outputs):
        moved = [run_name("permute", column[j], (*range(1, column[j].ndim), 0)) for column in columns]
        row = [
            part.reshape((*output.shape, *tensor.shape)) for part, tensor in zip(moved, given, strict=True)
        ]
        blocks.append(_finish(row, several, False))
    return tuple(blocks) if many else blocks[0]


def _column(trace: Vmap, output: Tensor, tangent: Tensor | None, count: int) -> Tensor:
    if tangent is None:
        return run_name("zeros", (count, *output.shape), output.dtype, None, output.device, None)
    value, batched, _ = trace.front(tangent)
    return value if batched else value.expand(count, *value.shape)


def hessian(
    func: Callable[..., Any],
    inputs: Tensors,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of the scalar function `func`.

    >>> rl.autograd.functional.hessian(lambda x: (x ** 3).sum(), rl.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    several, given = _as_tuple(inputs, "inputs", "hessian")
    check(
        outer_jacobian_strategy in ("forward-mode", "reverse-mode"),
        'Expected strategy to be either "forward-mode" or "reverse-mode".',
        AssertionError,
    )

    def checked(*values: Tensor) -> Any:
        output = func(*values)
        many, outputs = _as_tuple(output, "outputs of the user-provided function", "hessian")
        check(not many, "The function given to hessian should return a single Tensor")
        check(
            outputs[0].numel() == 1,
            "The Tensor returned by the function given to hessian should contain a single element",
        )
        _check_strict(outputs, strict, "outputs")
        return outputs[0].squeeze()

    def gradient(*values: Tensor) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            values = tuple(fresh(v) for v in values)
        first = jacobian(checked, values, create_graph=True)
        _check_strict(first, strict, "jacobian")
        return tuple(first)

    found = jacobian(
        gradient,
        given,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return found if several else found[0][0]
