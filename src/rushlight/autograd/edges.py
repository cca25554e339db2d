"""Where the gradient of a tensor goes.

A view does not own its history: when its base is given a new one (by a write through any alias), the node of
the view is made again, by recording once more the view operator that made it.
"""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..derivatives.declare import missing
from .saved import OpNode, capture_values
from .tape import Edge, Node, accumulator, meta_of


def edge_of(tensor: Tensor) -> Edge | None:
    """The node that made `tensor` and the number of its output, or a leaf's accumulator; None if nothing is
    recorded."""
    node: Node | None = tensor._node if tensor._base is None else current_node(tensor)
    if node is not None:
        return (node, tensor._output_nr)
    if tensor.requires_grad:
        return (accumulator(tensor), 0)
    return None


def current_node(tensor: Tensor) -> Any:
    """The node of `tensor`, made anew where its base has got another history since."""
    base = tensor._base
    if base is None or base._node is tensor._seen:
        return tensor._node
    check_creation(tensor, written=False)
    op, args = tensor._view_of
    entry = op.derivative or missing(op)
    plan = entry.plan(1)
    edges = tuple([edge_of(args[0]) if i == 0 else None for i in entry.targets])
    node = OpNode(entry, plan, edges, (meta_of(tensor),), None)
    node.saved = capture_values(plan, args, (tensor,))
    tensor._node, tensor._output_nr, tensor._seen = node, 0, base._node
    return node


_CUSTOM = ("This view was created inside a custom Function (or because an input was returned as-is) and the "
           "autograd logic to handle view+inplace would override the custom backward associated with the "
           "custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by "
           "cloning the output of the custom Function.")
_MULTI = ("This view is the output of a function that returns multiple views. Such functions do not allow "
          "the output views to be modified inplace. You should replace the inplace operation by an "
          "out-of-place one.")
_NO_GRAD = ("Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
            "code by moving both the view and the inplace either both inside the no_grad block (if you don't "
            "want the inplace to be tracked) or both outside (if you want the inplace to be tracked).")


def check_creation(tensor: Tensor, *, written: bool) -> None:
    """Refuse to give a view the history of a write where the way it was made forbids it."""
    creation = tensor._creation
    if creation is None:
        return
    change = "is being" if written else "its base or another view of its base has been"
    if creation == "inference":
        raise RuntimeError("A view was created in inference mode and its base or another view of its base "
                           "has been modified inplace in normal mode." if not written
                           else "A view was created in inference mode and is being "
                           "created in inference mode and is being mode and is being modified inplace in "
                           "normal mode.")
    if creation == "no_grad":
        raise RuntimeError(f"A view was created in no_grad mode and {change} modified inplace with grad mode "
                           "enabled. "
                           + _NO_GRAD)
    node = tensor._node
    made = "A view" if node is None else f"Output {tensor._output_nr} of {node.operator()} is a view and"
    raise RuntimeError(f"{made} {change} modified inplace. {_CUSTOM if creation == 'custom' else _MULTI}")
