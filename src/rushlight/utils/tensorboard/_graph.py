"""Graphs of operators, as TensorBoard shows them."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.versions_pb2 import VersionDef

from ...export import export
from ...fx.node import Node


def of_module(model: Any, example: Any) -> GraphDef:
    """The graph of a call of a module."""
    args = example if isinstance(example, tuple) else (example,)
    program = export(model, args)
    nodes = []
    shapes = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is not None:
            shapes[spec.arg.name] = tuple(program._tensor(spec.target).shape)
    for node in program.graph.nodes:
        inputs = [given.name for given in node.all_input_nodes]
        nodes.append(_node(node.name, _kind(node), inputs, shapes.get(node.name)))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))


def _kind(node: Node) -> str:
    if node.op == "placeholder":
        return "IO Node" if not node.name.startswith(("p_", "b_", "c_")) else "Parameter"
    if node.op == "output":
        return "IO Node"
    namespace = getattr(node.target, "namespace", "")
    name = getattr(node.target, "_opname", getattr(node.target, "__name__", str(node.target)))
    return f"{namespace}::{name}" if namespace else name


def _node(name: str, kind: str, inputs: list[str], shape: tuple[int, ...] | None = None) -> NodeDef:
    attributes = {}
    if shape is not None:
        held = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in shape])
        attributes["_output_shapes"] = AttrValue(list=AttrValue.ListValue(shape=[held]))
    return NodeDef(name=name, op=kind, input=inputs, attr=attributes)


def of_onnx(path: Any) -> GraphDef:
    """The graph of an ONNX file."""
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    nodes = [_node(value.name, "IO Node", []) for value in graph.input]
    nodes += [_node(tensor.name, "Parameter", [], tuple(tensor.dims)) for tensor in graph.initializer]
    makers = {name: node.output[0] for node in graph.node for name in node.output}
    for node in graph.node:
        inputs = [makers.get(name, name) for name in node.input if name]
        nodes.append(_node(node.output[0], node.op_type, inputs))
    return GraphDef(node=nodes, versions=VersionDef(producer=22))
