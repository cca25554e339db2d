"""Transforms of forward mode: jvp and linearize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.forward import Level, tangent_of
from ..autograd.forward_ad import close_level, open_level
from ..autograd.levels import dual, fresh, gradients_at_level, is_isolated, lifted, without_history
from ..autograd.saved import without_tangents, zeros
from ..autograd.tape import meta_of
from ..core import pytree
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .reverse import check_outputs, recording, split_aux


class forward_level:
    """A level of forward mode, open inside."""

    def __enter__(self) -> Level:
        self._saved = MODES.forward_grad
        MODES.forward_grad = True
        self._level = open_level()
        return self._level

    def __exit__(self, *exception: Any) -> None:
        close_level(self._level)
        MODES.forward_grad = self._saved


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False
) -> Any:
    """The value of `func` at `primals` and its derivative in the direction `tangents`."""
    check(
        isinstance(primals, tuple),
        "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it "
        "should be valid to call f(*primals).",
    )
    leaves, spec = pytree.flatten(primals)
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
    with forward_level() as level:
        duals = [dual(p, t, level) for p, t in zip(leaves, directions, strict=True)]
        output = func(*spec.unflatten(duals))
        output, aux = split_aux(output, has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = pytree.flatten(output)
        check_outputs(output, outputs, "jvp(f, primals, tangents)", "f(*primals)")
        found = [_tangent(value, level, strict) for value in outputs]
    primal = out_spec.unflatten([_primal(value, level) for value in outputs])
    tangent = out_spec.unflatten(found)
    if has_aux:
        return primal, tangent, pytree.tree_map(lambda leaf: _primal(leaf, level), aux)
    return primal, tangent


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
    """
    leaves, spec = pytree.flatten(primals)
    with recording(func) as outside:
        inputs = [fresh(leaf, outside) for leaf in leaves]
        outputs, out_spec = pytree.flatten(func(*spec.unflatten(inputs)))
        for value in outputs:
            check(
                isinstance(value, Tensor),
                "linearize(f, *primals): expected f(*primals) to return only "
                f"tensors, got unsupported type {type(value)}",
            )
        isolated = not outside or is_isolated(outputs, inputs)
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
