"""Where collectives stand in a program: begun as soon as their input is there, waited for where they are read.

What is computed between the two calls is computed while messages travel. Besides:

- What is gathered of the program's inputs, parameters of which each process has a piece, is begun where what was
  gathered before is first read: one is used while the other is on its way.
- A reduction of what another one gives is begun where the next one of that other group is, so that the first is
  not waited for at once.
- When the last one has been begun, what needs the results of earlier ones is computed first, but for new contents
  of inputs: no step may fail after they are written (schedule/update_in_place.py), so that all calls are waited
  for before.

Calls that begin a collective stay in their order in each group of processes, which all of them have to agree on.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.registry import Kind
from ..core.traits import Trait
from .ir import Graph, Node, Value

_Key = tuple[int, float, int]  # before which node of the old order, how near to it, and the node's own place

_PREPARES = ("cat", "_to_copy", "clone")  # what may be done to inputs that are gathered, besides views
_REDUCTIONS = ("all_reduce", "reduce_scatter_tensor")


def spread_collectives(graph: Graph) -> None:
    if any(node.op.traits & Trait.COLLECTIVE for node in graph.nodes):
        _gather_ahead(graph)
        _begin_chained_late(graph)
        _spread(graph)
        _read_in_order(graph)


def _spread(graph: Graph) -> None:
    keys: dict[int, _Key] = {}
    made: dict[Value, int] = {value: i for i, node in enumerate(graph.nodes) for value in node.outputs}
    latest: dict[str, _Key] = {}  # of each group
    for i, node in enumerate(graph.nodes):
        keys[i] = (i, 0.0, i)
        if _begins(node):
            ready = max((made.get(value, -1) for value in node.inputs()), default=-1)
            group = _group_of(node)
            before = latest.get(group, (-1, 1.0, -1))
            keys[i] = latest[group] = max((ready, 1.0, i), (before[0], before[1], i))
    users = _users(graph)
    number = {node: i for i, node in enumerate(graph.nodes)}
    late = _results_seen(graph)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        if node in late:
            readers = [keys[number[user]] for value in node.outputs for user in users.get(value, ())]
            first = min(readers, default=(len(graph.nodes), 0.0, i))
            keys[i] = (first[0], first[1] - 0.5, i)
    graph.nodes = [graph.nodes[i] for i in sorted(keys, key=keys.__getitem__)]


def _waits(node: Node) -> bool:
    return bool(node.op.traits & Trait.COLLECTIVE) and node.op.schema.name == "wait_tensor"


def _begins(node: Node) -> bool:
    return bool(node.op.traits & Trait.COLLECTIVE) and node.op.schema.name != "wait_tensor"


def _group_of(node: Node) -> str:
    return str(node.args[node.op.schema.argument_names.index("group_name")])


def _users(graph: Graph) -> dict[Value, list[Node]]:
    users: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.inputs():
            users.setdefault(value, []).append(node)
    return users


def _results_seen(graph: Graph) -> set[Node]:
    """Calls that wait, and views and copies of what they give, which are needed no sooner than who reads them."""
    found: set[Node] = set()
    for node in graph.nodes:
        inputs = node.inputs()
        copies = node.op.kind is Kind.VIEW or node.op.schema.name in ("clone", "_to_copy")
        if _waits(node) or (copies and len(inputs) == 1 and inputs[0].node in found):
            found.add(node)
    return found


def _moved(graph: Graph, moves: Sequence[tuple[Sequence[Node], Node | None]]) -> None:
    """Put nodes before others, or at the beginning."""
    gone = {node for nodes, _ in moves for node in nodes}
    before: dict[Node | None, list[Node]] = {}
    for nodes, anchor in moves:
        before.setdefault(anchor, []).extend(nodes)
    order = list(before.get(None, ()))
    for node in graph.nodes:
        if node not in gone:
            order += [*before.get(node, ()), node]
    graph.nodes = order


def _read_in_order(graph: Graph) -> None:
    """Sort what stands behind the last call that begins by the latest of those calls whose result it needs. What
    leads to new contents of inputs comes last."""
    begun = [node for node in graph.nodes if _begins(node)]
    if not begun:
        return
    behind = graph.nodes.index(begun[-1]) + 1
    number = {node: i for i, node in enumerate(begun)}
    latest: dict[Node, int] = {}
    for node in graph.nodes[behind:]:
        needed = (value.node for value in node.inputs() if value.node is not None)
        known = number if _waits(node) else latest
        latest[node] = max((known.get(made, -1) for made in needed), default=-1)
    last = _before_updates(graph, [node for node in latest if latest[node] >= 0])
    graph.nodes[behind:] = sorted(latest, key=lambda node: len(begun) if node in last else latest[node])


def _before_updates(graph: Graph, nodes: Sequence[Node]) -> set[Node]:
    """Of `nodes`, which are in order: those between a call that waits and new contents of an input, and what
    needs them."""
    leads = {graph.outputs[output].node for output in graph.updates}
    for node in reversed(nodes):
        if node in leads and not _waits(node):
            leads.update(value.node for value in node.inputs())
    found: set[Node] = set()
    for node in nodes:
        if (node in leads and not _waits(node)) or any(value.node in found for value in node.inputs()):
            found.add(node)
    return found


# Gathering ahead.


def _gather_ahead(graph: Graph) -> None:
    users = _users(graph)
    last: dict[str, Node] = {}  # of each group, the call that was begun before
    moves: list[tuple[list[Node], Node | None]] = []
    taken: dict[Node, str] = {}  # what is moved, and for which group
    for node in graph.nodes:
        if not _begins(node):
            continue
        group = _group_of(node)
        former, last[group] = last.get(group), node
        feeders = _feeders(graph, node) if node.op.schema.name == "all_gather_into_tensor" else None
        if feeders is None or any(taken.get(each, group) != group for each in feeders):
            continue
        anchor = None if former is None else _first_reader(former, users)
        if former is not None and (anchor is None or anchor in taken):
            continue
        moves.append(([*(each for each in feeders if each not in taken), node], anchor))
        taken.update(dict.fromkeys(moves[-1][0], group))
    _moved(graph, moves)


def _feeders(graph: Graph, node: Node) -> list[Node] | None:
    """The nodes that prepare inputs of the program for a collective, in order; None if something is computed."""
    found: dict[Node, None] = {}
    left = [value.node for value in node.inputs()]
    while left:
        made = left.pop()
        if made is None or made in found:
            continue
        if not _prepares(made):
            return None
        found[made] = None
        left += [value.node for value in made.inputs()]
    return [made for made in graph.nodes if made in found]


def _prepares(node: Node) -> bool:
    """Whether a node only rearranges what is there, or makes a constant, of padding for example."""
    if node.op.kind is Kind.VIEW or node.op.schema.name in _PREPARES:
        return True
    return not node.inputs() and not node.op.random


def _first_reader(begun: Node, users: dict[Value, list[Node]]) -> Node | None:
    """Who first reads what a gathering gives; None if it is none, or is not waited for here."""
    if begun.op.schema.name != "all_gather_into_tensor":
        return None
    waits = [user for user in users.get(begun.outputs[0], ()) if _waits(user)]
    readers = [reader for wait in waits for reader in users.get(wait.outputs[0], ())]
    return readers[0] if readers and not any(map(_begins, readers)) else None


# Reductions of results of others.


def _begin_chained_late(graph: Graph) -> None:
    users = _users(graph)
    begins = [node for node in graph.nodes if _begins(node)]
    moves: list[tuple[list[Node], Node | None]] = []
    for at, node in enumerate(begins):
        chain = _chain(node, users) if node.op.schema.name in _REDUCTIONS else None
        if chain is None:
            continue
        wait, group = chain[0], _group_of(node)
        origin = wait.inputs()[0].node
        if origin is None or not _begins(origin) or _group_of(origin) == group:
            continue
        following = begins[at + 1 :]
        anchor = next((other for other in following if _group_of(other) in (_group_of(origin), group)), None)
        if anchor is not None and _group_of(anchor) != group and not _read_before(graph, node, anchor, users):
            moves.append((chain, anchor))
    _moved(graph, moves)


def _chain(node: Node, users: dict[Value, list[Node]]) -> list[Node] | None:
    """From the call that waits for a collective to one that begins with its result, which nobody else reads."""
    found = [node]
    while not _waits(found[0]):
        inputs = found[0].inputs()
        made = inputs[0].node if len(inputs) == 1 else None
        if made is None or len(users[inputs[0]]) != 1 or not (_waits(made) or made.op.kind is Kind.VIEW):
            return None
        found.insert(0, made)
    return found


def _read_before(graph: Graph, node: Node, anchor: Node, users: dict[Value, list[Node]]) -> bool:
    """Whether the result of a collective is read before another one is begun."""
    late, left = _results_seen(graph), list(node.outputs)
    before = set(graph.nodes[: graph.nodes.index(anchor)])
    while left:
        for reader in users.get(left.pop(), ()):
            if reader in late:
                left += reader.outputs
            elif reader in before:
                return True
    return False
