"""Exported programs in files: plain data with tensors, written by `rushlight.save`. Reading one runs no
code: a file names operators, and nothing else."""

from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any

from .. import serialization
from ..core import pytree
from ..core.aten import OpOverload, find
from ..core.tokens import LAYOUTS, MEMORY_FORMATS, layout, memory_format
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn.parameter import Parameter
from ._inputs import CallSpec, Inputs
from ._sizes import OPERATIONS, RELATIONS, Condition, ValueRanges
from .exported_program import ExportedProgram
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)

FORMAT, VERSION = "rushlight.export", 1
_FUNCTIONS = {**OPERATIONS, "getitem": operator.getitem}
_NAMES = {function: name for name, function in _FUNCTIONS.items()}
_CONTAINERS: dict[str, Any] = {"tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict}
_ARGUMENTS = {kind.__name__: kind for kind in (TensorArgument, SymIntArgument, ConstantArgument)}


def save(ep: ExportedProgram, f: Any, *, extra_files: dict[str, Any] | None = None) -> None:
    """Write a program to a path, or to a binary file. `extra_files` are texts or bytes by name.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.export.save(rl.export.export(nn.Linear(2, 3), (rl.ones(1, 2),)), file)
    >>> file.tell() > 0
    True
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    inputs = ep._inputs
    data = {
        "format": FORMAT,
        "version": VERSION,
        "nodes": [_node_data(node) for node in ep.graph.nodes],
        "input_specs": [
            [s.kind.name, _argument_data(s.arg), s.target, s.persistent]
            for s in ep.graph_signature.input_specs
        ],
        "output_specs": [
            [s.kind.name, _argument_data(s.arg), s.target] for s in ep.graph_signature.output_specs
        ],
        "names": list(inputs.names),
        "positional": list(inputs.positional),
        "keywords": list(inputs.keywords),
        "in_spec": _spec_data(inputs.spec.in_spec),
        "out_spec": _spec_data(inputs.spec.out_spec),
        "shapes": [None if shape is None else list(shape) for shape in inputs.shapes],
        "constant_inputs": list(inputs.constants),
        "symbols": {name: list(place) for name, place in inputs.symbols.items()},
        "conditions": [[c.left, c.relation, c.right] for c in inputs.conditions],
        "ranges": {name: [found.lower, found.upper] for name, found in ep.range_constraints.items()},
        "state": {name: tensor.detach() for name, tensor in ep.state_dict.items()},
        "trained": [name for name, tensor in ep.state_dict.items() if tensor.requires_grad],
        "constants": {name: tensor.detach() for name, tensor in ep.constants.items()},
        "extra_files": dict(extra_files or {}),
    }
    serialization.save(data, f)


def load(f: Any, *, extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """A program that `save` wrote. Texts of the file go to the keys of `extra_files`.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.export.save(rl.export.export(nn.Linear(2, 3), (rl.ones(1, 2),)), file)
    >>> _ = file.seek(0)
    >>> rl.export.load(file).module()(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """
    data = serialization.load(f, weights_only=True)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError("export.load: the file does not hold an exported program; export.save writes one")
    if data["version"] != VERSION:
        raise ValueError(f"export.load: version {data['version']} of the format is not known; {VERSION} is")
    for name in extra_files if extra_files is not None else ():
        assert extra_files is not None
        extra_files[name] = data["extra_files"].get(name)
    signature = ExportGraphSignature(
        [InputSpec(InputKind[kind], _argument(arg), *rest) for kind, arg, *rest in data["input_specs"]],
        [OutputSpec(OutputKind[kind], _argument(arg), target) for kind, arg, target in data["output_specs"]],
    )
    inputs = Inputs(
        tuple(data["names"]),
        tuple(data["positional"]),
        tuple(data["keywords"]),
        CallSpec(_spec(data["in_spec"]), _spec(data["out_spec"])),
        tuple(None if shape is None else tuple(shape) for shape in data["shapes"]),
        tuple(data["constant_inputs"]),
        {name: (leaf, dim) for name, (leaf, dim) in data["symbols"].items()},
        tuple(_condition(*condition) for condition in data["conditions"]),
    )
    parameters, trained = set(signature.parameters), set(data["trained"])
    state = {
        name: Parameter(tensor, name in trained) if name in parameters else tensor
        for name, tensor in data["state"].items()
    }
    ranges = {name: ValueRanges(*ends) for name, ends in data["ranges"].items()}
    module = GraphModule({}, _graph(data["nodes"]))
    return ExportedProgram(module, signature, state, data["constants"], inputs, ranges)


# Nodes.


def _node_data(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "op": node.op,
        "target": _target_data(node),
        "args": [_value_data(value) for value in node.args],
        "kwargs": {name: _value_data(value) for name, value in node.kwargs.items()},
    }


def _target_data(node: Node) -> str:
    if isinstance(node.target, OpOverload):
        return f"{node.target.namespace}::{node.target._opname}.{node.target._overloadname}"
    if isinstance(node.target, str):
        return node.target
    if node.target not in _NAMES:
        raise ValueError(f"export.save: {node} calls {node.target}, which is no operator")
    return _NAMES[node.target]


def _value_data(value: Any) -> Any:
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, list | tuple):
        return [_value_data(part) for part in value]
    if isinstance(value, memory_format | layout):
        return {"token": str(value).rpartition(".")[2]}
    return value


def _graph(rows: list[dict[str, Any]]) -> Graph:
    graph = Graph()
    nodes: dict[str, Node] = {}

    def value(data: Any) -> Any:
        if isinstance(data, dict) and "node" in data:
            return nodes[data["node"]]
        if isinstance(data, dict):
            return _token(data["token"])
        return [value(part) for part in data] if isinstance(data, list) else data

    for row in rows:
        target = row["target"]
        if row["op"] == "call_function":
            target = _function(target)
        elif row["op"] not in ("placeholder", "output"):
            raise ValueError(f"export.load: {row['op']} is no node of an exported program")
        args = tuple(map(value, row["args"]))
        if row["op"] == "output":
            args = (tuple(args[0]),)
        kwargs = {name: value(part) for name, part in row["kwargs"].items()}
        nodes[row["name"]] = graph.create_node(row["op"], target, args, kwargs, row["name"])
    return graph


def _function(name: str) -> Any:
    """An operator by its name, or one of the few functions of Python's that graphs have."""
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    namespace, separator, rest = name.partition("::")
    operation, _, form = rest.rpartition(".")
    if not separator:
        raise ValueError(f"export.load: {name} is no operator")
    try:
        return find(namespace, operation, form)
    except AttributeError:
        raise ValueError(
            f"export.load: there is no operator {name}; if it is one of yours, define it before loading"
        ) from None


def _token(name: str) -> Any:
    found = LAYOUTS.get(name) or MEMORY_FORMATS.get(name)
    if found is None:
        raise ValueError(f"export.load: {name!r} is neither a layout nor a memory format")
    return found


# What is said of them.


def _argument_data(argument: Any) -> list[Any]:
    value = [argument.value] if isinstance(argument, ConstantArgument) else []
    return [type(argument).__name__, argument.name, *value]


def _argument(data: list[Any]) -> Any:
    kind, *rest = data
    return _ARGUMENTS[kind](*rest)


def _condition(left: Any, relation: str, right: int) -> Condition:
    if relation not in RELATIONS:
        raise ValueError(f"export.load: {relation!r} is no relation of sizes")
    return Condition(left, relation, right)


def _spec_data(spec: pytree.TreeSpec) -> Any:
    if spec.type is None:
        return None
    name = spec.type.__name__
    if _CONTAINERS.get(name) is not spec.type:
        raise ValueError(
            f"export.save: arguments and results may be tuples, lists and dictionaries of tensors "
            "and numbers, and "
            f"here is a {name}"
        )
    keys = list(spec.context[0]) if spec.context is not None else None
    return [name, keys, [_spec_data(child) for child in spec.children]]


def _spec(data: Any) -> pytree.TreeSpec:
    if data is None:
        return pytree.LEAF
    name, keys, children = data
    context = None if keys is None else (tuple(keys), None)
    return pytree.TreeSpec(_CONTAINERS[name], context, tuple(map(_spec, children)))
