"""Transforms of reverse mode: grad, grad_and_value, vjp."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.levels import fresh, gradients_at_level, held, is_isolated, reaches, without_history
from ..autograd.tape import sequence
from ..core import pytree
from ..core.errors import check, fail
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..core.transforms import TransformType

Argnums = int | Sequence[int]


NO_HOOKS = (
    "func transforms don't yet support saved tensor hooks: a transform keeps what it needs for itself. Open the "
    "hooks neither around it nor inside of the function, and please file a feature request if you need them."
)


class Recording:
    """An open transform of reverse mode: inside, operations are recorded, and `outer` is the grad mode outside.

    `function` is what is being transformed, `args` and `kwargs` what it was called with.
    """

    kind = TransformType.Grad

    def __init__(self, function: Any, args: Any, kwargs: Any = None) -> None:
        self.watched: Any = (function, args, kwargs)
        self.inputs: list[Tensor] = []  # what is differentiated by
        self.ended: int | None = None  # when it has: nodes with a higher number were made after it

    def __enter__(self) -> Recording:
        check(not MODES.saved_hooks, NO_HOOKS)
        self.outer = MODES.grad
        self._saved = MODES.silent, MODES.below, MODES.transforming, MODES.transforms, MODES.hooks_disabled
        MODES.grad, MODES.silent, MODES.below, MODES.transforming = True, frozenset(), False, self
        MODES.transforms, MODES.hooks_disabled = [*MODES.transforms, self], NO_HOOKS
        return self

    def __exit__(self, *exception: Any) -> None:
        MODES.grad = self.outer
        MODES.silent, MODES.below, MODES.transforming, MODES.transforms, MODES.hooks_disabled = self._saved
        self.inputs, self.watched, self.ended = [], None, next(sequence)

    def take(self, leaves: Sequence[Any]) -> list[Tensor]:
        """The leaves of the arguments as inputs to differentiate by."""
        self.inputs = [fresh(leaf) for leaf in leaves]
        for tensor in self.inputs:
            tensor._transform = self
        return self.inputs

    def tracks(self, tensor: Tensor) -> bool:
        return reaches(tensor, self.inputs)

    def extends_to(self, target: Tensor, result: Tensor) -> bool:
        """Whether `target` gets a history when `result` is written to it."""
        return result._node is not None and MODES.grad and not target.requires_grad


def check_argnums(argnums: Any, count: int) -> tuple[int, ...]:
    """The argument numbers as given, wrapped and distinct."""
    check(isinstance(argnums, int | tuple), f"argnums must be int or Tuple[int, ...] but got {type(argnums)}")
    given = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    check(len(given) > 0, "argnums must be non-empty")
    for number in given:
        check(isinstance(number, int), f"argnums must be int or Tuple[int, ...] but got {argnums}")
        check(-count <= number < count, f"Got argnum={number}, but only {count} positional inputs")
    wrapped = tuple(number % count for number in given)
    check(len(set(wrapped)) == len(wrapped), f"argnums elements must be unique but got {argnums}")
    return wrapped


def with_arguments(args: tuple[Any, ...], numbers: tuple[int, ...], new: Sequence[Any]) -> tuple[Any, ...]:
    """`args` as the function of an open transform gets them, some of them replaced."""
    replaced = [arg if n in numbers else pytree.tree_map(held, arg) for n, arg in enumerate(args)]
    for number, value in zip(numbers, new, strict=True):
        replaced[number] = value
    return tuple(replaced)


def check_outputs(output: Any, leaves: Sequence[Any], what: str, call: str) -> None:
    """Refuse what a function that is differentiated must not return."""
    if output is None or not leaves:
        fail(f"{what}: Expected f to be a function that has non-empty output (got output = {output})")
    for value in leaves:
        check(
            isinstance(value, Tensor),
            f"{what}: expected {call} to return only tensors, got unsupported type {type(value)}",
        )


def split_aux(output: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return output, None
    check(
        isinstance(output, tuple) and len(output) == 2,
        f"{what}: output of function f should be a tuple: (output, aux) if has_aux is True",
    )
    for leaf in pytree.flatten(output[1])[0]:
        check(isinstance(leaf, Tensor), f"{what}: Expected tensors, got unsupported type {type(leaf)} in aux")
    return output


def grad_and_value(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `func` (which returns a scalar) and its value, or (value, aux).

    >>> rl.func.grad_and_value(lambda x: x ** 3)(rl.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        numbers = check_argnums(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        leaves, spec = pytree.flatten(chosen)
        with Recording(func, args, kwargs) as level:
            inputs = level.take(leaves)
            output = func(
                *with_arguments(args, numbers, spec.unflatten(inputs)), **pytree.tree_map(held, kwargs)
            )
            output, aux = split_aux(output, has_aux, "grad_and_value(f)(*args)")
            _check_scalar(output)
            outputs = [output]
            isolated = not level.outer or is_isolated(outputs, inputs)
            grads = gradients_at_level(
                outputs, inputs, [None], recording=level.outer, retain_graph=not isolated
            )
        tree = spec.unflatten(grads)
        result = tree[0] if isinstance(argnums, int) else tree
        value = without_history(output, isolated)
        if not has_aux:
            return result, value
        return result, (value, pytree.tree_map(lambda leaf: without_history(leaf, isolated), aux))

    return wrapper


def _check_scalar(output: Any) -> None:
    check(
        isinstance(output, Tensor),
        f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got type {type(output)}",
    )
    check(
        output.ndim == 0,
        "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got "
        f"tensor with {output.ndim} dims; vjp and jacrev take others",
    )


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, which returns a scalar; with `has_aux`, (gradient,
    aux).

    >>> rl.func.grad(lambda x: x ** 3)(rl.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `func` at `primals`, and the function that maps cotangents of it, which have the structure of
    the value, to cotangents of the primals; as long as it is given retain_graph=True, again and again.

    >>> value, pull = rl.func.vjp(rl.square, rl.tensor(3.0))
    >>> pull(rl.tensor(1.0))
    (tensor(6.),)
    """
    return vjp_by(func, primals, tuple(range(len(primals))), {}, has_aux)


def vjp_by(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    numbers: tuple[int, ...],
    kwargs: dict[str, Any],
    has_aux: bool,
) -> Any:
    """`vjp` by the arguments that `numbers` names."""
    leaves, spec = pytree.flatten(tuple(args[n] for n in numbers))
    with Recording(func, args, kwargs) as level:
        inputs = level.take(leaves)
        output = func(*with_arguments(args, numbers, spec.unflatten(inputs)), **pytree.tree_map(held, kwargs))
        output, aux = split_aux(output, has_aux, "vjp(f, *primals)")
        outputs, out_spec = pytree.flatten(output)
        check_outputs(output, outputs, "vjp(f, *primals)", "f(*primals)")
        isolated = not level.outer or is_isolated(outputs, inputs)

    def vjp_fn(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        found = _checked_cotangents(cotangents, outputs, out_spec)
        recording = MODES.grad if create_graph is None else create_graph
        grads = gradients_at_level(outputs, inputs, found, recording=recording, retain_graph=retain_graph)
        return spec.unflatten(grads)

    value = out_spec.unflatten([without_history(leaf, isolated) for leaf in outputs])
    if has_aux:
        return value, vjp_fn, pytree.tree_map(lambda leaf: without_history(leaf, isolated), aux)
    return value, vjp_fn


def _checked_cotangents(cotangents: Any, outputs: Sequence[Tensor], out_spec: Any) -> list[Any]:
    """The leaves of what `vjp_fn` was given, one for each output."""
    found, given_spec = pytree.flatten(cotangents)
    check(
        given_spec == out_spec,
        f"Expected pytree structure of cotangents to be that of the function's "
        f"outputs, {out_spec}; got {given_spec}",
    )
    for value, cotangent in zip(outputs, found, strict=True):
        check(
            isinstance(cotangent, Tensor) and cotangent.shape == value.shape,
            "Expected cotangents to "
            f"have the shapes of the outputs: {list(value.shape)}, got "
            f"{list(cotangent.shape) if isinstance(cotangent, Tensor) else type(cotangent)}",
        )
    return found
