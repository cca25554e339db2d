"""Transforms of forward mode: jvp and linearize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.forward import Level, tangent_of
from ..autograd.forward_ad import close_level, open_level
from ..autograd.levels import dual, gradients_at_level, held, is_isolated, lifted, without_history
from ..autograd.saved import without_tangents, zeros
from ..autograd.tape import meta_of
from ..core import pytree
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..core.transforms import TransformType
from .reverse import Recording, check_outputs, split_aux, with_arguments


class Pushing:
    """An open transform of forward mode; its level is `level`.

    `function` is what is being transformed, `args` and `kwargs` what it was called with.
    """

    kind = TransformType.Jvp

    def __init__(self, function: Any, args: Any, kwargs: Any = None) -> None:
        self.watched = (function, args, kwargs)

    def __enter__(self) -> Level:
        self._saved = MODES.forward_grad, MODES.transforming, MODES.transforms
        MODES.forward_grad, MODES.transforming, MODES.transforms = True, self, [*MODES.transforms, self]
        self.level = open_level()
        return self.level

    def __exit__(self, *exception: Any) -> None:
        close_level(self.level)
        MODES.forward_grad, MODES.transforming, MODES.transforms = self._saved

    def tracks(self, tensor: Tensor) -> bool:
        return tangent_of(tensor, self.level) is not None

    def extends_to(self, target: Tensor, result: Tensor) -> bool:
        """Whether `target` gets a tangent when `result` is written to it."""
        return self.tracks(result) and not self.tracks(target)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of `func` at `primals` and its derivative in the direction `tangents`.

    >>> rl.func.jvp(rl.square, (rl.tensor(3.0),), (rl.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    check(
        isinstance(primals, tuple),
        "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it "
        "should be valid to call f(*primals).",
    )
    return jvp_by(func, primals, tuple(range(len(primals))), {}, tangents, strict=strict, has_aux=has_aux)


def jvp_by(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    numbers: tuple[int, ...],
    kwargs: dict[str, Any],
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`jvp` by the arguments that `numbers` names."""
    leaves, spec = pytree.flatten(tuple(args[n] for n in numbers))
    directions = _checked_tangents(leaves, spec, tangents)
    with Pushing(func, args, kwargs) as level:
        duals = [dual(p, t, level) for p, t in zip(leaves, directions, strict=True)]
        output = func(*with_arguments(args, numbers, spec.unflatten(duals)), **pytree.tree_map(held, kwargs))
        output, aux = split_aux(output, has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = pytree.flatten(output)
        check_outputs(output, outputs, "jvp(f, primals, tangents)", "f(*primals)")
        found = [_tangent(value, level, strict) for value in outputs]
    primal = out_spec.unflatten([_primal(value, level) for value in outputs])
    tangent = out_spec.unflatten(found)
    if has_aux:
        return primal, tangent, pytree.tree_map(lambda leaf: _primal(leaf, level), aux)
    return primal, tangent


def _checked_tangents(leaves: list[Any], spec: Any, tangents: Any) -> list[Any]:
    directions, tangent_spec = pytree.flatten(tangents)
    check(
        spec == tangent_spec,
        "jvp(f, primals, tangents): Expected primals and tangents to have the same "
        f"python structure, got {spec} and {tangent_spec}",
    )
    check(len(leaves) > 0, "jvp(f, primals, tangents): Expected primals to contain at least one Tensor.")
    for value, what in ((leaves, "primals"), (directions, "tangents")):
        check(
            all(isinstance(leaf, Tensor) for leaf in value),
            f"jvp(f, primals, tangents): Expected {what} to only contain Tensors",
        )
    return directions


def _tangent(value: Tensor, level: Level, strict: bool) -> Tensor:
    tangent = tangent_of(value, level)
    if tangent is not None:
        return tangent
    check(
        not strict,
        "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
        "This is not allowed with strict=True.",
    )
    return zeros(meta_of(value))


def _primal(value: Any, level: Level) -> Any:
    return without_tangents(value, level.number) if isinstance(value, Tensor) and value._tangents else value


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `func` at `primals`, and its derivative there as a function of tangents.

    `func` is not run again: the function that maps cotangents to cotangents is linear; it is recorded
    once, and its transpose is the derivative.

    >>> value, tangent = rl.func.linearize(rl.square, rl.tensor(3.0))
    >>> tangent(rl.tensor(1.0))
    tensor(6.)
    """
    leaves, spec = pytree.flatten(primals)
    with Recording(func, primals) as transform:
        inputs = transform.take(leaves)
        outputs, out_spec = pytree.flatten(func(*spec.unflatten(inputs)))
        for value in outputs:
            check(
                isinstance(value, Tensor),
                "linearize(f, *primals): expected f(*primals) to return only "
                f"tensors, got unsupported type {type(value)}",
            )
        isolated = not transform.outer or is_isolated(outputs, inputs)
        probes = [lifted(zeros(meta_of(value)))._set_requires_grad() for value in outputs]
        images = gradients_at_level(outputs, inputs, probes, recording=True, retain_graph=True)

    def jvp_fn(*tangents: Any) -> Any:
        directions, tangent_spec = pytree.flatten(tangents)
        check(
            tangent_spec == spec,
            f"Expected the tangents {tangents} to have the same structure as the primals {primals}",
        )
        for given, leaf in zip(directions, leaves, strict=True):
            check(
                given.shape == leaf.shape,
                "Expected tangents to have the shapes of the primals: "
                f"{list(leaf.shape)}, got {list(given.shape)}",
            )
        found = gradients_at_level(
            images, probes, directions, recording=MODES.grad, retain_graph=True, private=inputs
        )
        return out_spec.unflatten(found)

    return out_spec.unflatten([without_history(value, isolated) for value in outputs]), jvp_fn
