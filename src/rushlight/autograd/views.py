"""Writing in place, as autograd sees it.

A write is a functional operator whose result is then copied into the target. The target takes the history of
the result; if it is a view, its base gets a `CopySlices` node, which sends the gradient of the written part
to the result and the rest to the base's former history, and every view of that base finds its history again
through the base (see edges.py).
"""

from __future__ import annotations

from typing import Any

from ..core.dispatch import call, run_name
from ..core.modes import MODES
from ..core.mutation import install_autograd
from ..core.tensor import AUTOGRAD, Tensor
from . import forward
from .captured import is_captured
from .edges import check_creation, edge_of, view_of
from .saved import OpNode, save_copy
from .tape import Edge, Node, meta_of


def check_writable(target: Tensor, name: str) -> None:
    """Refuse writes that autograd cannot record, before anything is computed."""
    if target._inference:
        if not MODES.inference:
            raise RuntimeError(
                "Inplace update to inference tensor outside InferenceMode is not allowed; "
                "clone it to get a tensor that can be written to."
            )
        return
    if not MODES.grad or MODES.below or not target.requires_grad:
        return
    base = target._base
    if base is not None:
        check_creation(target, written=True)
        if base._node is None:
            raise RuntimeError(
                "a view of a leaf Variable that requires grad is being used in an in-place operation."
            )
    elif target._node is None:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def prepare_write(target: Tensor, result: Tensor) -> None:
    """Refuse views that cannot take the history of `result`; keep the values that its node saved of the
    target."""
    if MODES.below:
        return
    transform = MODES.transforming
    if (
        transform is not None
        and transform.extends_to(target, result)
        and is_captured(target, transform.watched)
    ):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted "
            "to write something that depends on its inputs in place, which would mutate a "
            "captured Tensor. Make the tensor an argument of the function, or return the new value."
        )
    node = result._node
    if node is None or not MODES.grad:
        return
    if target._base is not None:
        check_creation(target, written=True)
    if isinstance(node, OpNode):
        node.saved = [
            save_copy(item) if type(item) is tuple and len(item) == 3 and item[0] is target else item
            for item in node.saved
        ]


class ZeroBackward(Node):
    """The history of a tensor that was overwritten by something that does not depend on it: what it was made
    from gets zeros."""

    __slots__ = ()

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        return [
            None if grad is None else run_name("zeros_like", grad, None, None, None, None, None)
            for grad in grads[: len(self._next)]
        ]


def rebase_history(target: Tensor, result: Tensor) -> None:
    """Give `target`, just written with `result`, the history of `result`."""
    if MODES.below:
        return
    if MODES.dual_levels:
        forward.write_tangents(target, result)
    if not MODES.grad:
        return
    if not result.requires_grad:
        if not target.requires_grad:
            return
        former = edge_of(target) if target._base is None else None
        edge: Edge = (ZeroBackward(() if former is None else (former,), (meta_of(target),)), 0)
    else:
        found = edge_of(result)
        assert found is not None
        edge = found
    base = target._base
    if base is not None:
        slices = CopySlices(target, base, edge)
        base._node, base._output_nr = slices, 0
        base._keys |= AUTOGRAD
        base._requires_grad = False
        return
    moved = _take_retain(target)
    target._node, target._output_nr = edge
    target._requires_grad = False
    target._keys |= AUTOGRAD
    if moved is not None:
        edge[0]._hook_set().retain[edge[1]] = moved


def _take_retain(target: Tensor) -> Any:
    """The hook of retain_grad(), which follows the tensor to its new history."""
    node = target._node
    if node is None or node._hooks is None:
        return None
    return node._hooks.retain.pop(target._output_nr, None)


class CopySlices(Node):
    """A write through a view: edges to the former history of the base and to what was written."""

    __slots__ = ("chain", "geometry")

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, view: Tensor, base: Tensor, edge: Edge) -> None:
        super().__init__((edge_of(base), edge), (meta_of(base),))
        self.geometry = (tuple(base.shape), base.strides())
        self.chain = _chain(view)

    def apply(self, grads: list[Any], wanted: Any) -> Any:
        shape, strides = self.geometry
        grad = grads[0]
        whole = run_name("new_empty_strided", grad, shape, strides, None, None, None, None)
        whole.copy_(grad)
        part = whole
        for op, rest in self.chain:
            part = call(op, (part, *rest))
        written = part.clone()
        if self._next[0] is None or not (wanted is None or wanted[0]):
            return (None, written)
        part.zero_()
        return (whole, written)

    def _owns_results(self) -> bool:
        return True


def _chain(view: Tensor) -> list[tuple[Any, Any]]:
    """The view operators that lead from the base of `view` to it; outputs of several views are never written
    through."""
    steps: list[tuple[Any, Any]] = []
    while view._base is not None:
        op, args = view_of(view)
        if op.name == "as_strided" and op is not view._view_of[0]:  # the base is at the beginning of memory
            offset = args[3] - args[0].storage_offset()
            return [(op, (args[1], args[2], offset)), *steps[::-1]]
        steps.append((op, args[1:]))  # without the tensor, whose history leads here: it would never die
        view = args[0]
    return steps[::-1]


install_autograd(check_writable, prepare_write, rebase_history)
