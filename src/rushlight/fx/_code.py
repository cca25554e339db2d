"""Python code of a graph."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..core import pytree
from ..core.tensor import Tensor
from ..core.tokens import device
from ._functions import package, qualified_name
from ._names import Namespace
from .node import Node, map_arg, type_repr

if TYPE_CHECKING:
    from .graph import Graph

# how Python writes calls of the functions of its module `operator`
INFIX = {
    "add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%", "matmul": "@", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
    "eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">=",
}  # fmt: skip
_FORMATS = {
    **{name: f"{{}} {sign} {{}}" for name, sign in INFIX.items()},
    "getitem": "{}[{}]", "neg": "-{}", "pos": "+{}", "invert": "~{}",
}  # fmt: skip
_INPLACE = {
    f"i{name.rstrip('_')}": sign for name, sign in INFIX.items() if f"i{name.rstrip('_')}" in dir(operator)
}


@dataclass(frozen=True)
class PythonCode:
    """Source of a function `forward`, and what it refers to.

    >>> print(rl.fx.symbolic_trace(lambda x: x + 1).graph.python_code("self").src.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    """

    src: str
    globals: dict[str, Any]


@dataclass(frozen=True)
class Structure:
    """The arguments and the result of a function of which the graph has the leaves."""

    names: tuple[str, ...]  # of the arguments
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec | None = None
    keywords: tuple[str, ...] | None = None  # of arguments that go by name, if those are in `in_spec` as well


class FlatTrees:
    """`fx_pytree` of generated code."""

    @staticmethod
    def tree_flatten_spec(tree: Any, spec: pytree.TreeSpec) -> list[Any]:
        parts = tuple(tuple(part) if isinstance(part, list) else part for part in tree)
        leaves, found = pytree.flatten(tuple(tree) if isinstance(tree, list) else parts)
        if found != spec:
            raise ValueError(f"the arguments have the structure {found}, and the graph was made for {spec}")
        return leaves


class Trees:
    """`pytree` of generated code."""

    @staticmethod
    def tree_unflatten(leaves: list[Any], spec: pytree.TreeSpec) -> Any:
        return spec.unflatten(leaves)


_VALUES: dict[str, Callable[[], Any]] = {
    "inf": lambda: math.inf,
    "nan": lambda: math.nan,
    "torch": package,
    "device": lambda: device,
    "fx_pytree": lambda: FlatTrees,
    "pytree": lambda: Trees,
}


@dataclass
class Writer:
    """Writes the code of one graph. `structure` is that of what the function takes and returns, if it is not the
    graph's."""

    root: str  # the name of the module in the code
    structure: Structure | None = None
    globals: dict[str, Any] = field(default_factory=dict)
    names: Namespace = field(default_factory=Namespace)
    _wrapped: dict[str, None] = field(default_factory=dict)  # functions that are recorded as calls

    def code(self, graph: Graph) -> PythonCode:
        last_uses = _last_uses(graph)
        for node in graph.nodes:
            self.names.take(node.name)  # locals, which hide what is global
        parameters: list[str] = []
        body: list[str] = []
        returned = ""
        for node in graph.nodes:
            if node.op == "placeholder":
                parameters.append(self._parameter(node))
                if node.target.lstrip("*") != node.name:
                    body.append(f"{node.name} = {node.target.lstrip('*')}")
            elif node.op == "output":
                returned = "" if node.type is None else f" -> {self._type(node.type)}"
                body.append(f"return {self._result(node.args[0])}")
            else:
                body.append(self._statement(node) + _forgotten(node, last_uses))
        first, parameters = self._arguments(parameters)
        lines = "".join(f"    {line}\n" for line in [*first, *(body or ["pass"])])
        signature = ", ".join([self.root, *parameters])
        wraps = "\n".join(f'torch.fx._symbolic_trace.wrap("{name}")' for name in self._wrapped)
        return PythonCode(f"\n{wraps}\n\ndef forward({signature}){returned}:\n{lines}    ", self.globals)

    def _arguments(self, parameters: list[str]) -> tuple[list[str], list[str]]:
        """The lines that take the function's arguments apart, and its parameters."""
        if self.structure is None:
            return [], parameters
        self._known("fx_pytree")
        given = f"[{', '.join(self.structure.names)}]"
        keywords = self.structure.keywords
        if keywords is not None:
            given = f"({given}, {{{', '.join(f'{name!r}:{name}' for name in keywords)}}})"
        taken = "".join(f"{name}, " for name in parameters).rstrip()
        lines = (
            [f"{taken} = fx_pytree.tree_flatten_spec({given}, {self.root}._in_spec)"] if parameters else []
        )
        return lines, [*self.structure.names, *(keywords or ())]

    def _result(self, value: Any) -> str:
        if self.structure is None or self.structure.out_spec is None:
            return self._argument(value)
        self._known("pytree")
        return f"pytree.tree_unflatten({self._argument(value)}, {self.root}._out_spec)"

    def _parameter(self, node: Node) -> str:
        kind = "" if node.type is None else f" : {self._type(node.type)}"
        default = f" = {self._argument(node.args[0])}" if node.args else ""
        return f"{node.target}{kind}{default}"

    def _type(self, kind: Any) -> str:
        return self._global(type_repr(kind), kind)

    def _statement(self, node: Node) -> str:
        to = node.name if node.type is None else f"{node.name} : {self._type(node.type)}"
        args = list(map(self._argument, node.args))
        named = [f"{key} = {self._argument(value)}" for key, value in node.kwargs.items()]
        if node.op == "get_attr":
            return f"{to} = {_attribute(self.root, node.target)}"
        if node.op == "call_module":
            return f"{to} = {_attribute(self.root, node.target)}({', '.join([*args, *named])})"
        if node.op == "call_method":
            return f"{to} = {args[0]}.{node.target}({', '.join([*args[1:], *named])})"
        if getattr(node.target, "__module__", None) == "_operator" and not named:
            name = node.target.__name__
            if name in _FORMATS:
                return f"{to} = {_FORMATS[name].format(*args)}"
            if name in _INPLACE:
                return f"{args[0]} {_INPLACE[name]}= {args[1]};  {to} = {args[0]}"
        if node.target is getattr and not named and len(args) == 2 and str(node.args[1]).isidentifier():
            return f"{to} = {args[0]}.{node.args[1]}"
        function = self._global(qualified_name(node.target), node.target)
        if node.meta.get("is_wrapped"):
            self._known("torch")
            self._wrapped.setdefault(function)
        return f"{to} = {function}({', '.join([*args, *named])})"

    def _argument(self, value: Any) -> str:
        if isinstance(value, Node):
            return value.name
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            name = self._global(type_repr(type(value)), type(value))
            return f"{name}({', '.join(map(self._argument, value))})"
        if isinstance(value, tuple):
            inside = ", ".join(map(self._argument, value))
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        if isinstance(value, list):
            return f"[{', '.join(map(self._argument, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self._argument(part)}' for key, part in value.items())}}}"
        if isinstance(value, range):
            return repr(value)
        if isinstance(value, slice):
            return f"slice({', '.join(self._argument(p) for p in (value.start, value.stop, value.step))})"
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        """A value that is neither a container nor a node."""
        if isinstance(value, device):
            self._known("device")
            return repr(value)
        if isinstance(value, float) and not math.isfinite(value):
            self._known("inf" if math.isinf(value) else "nan")
            return repr(value)
        if type(value).__module__.partition(".")[0] == "rushlight" and not isinstance(value, Tensor):
            text = repr(value)  # dtypes, layouts and memory formats print as the package names them
            head, _, name = text.partition(".")
            if head in ("torch", "rushlight") and getattr(package(), name, None) is value:
                self._known("torch")
                return f"torch.{name}"
        if value is None or isinstance(value, bool | int | float | complex | str | bytes) or value is ...:
            return repr(value)
        if callable(value) and hasattr(value, "__name__"):
            return self._global(qualified_name(value), value)
        return self._global(f"_constant_{type(value).__name__}", value)

    def _global(self, name: str, value: Any) -> str:
        """How the code names an object of elsewhere."""
        head = name.partition(".")[0]
        if hasattr(builtins, name) and getattr(builtins, name) is value:
            return name
        if head == "torch" and _found(name) is value:
            return self._known("torch") + name[len("torch") :]
        made = self.names.create_name(name.replace(".", "_"), value)
        self.globals[made] = value
        return made

    def _known(self, name: str) -> str:
        self.globals[name] = _VALUES[name]()
        return name


def _found(name: str) -> Any:
    """What a dotted name that begins with `torch` means."""
    found = package()
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
    return found


def _attribute(root: str, target: str) -> str:
    """An attribute of an attribute of the module, whose names may be numbers."""
    text = root
    for part in target.split("."):
        text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
    return text


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """By node, the nodes that nobody after it uses."""
    seen: set[Node] = set()
    found: dict[Node, list[Node]] = {}

    def note(user: Node) -> Callable[[Node], Node]:
        def used(node: Node) -> Node:
            if node not in seen:
                seen.add(node)
                found.setdefault(user, []).append(node)
            return node

        return used

    for node in reversed(graph.nodes):
        map_arg((node.args, node.kwargs), note(node))
    return found


def _forgotten(node: Node, last_uses: dict[Node, list[Node]]) -> str:
    """What lets go of results that are not needed any more."""
    names = [*last_uses.get(node, ()), *(() if node.users else (node,))]
    return f";  {' = '.join([*(n.name for n in names), 'None'])}" if names else ""
