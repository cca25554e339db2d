"""`make_fx`: a call, recorded as a graph of operators.

The function runs on its arguments, or on tensors without data that look like them, while a mode
(`ProxyTorchDispatchMode`) is given every operator below autograd and transforms and writes it down. Tensors that
the function was not given and did not make are attributes of the module; numbers are constants.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from ...core import pytree
from ...core.aten import OpOverload, overload
from ...core.errors import check
from ...core.modes import MODES
from ...core.overrides import modes_replaced
from ...core.registry import REGISTRY
from ...core.tensor import Tensor
from ...nn.parameter import Parameter
from ...utils._python_dispatch import TorchDispatchMode
from .._code import Structure
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_aggregate

__all__ = ["ProxyTorchDispatchMode", "disable_proxy_modes_tracing", "get_proxy_mode", "make_fx"]

_MODES = ("real", "fake")
_READS = ("_local_scalar_dense", "item")


class ProxyTorchDispatchMode(TorchDispatchMode):
    """Writes down every operator in `graph`. `decomposition_table` has functions that run in the place of
    operators, whose own operators are written down instead."""

    def __init__(
        self, graph: Graph, decomposition_table: Mapping[OpOverload, Callable[..., Any]] | None = None
    ) -> None:
        self.graph = graph
        self.decomposition_table = dict(decomposition_table or {})
        self.attributes: dict[str, Any] = {}  # of the module
        # by tensor, and by what it is of the memory, since transforms make other objects for the same tensor; the
        # tensors are kept, so that both are their own
        self._nodes: dict[Any, tuple[Tensor, Node]] = {}

    def track(self, tensor: Tensor, node: Node) -> None:
        """From now on `node` stands for `tensor`."""
        self._nodes[id(tensor)] = self._nodes[_memory(tensor)] = (tensor, node)

    def node_of(self, value: Any) -> Any:
        """What stands in the graph for an argument."""
        if not isinstance(value, Tensor):
            return value
        known = self._nodes.get(id(value)) or self._nodes.get(_memory(value))
        return self._attribute(value) if known is None else known[1]

    def _attribute(self, tensor: Tensor) -> Node:
        if tensor._array is None and not tensor.is_meta:
            raise RuntimeError(
                f"an object of the class {type(tensor).__name__} is neither an argument of the function that is "
                "recorded nor made by it"
            )
        kind = "param" if isinstance(tensor, Parameter) else "tensor"
        known = next((name for name, value in self.attributes.items() if value is tensor), None)
        if known is None:
            known = f"_{kind}_constant{sum(name.startswith(f'_{kind}_') for name in self.attributes)}"
            self.attributes[known] = tensor
        node = self.graph.get_attr(known)
        if kind == "param":
            self.track(tensor, node)
        return node

    def __torch_dispatch__(self, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in self.decomposition_table:
            with self:
                found = self.decomposition_table[func](*args, **kwargs)
            if found is not NotImplemented:
                return found
        if func.schema.name in _READS:
            raise RuntimeError(
                f"It appears that you're trying to get value out of a tracing tensor with {func} - erroring out! "
                "It's likely that this is caused by data-dependent control flow or similar."
            )
        if func.schema.name == "lift_fresh":  # of data, which every run copies
            func = overload(REGISTRY["lift_fresh_copy"])
        given, named = map_aggregate((tuple(args), kwargs), self.node_of)
        node = self.graph.call_function(func, given, named, name=func._opname)
        result = func(*args, **kwargs)
        self._track_results(result, node)
        return result

    def _track_results(self, result: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            node.meta["tensor_meta"] = result
            self.track(result, node)
        elif isinstance(result, tuple | list):
            for i, part in enumerate(result):
                if isinstance(part, Tensor | tuple | list):
                    self._track_results(part, self.graph.call_function(operator.getitem, (node, i)))


def _memory(tensor: Tensor) -> Any:
    """Equal for tensors that are the same elements of the same memory."""
    if isinstance(tensor, FakeTensor):
        return id(tensor._meta)
    if tensor._array is None:
        return id(tensor)
    return tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype


def get_proxy_mode() -> ProxyTorchDispatchMode | None:
    """The mode that writes down operators now."""
    found = [mode for mode in MODES.dispatchers if isinstance(mode, ProxyTorchDispatchMode)]
    return found[-1] if found else None


@contextmanager
def disable_proxy_modes_tracing() -> Iterator[None]:
    """A context in which operators run and are not written down."""
    kept = tuple(mode for mode in MODES.dispatchers if not isinstance(mode, ProxyTorchDispatchMode))
    with modes_replaced(kept):
        yield


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[OpOverload, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
) -> Callable[..., GraphModule]:
    """A function that records a call of `f` with its arguments, as a module that does what the call did.

    `tracing_mode`: "real" runs `f` on the arguments themselves, "fake" on tensors without data. Sizes are
    constants of the graph. A graph above autograd (`pre_dispatch`) is not offered.
    """
    if tracing_mode == "symbolic" or pre_dispatch:
        what = "pre_dispatch=True" if pre_dispatch else "tracing_mode='symbolic'"
        raise NotImplementedError(
            f"make_fx: {what} is not available; graphs have fixed sizes, below autograd"
        )
    check(tracing_mode in _MODES, f"Unexpected tracing type: {tracing_mode}", AssertionError)

    @functools.wraps(f)
    def wrapped(*args: Any) -> GraphModule:
        return _recorded(f, args, decomposition_table, tracing_mode == "fake")

    return wrapped


def _recorded(f: Callable[..., Any], args: tuple[Any, ...], table: Any, fake: bool) -> GraphModule:
    graph = Graph()
    mode = ProxyTorchDispatchMode(graph, table)
    leaves, spec = pytree.flatten(args)
    names = _argument_names(f, len(args))
    fakes = FakeTensorMode() if fake else None
    if fakes is not None:
        leaves = [fakes.from_tensor(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
    for leaf, name in zip(leaves, _leaf_names(spec, names), strict=True):
        node = _placeholder(graph, name)
        if isinstance(leaf, Tensor):
            node.meta["tensor_meta"] = leaf
            mode.track(leaf, node)
    given = spec.unflatten(leaves)
    if fakes is None:
        with mode:
            result = f(*given)
    else:
        with fakes, mode:
            result = f(*given)
    flat = all(child.type is None for child in spec.children)
    found = map_aggregate(_plain(result) if flat else pytree.flatten(result)[0], mode.node_of)
    graph.output(found, getattr(f, "__annotations__", {}).get("return"))
    if not flat:
        graph._structure = Structure(names, spec, pytree.flatten(result)[1])
    return GraphModule(mode.attributes, graph, getattr(f, "__name__", type(f).__name__))


def _placeholder(graph: Graph, name: str) -> Node:
    """An input whose parameter has the name of the node."""
    node = graph.placeholder(f"{name}_1")
    node.target = node.name
    return node


def _plain(value: Any) -> Any:
    """Results as plain containers: named tuples of operators are tuples in a graph."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if isinstance(value, list):
        return list(map(_plain, value))
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def _argument_names(f: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of parameters, or numbers where there are not as many of them as arguments."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.name != "self"
    ]
    if len(positional) < count or any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return tuple(f"arg{i}" for i in range(count))
    return tuple(positional[:count])


def _leaf_names(spec: pytree.TreeSpec, names: tuple[str, ...]) -> list[str]:
    """For each leaf of the arguments the name of the argument."""
    return [name for name, child in zip(names, spec.children, strict=True) for _ in range(child.num_leaves)]
