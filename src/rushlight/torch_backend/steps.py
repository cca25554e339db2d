"""A graph of PyTorch's as steps that run one after the other: native parts, and operators that PyTorch runs.

A node is native if we have code for its operator and its tensors (`is_native`). Numbers that follow from sizes
are no steps: parts and calls work them out (sizes.py). Nodes have levels, so that there are as few parts as can
be: a level is one native part, then the calls of PyTorch that need it. Random operators keep their order, so that
they draw what they would draw in eager mode; nothing moves past an operator that writes.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, Node

from ..core.registry import REGISTRY, Kind, OpDef
from .libraries import library_operator
from .sizes import SYMBOLIC
from .types import is_known

_COPY = torch.ops.aten.copy_.default
_NUMBERS = (int, float, bool, *SYMBOLIC)
# read of a tensor's layout
_LAYOUT = ("sym_size", "sym_stride", "sym_numel", "sym_storage_offset")
# what looks at memory outside of the tensor that it is given
_STORAGE = ("as_strided", "as_strided_copy")
_RENAMED = {"convert_element_type": "_to_copy", "lift_fresh_copy": "clone", "lift": "clone"}


@dataclass
class PartStep:
    """Nodes that become one program."""

    nodes: list[Node]
    inputs: list[Node] = field(default_factory=list)  # tensors from before
    outputs: list[Node] = field(default_factory=list)  # tensors that others need
    # inputs that get new contents, as the last thing that happens, and the nodes that compute these
    writes: list[tuple[Node, Node]] = field(default_factory=list)
    dead: list[Node] = field(default_factory=list)  # what nobody needs afterwards


@dataclass
class CallStep:
    """A node that PyTorch runs."""

    node: Node
    dead: list[Node] = field(default_factory=list)


Step = PartStep | CallStep


def our_name(target: Any) -> str:
    """The name that we have for an overload of PyTorch's."""
    _, _, rest = str(target).partition(".")
    base, _, overload = rest.rpartition(".")
    base = _RENAMED.get(base, base)
    return base if overload == "default" else f"{base}.{overload}"


def our_operator(target: Any) -> OpDef | None:
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return None
    if target.namespace == "prims" and target._schema.name != "prims::convert_element_type":
        return None
    return REGISTRY.ops.get(our_name(target))


def is_number(node: Node) -> bool:
    """Whether a node is a number that follows from sizes."""
    target = node.target
    if not isinstance(node.meta.get("val"), _NUMBERS) or node.op != "call_function":
        return False
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace == "aten" and target._schema.name.removeprefix("aten::") in _LAYOUT
    return target is not operator.getitem and not isinstance(target, torch._ops.HigherOrderOperator)


def is_native(node: Node) -> bool:
    """Whether there is native code for a node, as far as its operator and tensors tell."""
    if node.target is operator.getitem:
        return is_native(node.args[0])
    op = our_operator(node.target)
    known = library_operator(node.target) is not None or (op is not None and _has_code(op))
    if not known or node.target._schema.is_mutable or "val" not in node.meta:
        return False
    if node.meta.get("unbacked_bindings"):  # data decides how large its result is
        return False
    if our_name(node.target) in _STORAGE or not _is_tensors(node.meta["val"]):
        return False
    return all(is_known(n.meta.get("val")) for n in (node, *node.all_input_nodes))


def _is_tensors(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(v is None or isinstance(v, torch.Tensor) for v in value)
    return isinstance(value, torch.Tensor)


def _has_code(op: OpDef) -> bool:
    if op.random or op.data_dependent or op.kind in (Kind.SPARSE, Kind.QUANTIZED):
        return False
    if op.kind is Kind.COMPOSITE:
        return op.rule is None
    return op.kind is not Kind.STRUCTURAL or callable(op.lowering) or op.decomposition is not None


def _is_random(node: Node) -> bool:
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return torch.Tag.nondeterministic_seeded in target.tags
    return target is not operator.getitem  # a higher-order operator may hold one


def _writes(node: Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _last_writes(graph: Graph) -> dict[Node, Node]:
    """The copies into inputs that end a graph, and what they copy: nothing reads these inputs afterwards."""
    found: dict[Node, Node] = {}
    for node in reversed(graph.nodes):
        if node.op == "output":
            continue
        if node.target is not _COPY or node.args[0].op != "placeholder":
            break
        found[node] = node.args[1]
    return found


def split(graph: Graph) -> list[Step]:
    """The steps of a graph, in order."""
    last = _last_writes(graph)
    levels = _levels(graph, last)
    parts: dict[int, list[Node]] = {}
    calls: dict[int, list[Node]] = {}
    for node, level in levels.items():
        (parts if is_native(node) else calls).setdefault(level, []).append(node)
    steps: list[Step] = []
    for level in sorted({*parts, *calls}):
        if level in parts:
            steps.append(PartStep(parts[level]))
        steps.extend(map(CallStep, calls.get(level, [])))
    final = steps[-1] if steps else None
    for copy, source in reversed(last.items()):
        if isinstance(final, PartStep) and source in set(final.nodes) and _is_same_kind(copy):
            final.writes.append((copy.args[0], source))
        else:
            steps.append(CallStep(copy))
    _connect(graph, steps)
    return steps


def _is_same_kind(copy: Node) -> bool:
    """Whether a copy changes nothing but contents."""
    target, source = (n.meta["val"] for n in copy.args[:2])
    return is_known(target) and target.dtype is source.dtype and tuple(target.shape) == tuple(source.shape)


def _levels(graph: Graph, last: Iterable[Node]) -> dict[Node, int]:
    levels: dict[Node, int] = {}
    native: dict[Node, bool] = {}
    drawn = floor = 0  # what random operators, and all others, do not move before
    skipped = set(last)
    for node in graph.nodes:
        if node.op != "call_function" or node in skipped or is_number(node):
            continue
        before = _tensors_before(node)
        native[node] = is_native(node)
        if native[node]:
            levels[node] = max([floor, *(levels[n] + (not native[n]) for n in before if n in levels)])
            continue
        level = max([floor, *(levels[n] for n in before if n in levels)])
        if node.target is not operator.getitem and _is_random(node):
            level = drawn = max(level, drawn)
        if _writes(node):
            level = max([level, *levels.values()])
            floor = level + 1
        levels[node] = level
    return levels


def _tensors_before(node: Node) -> list[Node]:
    """The nodes that must have run: those of its arguments, and those of numbers among these that are read of
    data."""
    found: list[Node] = []
    stack = list(node.all_input_nodes)
    while stack:
        given = stack.pop()
        if is_number(given):
            stack.extend(given.all_input_nodes)
        else:
            found.append(given)
    return found


def _connect(graph: Graph, steps: list[Step]) -> None:
    """Say what parts take and give, and after which step a value is dead."""
    result = next(node for node in graph.nodes if node.op == "output")
    for step in steps:
        if isinstance(step, PartStep):
            _connect_part(step)
    seen: set[Node] = set(result.all_input_nodes)
    for step in reversed(steps):
        used = step.inputs if isinstance(step, PartStep) else step.node.all_input_nodes
        made = step.outputs if isinstance(step, PartStep) else [step.node]
        step.dead = [n for n in dict.fromkeys((*used, *made)) if n not in seen]
        seen.update(used)


def _connect_part(step: PartStep) -> None:
    inside = set(step.nodes)
    taken: dict[Node, None] = {}
    for node in step.nodes:
        for given in node.all_input_nodes:
            if given not in inside and not is_number(given) and not _is_number_input(given):
                taken[given] = None
        if isinstance(node.meta["val"], torch.Tensor) and any(
            user not in inside and not is_number(user) and (node, user) not in _copies(step)
            for user in node.users
        ):
            step.outputs.append(node)
    for target, _ in step.writes:
        taken[target] = None
    step.inputs = list(taken)


def _copies(step: PartStep) -> set[tuple[Node, Node]]:
    """The uses of its nodes by copies that are its own writes."""
    return {
        (source, user)
        for target, source in step.writes
        for user in source.users
        if user.target is _COPY and user.args[0] is target
    }


def _is_number_input(node: Node) -> bool:
    return isinstance(node.meta.get("val"), _NUMBERS)
