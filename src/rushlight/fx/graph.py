"""A graph: steps in the order in which they run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core.errors import check
from ._code import PythonCode, Structure, Writer
from ._names import Namespace, snake_case
from .node import Node, map_arg

__all__ = ["Graph", "PythonCode"]


class NodeList:
    """The nodes of a graph, forwards or backwards, as they are: a node may be added or erased meanwhile."""

    def __init__(self, graph: Graph, backwards: bool = False) -> None:
        self._graph, self._backwards = graph, backwards

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Node]:
        root = self._graph._root
        node = root._prev if self._backwards else root._next
        while node is not root:
            if not node._erased:
                yield node
            node = node._prev if self._backwards else node._next

    def __reversed__(self) -> NodeList:
        return NodeList(self._graph, not self._backwards)


class InsertPoint:
    """Where new nodes go; as a context, until it ends."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before, graph._insert = graph, graph._insert, insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self._graph._insert = self._before


class Graph:
    """Make nodes with `placeholder`, `call_function` and the like, and end with `output`.

    >>> graph = rl.fx.Graph()
    >>> graph.output(graph.call_function(rl.sin, (graph.placeholder("x"),))).op
    'output'
    """

    def __init__(self, owning_module: Any = None) -> None:
        self._root = Node(self, "", "call_function", _begin, (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._names = Namespace()
        self.owning_module = owning_module
        self._structure: Structure | None = None  # of what the generated function takes and returns
        self._tracer_cls: Any = None  # what recorded it

    @property
    def nodes(self) -> NodeList:
        return NodeList(self)

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of an operation, and with a target if one is given, in order."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        last = self._root._prev
        check(last.op == "output", "the graph has no output", AssertionError)
        return last

    def _target_to_str(self, target: Any) -> str:
        """What a node is called after."""
        return _stem(target)

    # Making nodes.

    def create_node(
        self,
        op: str,
        target: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A new node at the place of insertion, which is the end unless a context says otherwise."""
        args, kwargs = () if args is None else args, {} if kwargs is None else dict(kwargs)
        check(isinstance(args, tuple), "args must be a tuple", AssertionError)
        made = self._names.create_name(name if name is not None else _stem(target))
        node = Node(self, made, op, target, args, kwargs, type_expr)
        map_arg((args, kwargs), self._check_own)
        self._insert(node)
        return node

    def _check_own(self, node: Node) -> Node:
        check(node.graph is self, f"Argument '{node}' belongs to a different Graph", RuntimeError)
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An input; `default_value` is that of the parameter, if it has one."""
        args = () if default_value is ... else (default_value,)
        return self.create_node("placeholder", name, args, name=name.lstrip("*"), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module that owns the graph."""
        name = qualified_name.replace(".", "_")
        return self.create_node("get_attr", qualified_name, name=name, type_expr=type_expr)

    def call_module(
        self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None
    ) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda n: n) -> Node:
        """A node like one of another graph, with arguments that `arg_transform` finds for those."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """Copy the nodes of another graph, and note in `val_map` what stands for each. Returns what its output
        stands for, which is not copied."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # Changing the graph.

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nobody uses."""
        check(
            not to_erase.users,
            f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
            f"{to_erase.users}!",
            RuntimeError,
        )
        check(to_erase.graph is self, f"Attempting to remove {to_erase} from wrong graph!", RuntimeError)
        if to_erase._erased:
            return
        to_erase._leave()
        to_erase._erased = True
        to_erase._set((), {})

    def inserting_before(self, n: Node | None = None) -> InsertPoint:
        """New nodes come before `n`, or at the beginning: from now on, or in the context that this is."""
        return InsertPoint(self, self._root.append if n is None else self._own(n).prepend)

    def inserting_after(self, n: Node | None = None) -> InsertPoint:
        """New nodes come right after `n`, or at the end: from now on, or in the context that this is."""
        return InsertPoint(self, self._root.prepend if n is None else self._own(n).append)

    def _own(self, node: Node) -> Node:
        check(node.graph is self, "Node to insert at is not in graph.", AssertionError)
        return node

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove what nobody uses and what does nothing else; whether anything was removed."""
        self.lint()
        impure = Node.is_impure if is_impure_node is None else is_impure_node
        changed = False
        for node in list(reversed(self.nodes)):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Raise RuntimeError if a node is used before it runs, or a name stands twice."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            check(node.graph is self, f"Node '{node}' does not belong to this Graph", RuntimeError)
            check(node.name not in names, f"Node redefined name {node.name}!", RuntimeError)
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please "
                        f"check that Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            names.add(node.name)
            if self.owning_module is not None and node.op in ("call_module", "get_attr"):
                _check_target(self.owning_module, node)

    # As text.

    def python_code(self, root_module: str = "self", *, verbose: bool = False) -> PythonCode:
        """A function `forward(root_module, ...)` that runs the graph."""
        check(
            not verbose,
            "Graph.python_code: comments in the code (verbose=True) are not available",
            NotImplementedError,
        )
        return Writer(root_module, self._structure).code(self)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
        print(
            "\n".join(
                "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                for row in rows
            )
        )

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "\n    ".join(["graph():", *filter(None, lines)])

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        made = Graph()
        memo[id(self)] = made
        places: dict[Node, Any] = {}
        found = made.graph_copy(self, places, return_output_node=True)
        if found is not None:
            result, node = found
            made.output(result, node.type).meta = copy.copy(node.meta)
        made._structure, made._tracer_cls = self._structure, self._tracer_cls
        return made


def _begin() -> None:
    """What the node before the first and after the last is of."""


def _stem(target: Any) -> str:
    """What a node is called after."""
    name = getattr(target, "__name__", type(target).__name__) if callable(target) else str(target)
    return snake_case(name.strip("_") if name.startswith("__") and name.endswith("__") else name)


def _check_target(module: Any, node: Node) -> None:
    """Raise RuntimeError if the module has no such attribute."""
    found = module
    for part in node.target.split("."):
        check(
            hasattr(found, part),
            f"Node {node} target {node.target} references nonexistent attribute {part} of {type(found).__name__}",
            RuntimeError,
        )
        found = getattr(found, part)
