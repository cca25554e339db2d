"""One step of a graph.

A node has an operation, what it is applied to (`target`) and arguments, in which other nodes stand for their
results. It knows its users, which the setters of its arguments keep up to date.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..core.errors import check
from ..core.tensor import Tensor
from ._functions import qualified_name
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

# the input of a program, a call of a method, a module or a function, an attribute of the module, the result
OPERATIONS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output")
Target = Callable[..., Any] | str  # what a node is applied to
Argument = Any  # plain values, nodes, and containers of them
_side_effects: set[Any] = set()


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself, whose calls are kept although nobody uses their results.

    >>> rl.fx.has_side_effect(print) is print
    True
    """
    _side_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """`a` with everything that is no container in it replaced.

    >>> rl.fx.node.map_aggregate((1, [2]), lambda x: x * 10)
    (10, [20])
    """
    if isinstance(a, tuple):
        parts = [map_aggregate(part, fn) for part in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(part, fn) for part in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """`a` with each node in it replaced.

    >>> node = next(iter(rl.fx.symbolic_trace(lambda x: x).graph.nodes))
    >>> rl.fx.map_arg((node, 2, [node]), lambda node: node.name)
    ('x', 2, ['x'])
    """
    check(callable(fn), "torch.fx.map_arg(a, fn): fn must be a callable", AssertionError)
    return map_aggregate(a, lambda part: fn(part) if isinstance(part, Node) else part)


class Node:
    """A step; `graph.call_function` and the like make them.

    >>> [node.op for node in rl.fx.symbolic_trace(lambda x: x + 1).graph.nodes]
    ['placeholder', 'call_function', 'output']
    """

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        check(op in OPERATIONS, f"{op!r} is no operation of a graph; those are {', '.join(OPERATIONS)}")
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            wanted = "Callable" if op == "call_function" else "str"
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {type(target).__name__}, "
                f"but a {wanted} is expected"
            )
        self.graph, self.name, self.op, self.target = graph, name, op, target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._prev = self._next = self
        self._erased = False
        self._set(args, kwargs)

    # The list that the nodes of a graph are in.

    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def prepend(self, x: Node) -> None:
        """Move `x` to before this node."""
        check(self.graph is x.graph, "Attempting to move a Node into a different Graph", AssertionError)
        if x is self:
            return
        x._leave()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move `x` to after this node."""
        self._next.prepend(x)

    def _leave(self) -> None:
        """Leave the list, and keep the neighbours: who is at this node goes on from there."""
        self._prev._next, self._next._prev = self._next, self._prev

    # Arguments.

    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, args: tuple[Any, ...]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._set(self._args, dict(kwargs))

    def _set(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        self._input_nodes = {}
        self._args, self._kwargs = map_arg((tuple(args), dict(kwargs)), self._note_input)
        for used in self._input_nodes:
            used.users.setdefault(self)

    def _note_input(self, node: Node) -> Node:
        self._input_nodes.setdefault(node)
        return node

    def update_arg(self, idx: int, arg: Any) -> None:
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        check(
            0 <= idx <= len(self._args),
            "insert_args index must be between 0 and len(self.args)",
            AssertionError,
        )
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self._kwargs, key: arg}

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once."""
        return list(self._input_nodes)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Have the users use another node; those of them that `delete_user_cb` chooses."""
        if propagate_meta:
            check(
                not replace_with.meta,
                "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with "
                "already has .meta keys",
                AssertionError,
            )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        args, kwargs = map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n)
        self._set(args, kwargs)

    # What is known of it.

    @property
    def stack_trace(self) -> str | None:
        """Where in the program it was recorded."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self) -> bool:
        """Whether it does something besides giving a result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            schema = getattr(self.target, "_schema", None)
            return self.target in _side_effects or (schema is not None and schema.is_mutable)
        if self.op == "call_module" and self.graph.owning_module is not None:
            module = self.graph.owning_module.get_submodule(self.target)
            return bool(getattr(module, "_is_impure", False))
        return False

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None
    ) -> str | None:
        """One line about it; of an input and of the result None, if there is a list that takes their names."""
        kind = "" if self.type is None else f"{type_repr(self.type)} "
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            users = f"[num_users={len(self.users)}]"
            line = f"%{self.name} : {kind}{users} = placeholder[target={self.target}]{default}"
            if placeholder_names is None:
                return line
            placeholder_names.append(line)
            return None
        if self.op == "output":
            if self.type is not None and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self.args[0]}"
        line = (
            f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}[target={self._pretty_target()}]"
        )
        if self.op == "get_attr":
            return line
        return f"{line}(args = {_shown(self.args)}, kwargs = {_shown(self.kwargs)})"

    def _pretty_target(self) -> str:
        if isinstance(self.target, str):
            return self.target
        if getattr(self.target, "__module__", None) == "_operator":
            return f"operator.{self.target.__name__}"
        if getattr(self.target, "__module__", None) == "builtins":
            return f"builtins.{self.target.__name__}"
        return qualified_name(self.target)

    def __repr__(self) -> str:
        return self.name


def _shown(argument: Any) -> str:
    """An argument as a graph prints it: nodes with a percent sign."""
    if isinstance(argument, list):
        return f"[{', '.join(map(_shown, argument))}]"
    if isinstance(argument, tuple) and not hasattr(argument, "_fields"):
        inside = ", ".join(map(_shown, argument))
        return f"({inside},)" if len(argument) == 1 else f"({inside})"
    if isinstance(argument, dict):
        return f"{{{', '.join(f'{key}: {_shown(value)}' for key, value in argument.items())}}}"
    return f"%{argument}" if isinstance(argument, Node) else str(argument)


def type_repr(kind: Any) -> str:
    """A type as source code names it."""
    if kind is Tensor:
        return "torch.Tensor"
    if isinstance(kind, type):
        return (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
    return "..." if kind is ... else kind.__name__ if inspect.isfunction(kind) else repr(kind)
