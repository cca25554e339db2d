"""A module whose `forward` is the code of a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from collections.abc import Mapping
from typing import Any

from ..core.tensor import Tensor
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._code import PythonCode
from .graph import Graph
from .node import Node, map_aggregate, map_arg

_numbers = itertools.count()


class GraphModule(Module):
    """`root` gives what the graph refers to: a module, of which it is copied, or a dictionary by name.

    >>> module = rl.fx.symbolic_trace(lambda x: x.sin() + 1)
    >>> print(module.code.strip().splitlines()[-1].strip().startswith("return"))
    True
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # a class of its own for each, whose forward is the code of its graph
        base = next(c for c in cls.__mro__ if "_generated" not in vars(c))
        return super().__new__(type(base.__name__, (base,), {"_generated": True}))

    def __init__(
        self, root: Module | Mapping[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, Any] = {}
        if isinstance(root, Module):
            self.training = root.training
            if isinstance(root, GraphModule):
                self.meta.update(root.meta)
        for target in dict.fromkeys(n.target for n in graph.nodes if n.op in ("get_attr", "call_module")):
            found = _found(root, target) if isinstance(root, Module) else root.get(target)
            if found is None:
                if isinstance(root, Module):
                    continue
                raise RuntimeError(
                    f"Node references target {target} but that target was not provided in ``root``!"
                )
            _assign(self, target, found)
        self.graph = graph

    @property
    def graph(self) -> Graph:
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        """Take a copy of a graph that another module owns, and make the code of it."""
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        g = copy.deepcopy(g) if g.owning_module not in (None, self) else g
        g.owning_module = self
        object.__setattr__(self, "_graph", g)
        self.recompile()

    def recompile(self) -> PythonCode:
        """Make the code of the graph anew, after the graph was changed."""
        structure = self._graph._structure
        if structure is not None:
            object.__setattr__(self, "_in_spec", structure.in_spec)
            object.__setattr__(self, "_out_spec", structure.out_spec)
        made = self._graph.python_code("self")
        object.__setattr__(self, "_code", made.src)
        file = f"<eval_with_key>.{next(_numbers)}"
        names: dict[str, Any] = dict(made.globals)
        exec(compile(made.src, file, "exec"), names)
        lines = made.src.splitlines(keepends=True)
        linecache.cache[file] = (len(made.src), None, lines, file)  # for tracebacks and the source of forward
        type(self).forward = names["forward"]
        return made

    @property
    def code(self) -> str:
        """The source of `forward`."""
        code: str = self._code
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module where `target` says; False if something else is on the way."""
        *path, last = target.split(".")
        place: Module = self
        for part in path:
            if not hasattr(place, part):
                place.add_module(part, Module())
            inner = getattr(place, part)
            if not isinstance(inner, Module):
                return False
            place = inner
        place.add_module(last, m)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph does not call and whose attributes it does not use."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    inner = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in inner.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            *path, last = name.split(".")
            owner = self.get_submodule(".".join(path))
            owner._modules.pop(last, None)

    def print_readable(self, print_output: bool = True) -> str:
        """The code as that of a class."""
        head, *lines = self.code.strip().split("\n")
        nodes = list(self._graph.nodes)
        if not any(node.stack_trace for node in nodes):
            inputs = [n for n in nodes if n.op == "placeholder"]
            renamed = sum(n.target.lstrip("*") != n.name for n in inputs)
            if len(nodes) - len(inputs) > 1:
                note = "    # No stacktrace found for following nodes"
                lines[renamed:renamed] = ["", note] if renamed else [note]
        body = "\n".join(f"    {line}".rstrip() for line in [head, *lines])
        text = f"class {type(self).__name__}(torch.nn.Module):\n{body}".rstrip() + "\n"
        if print_output:
            print(text)
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        state = {
            name: copy.deepcopy(_found(self, name), memo)
            for name in dict.fromkeys(
                n.target for n in self._graph.nodes if n.op in ("get_attr", "call_module")
            )
        }
        made = GraphModule(state, copy.deepcopy(self._graph), type(self).__name__)
        made.training, made.meta = self.training, dict(self.meta)
        memo[id(self)] = made
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self._graph, type(self).__name__)
        made.meta = dict(self.meta)
        return made

    def __reduce__(self) -> Any:
        return _rebuilt, (dict(self.__dict__, _graph=None), type(self).__name__, _as_data(self._graph))

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return f"{super().__repr__()}\n{self._code}\n{hint}"


_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"  # in `meta`: attributes that copies have, too


class _CodeOnlyModule(Module):
    """A module with these attributes and no more, of which a copy of a GraphModule can be made."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Put what one module has at a dotted name where another has it, with modules on the way."""
    _assign(to_module, target, _found(from_module, target))


def _found(module: Module, target: str) -> Any:
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part, None)
    return found


def _assign(module: Module, target: str, value: Any) -> None:
    """Put a value where a dotted name says, with modules on the way."""
    *path, last = target.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, Module())
        module = getattr(module, part)
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(last, value)
    else:
        setattr(module, last, value)


# Pickles: nodes as tuples, in which a node is a reference.


class _Ref:
    def __init__(self, name: str) -> None:
        self.name = name


def _as_data(graph: Graph) -> list[tuple[Any, ...]]:
    return [
        (n.name, n.op, n.target, *map_arg((n.args, n.kwargs), lambda m: _Ref(m.name)), n.type)
        for n in graph.nodes
    ] + [("", "structure", graph._structure)]


def _rebuilt(state: dict[str, Any], name: str, nodes: list[tuple[Any, ...]]) -> GraphModule:
    graph = Graph()
    known: dict[str, Node] = {}
    for label, op, target, *rest in nodes:
        if op == "structure":
            graph._structure = target
            continue
        args, kwargs, kind = rest
        args, kwargs = map_aggregate((args, kwargs), lambda a: known[a.name] if isinstance(a, _Ref) else a)
        known[label] = graph.create_node(op, target, args, kwargs, label, kind)
    made = GraphModule.__new__(GraphModule)
    made.__dict__.update(state)
    type(made).__name__ = name
    made.graph = graph
    return made
