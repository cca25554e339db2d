"""Where the gradient of a tensor goes.

A view does not own its history: when its base is given a new one (by a write through any alias), the node of
the view is made again, by recording once more the view operator that made it. If the base, or a view between
the two, has got another geometry in place since (`unsqueeze_`), that operator would make something else of it:
the view is recorded as the part of the memory that it is.
"""

from __future__ import annotations

from typing import Any

from ..core.registry import REGISTRY
from ..core.tensor import LAZY, Tensor
from ..derivatives.declare import missing
from .saved import capture_values, node_class
from .tape import Edge, Node, accumulator, meta_of


def edge_of(tensor: Tensor) -> Edge | None:
    """The node that made `tensor` and the number of its output, or a leaf's accumulator; None if nothing is
    recorded."""
    node: Node | None = tensor._node if tensor._base is None else current_node(tensor)
    if node is not None:
        return (node, tensor._output_nr)
    if tensor._requires_grad or tensor.requires_grad:
        return (accumulator(tensor), 0)
    return None


def view_of(tensor: Tensor) -> tuple[Any, Any]:
    """The operator, and its arguments, that makes a view of its base, or of another view, as that is now."""
    source = tensor._view_of[1][0]
    while not source._reshaped and source._view_of is not None:
        source = source._view_of[1][0]
    base = tensor._base
    if not source._reshaped or base is None or base.dtype is not tensor.dtype or tensor._keys & LAZY:
        found: tuple[Any, Any] = tensor._view_of
        return found
    return REGISTRY["as_strided"], (base, tuple(tensor.shape), tensor.strides(), tensor.storage_offset())


def current_node(tensor: Tensor) -> Any:
    """The node of `tensor`, made anew where its base has got another history since."""
    base = tensor._base
    if base is None:
        return tensor._node
    if base._node is tensor._seen:
        written = tensor._creation is not None and tensor._seen_version != tensor.version_counter.value
        if not written or not (tensor._node is not None or base.requires_grad):
            return tensor._node
    check_creation(tensor, written=False)
    op, args = view_of(tensor)
    entry = op.derivative or missing(op)
    plan = entry.plan(1)
    edges = tuple([edge_of(args[0]) if i == 0 else None for i in entry.targets])
    node = node_class(entry)(entry, plan, edges, (meta_of(tensor),), None)
    former = tensor._node
    if former is not None and former._hooks is not None:
        keep = former._hooks.retain.pop(tensor._output_nr, None)  # retain_grad() follows the tensor
        if keep is not None:
            node._hook_set().retain[0] = keep
    node.saved = capture_values(plan, args, (tensor,))
    tensor._node, tensor._output_nr, tensor._seen = node, 0, base._node
    return node


_CUSTOM = (
    "This view was created inside a custom Function, or is an input that it returned as it is: "
    "giving it the history of a write would replace the Function's own backward. Clone the output "
    "of the Function before writing to it."
)
_MULTI = (
    "This view is the output of a function that returns multiple views, and none of those may be "
    "written to. Use an operator that is not in-place instead."
)
_UNCLEAR = (
    "Whether the write should be recorded cannot be told: make the view and write to it either "
    "both inside the {} block, so that it is not, or both outside, so that it is."
)


def check_creation(tensor: Tensor, *, written: bool) -> None:
    """Refuse to give a view the history of a write where the way it was made forbids it."""
    creation = tensor._creation
    if creation is None:
        return
    change = "is being" if written else "its base or another view of its base has been"
    node = tensor._node
    output = "" if node is None else f"Output {tensor._output_nr} of {node._operator()} is a view"
    if creation in ("inference", "no_grad"):
        made = f"{output} of a view which was" if output else "A view was"
        inference = creation == "inference"
        mode = "in normal mode. " if inference else "with grad mode enabled. "
        mode += _UNCLEAR.format("inference_mode" if inference else "no_grad")
        raise RuntimeError(f"{made} created in {creation} mode and {change} modified inplace {mode}")
    reason = _CUSTOM if creation == "custom" else _MULTI
    made = f"{output} and" if output else "A view"
    raise RuntimeError(f"{made} {change} modified inplace. {reason}")
