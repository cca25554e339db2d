"""Objects that stand for values while a program is recorded: what is done to them becomes nodes.

A `Proxy` has no shape and no data. Operators, methods, attributes and functions of the package that are applied
to it make nodes, and return a Proxy of each. Python's control flow cannot be recorded: a Proxy has no truth value
and no length, and iterates only where the program says how many parts it takes (`a, b = x.split(2)`).
"""

from __future__ import annotations

import dis
import inspect
import operator
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from ..core.aten import OpOverload, OpOverloadPacket
from ..core.dtypes import DType
from ..core.errors import check
from ..core.resolve import Packet
from ..core.tensor import Tensor
from ..core.tokens import device, layout, memory_format, qscheme
from ..overrides import is_tensor_method_or_property
from ._functions import qualified_name
from .graph import Graph
from .node import Node, map_aggregate

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]

_PLAIN = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    type(...),
    DType,
    device,
    layout,
    memory_format,
    qscheme,
)


class TraceError(ValueError):
    """A program that cannot be recorded."""


class TracerBase:
    """Makes nodes of what happens to proxies."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    module_stack: dict[str, Any]

    def create_node(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        stack = getattr(self, "module_stack", None)
        if stack:
            node.meta["nn_module_stack"] = dict(stack)
        return node

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A node whose arguments may have proxies in them, and the proxy of its result."""
        given, named = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        check(isinstance(given, tuple) and isinstance(named, dict), "arguments are a tuple and a dictionary")
        node = self.create_node(kind, target, given, named, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """What stands for an argument in a graph: nodes for proxies, containers of such, and constants."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(part) for part in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(part) for part in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, OpOverload | OpOverloadPacket | Packet):
            return a
        if isinstance(a, (*_PLAIN, Node)):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        found = self.create_arg(key)
        if isinstance(found, Node):
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
            )
        return found

    def to_bool(self, obj: Proxy) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a "
            "*args or **kwargs function argument. A function that loops over it can be left out of the graph "
            "with torch.fx.wrap, which records its call"
        )

    def keys(self, obj: Proxy) -> Any:
        """What `**proxy` asks for."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Makes nodes at the end of a graph that is there already."""

    prepare: Callable[[], None]  # functions of the package look for proxies from now on

    def __init__(self, graph: Graph) -> None:
        self.prepare()
        self.graph = graph


class Proxy:
    """Stands for the result of a node.

    >>> type(next(iter(rl.fx.symbolic_trace(lambda x: x + 1).graph.nodes))).__name__
    'Node'
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = Proxy.__new__(Proxy)
        memo[id(self)] = made
        made.__dict__ = dict(self.__dict__)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        count = None if caller is None else _unpacked(caller)
        return self.tracer.iter(self) if count is None else iter([self[i] for i in range(count)])

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please "
            "call torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Proxy:
        """A function of the package was called with proxies among its arguments."""
        kwargs = kwargs or {}
        tracer = _tracer_of((args, kwargs))
        if is_method(orig_method, args):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return record_call(tracer, orig_method, args, kwargs)

    def __getitem__(self, index: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.getitem, (self, index), {})


def record_call(tracer: TracerBase, function: Callable[..., Any], args: Any, kwargs: Any) -> Proxy:
    """A node that calls a function of the package, named after it."""
    stem = None
    if not isinstance(function, OpOverload | OpOverloadPacket):
        stem = tracer.graph._target_to_str(qualified_name(function).rpartition(".")[2])
    return tracer.create_proxy("call_function", function, args, kwargs, stem)


def is_method(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a tensor's method was called: one that is no function of the package, too, or of a tensor that is
    no proxy."""
    if isinstance(function, Packet):
        first = args[0] if args else None
        alone = function.__qualname__.startswith("Tensor.")
        return alone or (isinstance(first, Tensor) and hasattr(Tensor, function.__name__))
    return not isinstance(function, OpOverload | OpOverloadPacket) and is_tensor_method_or_property(function)


def find_proxies(value: Any) -> list[Proxy]:
    """The proxies in nested containers."""
    found: list[Proxy] = []
    map_aggregate(value, lambda part: found.append(part) if isinstance(part, Proxy) else None)
    return found


def _tracer_of(value: Any) -> TracerBase:
    tracers = {id(proxy.tracer): proxy.tracer for proxy in find_proxies(value)}
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {list(tracers.values())} while trying to trace operations"
        )
    return next(iter(tracers.values()))


def _unpacked(frame: FrameType) -> int | None:
    """How many variables the instruction that iterates assigns, if it is one that says so."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class Attribute(Proxy):
    """An attribute of a value: a node of its own only if it is used otherwise than by calling it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        check(isinstance(param, Tensor), "a parameter is a tensor", AssertionError)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *args: Any) -> Any:
        return self.param.size(*args)

    def dim(self) -> int:
        return self.param.dim()

    @property
    def ndim(self) -> int:
        return self.param.ndim

    def numel(self) -> int:
        return self.param.numel()

    def nelement(self) -> int:
        return self.param.numel()


class ScopeContextManager:
    """`module_stack` of a tracer with one more module, until it ends."""

    def __init__(self, tracer: TracerBase, key: str, entry: Any) -> None:
        self._tracer, self._key, self._entry = tracer, key, entry

    def __enter__(self) -> None:
        self._before = self._tracer.module_stack
        self._tracer.module_stack = {**self._before, self._key: self._entry}

    def __exit__(self, *exception: object) -> None:
        self._tracer.module_stack = self._before


def _operation(function: Callable[..., Any], reflected: bool) -> Callable[..., Proxy]:
    def forward(*args: Any) -> Proxy:
        return args[0].tracer.create_proxy("call_function", function, args, {})

    def backward(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    return backward if reflected else forward


_REFLECTED = (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul",
)  # fmt: skip
for _name in (*_REFLECTED, "eq", "ne", "lt", "gt", "le", "ge", "pos", "neg", "invert"):
    # after the class was made, so that a Proxy is still told by its identity in dictionaries
    setattr(Proxy, f"__{_name.strip('_')}__", _operation(getattr(operator, _name), False))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _operation(getattr(operator, _name), True))
