"""Forward mode for users: dual tensors inside a dual level."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.modes import MODES
from ..core.nested_base import NestedBase
from ..core.tensor import Tensor
from .forward import Level, set_tangent, tangent_of
from .grad_mode import Mode

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])
UnpackedDualTensor.__doc__ = """What `unpack_dual` gives: a tensor, and its tangent if it has one.

>>> with rl.autograd.forward_ad.dual_level():
...     rl.autograd.forward_ad.unpack_dual(rl.ones(1)).tangent is None
True
"""


def open_level() -> Level:
    level = Level()
    MODES.dual_levels += 1
    return level


def close_level(level: Level) -> None:
    level.active = False
    MODES.dual_levels -= 1


def enter_dual_level() -> int:
    """Open a dual level; returns its number.

    >>> rl.autograd.forward_ad.enter_dual_level(); rl.autograd.forward_ad.exit_dual_level()
    0
    """
    level = open_level()
    MODES.dual_stack.append(level)
    return len(MODES.dual_stack) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the innermost dual level: its tangents are gone.

    >>> rl.autograd.forward_ad.enter_dual_level(); rl.autograd.forward_ad.exit_dual_level()
    0
    """
    stack = MODES.dual_stack
    check(bool(stack), "exit_dual_level: there is no open dual level")
    check(
        level is None or level == len(stack) - 1,
        "Trying to exit a forward AD level that was not the last "
        "one that was created. This is not supported.",
    )
    close_level(stack.pop())


class dual_level(Mode):
    """Inside, tensors made by `make_dual` carry their tangents through every operation.

    >>> import rushlight.autograd.forward_ad as fwd
    >>> with fwd.dual_level():
    ...     fwd.unpack_dual(fwd.make_dual(rl.tensor(3.0), rl.tensor(1.0)) ** 2).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: Any) -> None:
        exit_dual_level()


def _level(number: int | None) -> Level | None:
    stack = MODES.dual_stack
    if number is None:
        return stack[-1] if stack else None
    return stack[number] if 0 <= number < len(stack) else None


def _is_fwd_grad_enabled() -> bool:
    return MODES.forward_grad


class _set_fwd_grad_enabled(Mode):
    """Switch the propagation of tangents on or off: for good when called, inside when used with `with`."""

    def __init__(self, mode: bool) -> None:
        self._saved = MODES.forward_grad
        self.mode = mode
        MODES.forward_grad = mode

    def __enter__(self) -> None:
        MODES.forward_grad = self.mode

    def __exit__(self, *exception: Any) -> None:
        MODES.forward_grad = self._saved

    def clone(self) -> _set_fwd_grad_enabled:
        return _set_fwd_grad_enabled(self.mode)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` that has `tangent`.

    >>> import rushlight.autograd.forward_ad as fwd
    >>> with fwd.dual_level():
    ...     fwd.unpack_dual(fwd.make_dual(rl.tensor(0.0), rl.tensor(2.0)).sin()).tangent
    tensor(2.)
    """
    found = _level(level)
    check(
        found is not None,
        "Trying to create a dual Tensor for forward AD but no level exists, make sure "
        "to enter_dual_level() first.",
    )
    assert found is not None
    check(
        tensor.dtype.is_differentiable,
        f"Expected primal to be floating point or complex, but got: {tensor.dtype}",
        ValueError,
    )
    check(
        tangent.dtype.is_differentiable,
        f"Expected tangent to be floating point or complex, but got: {tangent.dtype}",
        ValueError,
    )
    if isinstance(tensor, NestedBase):
        return tensor.like(make_dual(tensor.values(), tensor.values_of(tangent, "make_dual"), level=level))
    check(
        tensor.shape == tangent.shape,
        "Trying to set a forward gradient that has a different size than "
        f"that of the original Tensor: {list(tangent.shape)} and {list(tensor.shape)}; this is not "
        "supported.",
    )
    check(
        tangent_of(tangent, found) is None,
        "Trying to set a forward gradient that has a forward "
        "gradient at the same level itself; this is not supported. Unpack it first.",
    )
    refuse_batched(tensor)
    dual = run_name("alias", tensor)
    set_tangent(dual, found, _laid_out_as(tangent, tensor), own=True)
    return dual


def refuse_batched(tensor: Tensor) -> None:
    """Refuse to make a dual tensor of what a vmap has batched, as PyTorch does."""
    check(
        tensor._trace not in MODES.transforms,
        "Batching rule not implemented for aten::_make_dual: inside of vmap, take derivatives of forward mode "
        "with func.jvp or func.jacfwd",
    )


def _laid_out_as(tangent: Tensor, primal: Tensor) -> Tensor:
    """`tangent` at the same places of a storage of the same size, so that views of any geometry fit both."""
    if primal._trace is not None or tangent._trace is not None or primal.is_meta:
        return tangent
    if primal._parts is not None or tangent._parts is not None or not primal.numel():
        return tangent
    if tangent._conj != primal._conj:
        tangent = tangent.resolve_conj() if tangent._conj else tangent.conj().resolve_conj().conj()
    if tangent._neg != primal._neg:
        tangent = tangent.resolve_neg() if tangent._neg else run_name("_neg_view", run_name("neg", tangent))
    size = primal.storage_object.nbytes() // primal.dtype.itemsize
    own = tangent.storage_object.nbytes() // tangent.dtype.itemsize
    if (tangent.strides(), tangent.storage_offset(), own) == (
        primal.strides(),
        primal.storage_offset(),
        size,
    ):
        return tangent
    place = run_name("zeros", (size,), tangent.dtype, None, None, None)
    laid = run_name("as_strided", place, tuple(primal.shape), primal.strides(), primal.storage_offset())
    return laid.copy_(tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> Any:
    """The primal and the tangent (None if there is none) of a dual tensor.

    >>> import rushlight.autograd.forward_ad as fwd
    >>> with fwd.dual_level():
    ...     fwd.unpack_dual(fwd.make_dual(rl.tensor(0.0), rl.tensor(2.0))).primal
    tensor(0.)
    """
    found = _level(level)
    if found is None:
        return UnpackedDualTensor(tensor, None)
    if isinstance(tensor, NestedBase):
        parts = unpack_dual(tensor.values(), level=level)
        return UnpackedDualTensor(*[None if part is None else tensor.like(part) for part in parts])
    tangent = tangent_of(tensor, found)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    saved, MODES.limit = MODES.limit, found.number
    try:
        primal = run_name("alias", tensor)
    finally:
        MODES.limit = saved
    return UnpackedDualTensor(primal, tangent)


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # the number of the innermost open level, -1 outside of all
        return len(MODES.dual_stack) - 1
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
