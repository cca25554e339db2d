"""Transforms of forward mode: jvp and linearize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.engine import gradients
from ..autograd.forward import Level, tangent_of
from ..autograd.forward_ad import close_level, open_level
from ..autograd.levels import dual
from ..autograd.saved import without_tangents, zeros
from ..autograd.tape import meta_of
from ..core import pytree
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .reverse import recording, split_aux, vjp


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


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of `func` at `primals` and its derivative in the direction `tangents`."""
    for name, value in (("primals", primals), ("tangents", tangents)):
        check(isinstance(value, tuple), f"jvp(f, {name}, ...): Expected {name} to be a tuple. E.g. it should be valid to call "
              f"f(*primals).")
    leaves, spec = pytree.flatten(primals)
    directions, tangent_spec = pytree.flatten(tangents)
    check(spec == tangent_spec, "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. "
          f"For example, if primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and "
          f"tangents with structure {tangent_spec}")
    for value, what in ((leaves, "primals"), (directions, "tangents")):
        check(len(value) > 0 and all(isinstance(leaf, Tensor) for leaf in value), f"jvp(f, primals, tangents): expected "
              f"{what} to hold at least one tensor and only tensors")
    with forward_level() as level:
        duals = [dual(p, t, level) for p, t in zip(leaves, directions, strict=True)]
        output = func(*spec.unflatten(duals))
        output, aux = split_aux(output, has_aux, "jvp(f, primals, tangents)")
        outputs, out_spec = pytree.flatten(output)
        for value in outputs:
            check(isinstance(value, Tensor), "jvp(f, primals, tangents): expected f(*args) to return only tensors, got "
                  f"unsupported type {type(value)}")
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
    check(not strict, "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not "
          "allowed with strict=True.")
    return zeros(meta_of(value))


def _primal(value: Any, level: Level) -> Any:
    return without_tangents(value, level.number) if isinstance(value, Tensor) and value._tangents else value


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The value of `func` at `primals`, and its derivative there as a function of tangents, which does not run `func` again.

    The function that maps cotangents to cotangents is linear; it is recorded once, and its transpose is the derivative.
    """
    output, vjp_fn = vjp(func, *primals)
    outputs, out_spec = pytree.flatten(output)
    leaves, spec = pytree.flatten(primals)
    with recording():
        probes = [zeros(meta_of(value)).requires_grad_() for value in outputs]
        images = pytree.flatten(vjp_fn(*_as_arguments(out_spec.unflatten(probes))))[0]

    def jvp_fn(*tangents: Any) -> Any:
        directions, tangent_spec = pytree.flatten(tangents)
        check(tangent_spec == spec, f"Expected the tangents {tangents} to have the same structure as the primals {primals}")
        for given, leaf in zip(directions, leaves, strict=True):
            check(given.shape == leaf.shape, f"Expected tangents to have the shapes of the primals: {list(leaf.shape)}, got "
                  f"{list(given.shape)}")
        pairs = [(image, t) for image, t in zip(images, directions, strict=True) if image.requires_grad]
        found = gradients([i for i, _ in pairs], probes, [t for _, t in pairs], create_graph=MODES.grad, retain_graph=True)
        return out_spec.unflatten([zeros(meta_of(p)) if t is None else t for p, t in zip(probes, found, strict=True)])

    return output, jvp_fn


def _as_arguments(tree: Any) -> tuple[Any, ...]:
    return tree if type(tree) is tuple else (tree,)
