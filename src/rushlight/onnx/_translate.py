"""An exported program as an ONNX model: the example runs through the graph, and what each node is in it decides
dtypes and ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import pytree
from ..core.aten import OpOverload
from ..core.registry import Kind
from ..core.tensor import Tensor
from ..decompositions.table import decomposition_of, has_decomposition
from ..export.exported_program import ExportedProgram
from ..export.graph_signature import InputKind, OutputKind
from ..fx.node import Node, map_arg
from . import _indices, _shapes, _sums  # noqa: F401, their rules
from ._custom import by_custom, custom_function
from ._model import INT64, Model, Number, Value, onnx_type, to_proto
from ._pointwise import pointwise
from ._rules import RULES
from .errors import OnnxExporterError, UnsupportedOperatorError

_MOST_LEVELS = 8  # of operators that are defined by others that are defined by others

_NUMBERS: dict[Any, Callable[..., str]] = {
    operator.add: lambda model, a, b: model.op("Add", a, b),
    operator.sub: lambda model, a, b: model.op("Sub", a, b),
    operator.mul: lambda model, a, b: model.op("Mul", a, b),
    operator.neg: lambda model, a: model.op("Neg", a),
    operator.mod: lambda model, a, b: model.op("Mod", a, b),
    # rounds towards zero, which is the same for sizes
    operator.floordiv: lambda model, a, b: model.op("Div", a, b),
    min: lambda model, *a: model.op("Min", *a),
    max: lambda model, *a: model.op("Max", *a),
}


class Translation:
    """The translation of one program. `names`: of the inputs and outputs of the model, by nodes."""

    def __init__(self, program: ExportedProgram, opset: int, inputs: Sequence[str] | None) -> None:
        self._program, self.model = program, Model(opset)
        self._known: dict[Node, Any] = {}  # what stands for a node in the model
        self._examples: dict[Node, Any] = {}
        self.inputs: list[tuple[str, Value]] = []  # of the call, with what they are in the example
        self.weights: list[tuple[str, Tensor]] = []
        self._given = list(inputs or ())

    def run(self) -> list[Any]:
        """Translate it, and give the results of a call: names, or numbers that are the same in every call."""
        self._placeholders()
        for node in self._program.graph.nodes:
            if node.op == "call_function":
                self._node(node)
        (output,) = (node for node in self._program.graph.nodes if node.op == "output")
        specs = self._program.graph_signature.output_specs
        return [
            self._result(found)
            for found, spec in zip(output.args[0], specs, strict=True)
            if spec.kind is OutputKind.USER_OUTPUT
        ]

    def _result(self, found: Any) -> Any:
        if not isinstance(found, Node):
            return found
        example, known = self._examples[found], self._known[found]
        if isinstance(example, Tensor):
            return Value(known.name, example.dtype, tuple(example.shape))
        return known

    def _placeholders(self) -> None:
        signature, program = self._program.graph_signature, self._program
        if program.example_inputs is None:
            raise OnnxExporterError("onnx.export: the program has no example inputs, which the export needs")
        leaves = iter(pytree.flatten(program.example_inputs)[0])
        nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(nodes, signature.input_specs, strict=True):
            if spec.kind is not InputKind.USER_INPUT:
                tensor = program._tensor(str(spec.target))
                name = self.model.name(str(spec.target))
                self.weights.append((name, tensor))
                self._keep(node, tensor, name)
                continue
            leaf = next(leaves)
            if isinstance(leaf, Tensor):
                wanted = self._given.pop(0) if self._given else str(node.target)
                name = self.model.name(wanted)
                if name != wanted:
                    raise OnnxExporterError(f"onnx.export: the name {wanted} is given twice")
                self._keep(node, leaf, name)
                self.inputs.append((name, self._known[node]))
            else:
                self._known[node] = self._examples[node] = leaf
        if self._given:
            raise ValueError(
                f"onnx.export: there are {len(self.inputs)} inputs and no place for the names {self._given}"
            )

    def _keep(self, node: Node, example: Any, name: Any) -> None:
        """Remember what stands for a node."""
        self._examples[node] = example
        if isinstance(example, Tensor):
            self._known[node] = Value(self.model.tensor(name), example.dtype, tuple(example.shape))
        elif isinstance(example, tuple | list):
            self._known[node] = [
                None if part is None else Value(self.model.tensor(part), e.dtype, tuple(e.shape))
                for part, e in zip(name, example, strict=True)
            ]
        else:
            self._known[node] = Number(self.model.tensor(name), example)

    # Nodes.

    def _node(self, node: Node) -> None:
        args, kwargs = (map_arg(given, self._examples.__getitem__) for given in (node.args, node.kwargs))
        example = node.target(*args, **kwargs)
        target = node.target
        if target is operator.getitem:
            self._examples[node] = example
            self._known[node] = self._known[node.args[0]][node.args[1]]
            return
        try:
            if isinstance(target, OpOverload):
                self._keep(node, example, self._operator(node, target, example))
            else:
                self._keep(node, example, self._number(node))
        except NotImplementedError as error:
            name = f"{target.namespace}.{target.__name__}" if isinstance(target, OpOverload) else str(target)
            raise UnsupportedOperatorError(name, node.meta.get("line", ""), str(error)) from None

    def _number(self, node: Node) -> str:
        """A number that is computed of sizes."""
        if node.target not in _NUMBERS:
            raise NotImplementedError("sizes are computed with it")
        given = map_arg(node.args, self._known.__getitem__)
        if not all(isinstance(x, int) or (isinstance(x, Number) and x.dtype is INT64) for x in given):
            raise NotImplementedError("sizes are computed with a number that is none")
        return _NUMBERS[node.target](self.model, *(self.model.row(x) for x in given))

    def _operator(self, node: Node, target: OpOverload, example: Any) -> Any:
        op, model = target.op, self.model
        if op.name == "sym_size.int":
            given, dim = self._known[node.args[0]], node.args[1]
            return model.op("Shape", given, start=dim, end=dim + 1)
        args = bound(target, node.args, node.kwargs)
        known = [map_arg(value, self._known.__getitem__) for value in args]
        custom = custom_function(target.namespace, target.__name__, model.opset)
        if custom is not None:
            return by_custom(custom, model, known, len(example) if isinstance(example, tuple | list) else 1)
        if op.name in RULES:
            return self._by_rule(node, op.name, op.schema.argument_names, known, example)
        if op.kind is Kind.POINTWISE:
            examples = [map_arg(value, self._examples.__getitem__) for value in args]
            parts = example if isinstance(example, tuple) else (example,)
            found = pointwise(model, op, known, examples, [part.dtype for part in parts])
            return found if isinstance(example, tuple) else found[0]
        raise NotImplementedError("random" if op.random else "")

    def _by_rule(
        self, node: Node, name: str, names: Sequence[str], known: Sequence[Any], example: Any
    ) -> Any:
        function, wanted = RULES[name]
        named = dict(zip(names, known, strict=True))
        several = isinstance(example, tuple | list)
        made = [
            Value("", e.dtype, tuple(e.shape)) for e in (example if several else [example]) if _is_tensor(e)
        ]
        used = {user.args[1] for user in node.users if user.target is operator.getitem}
        more: Mapping[str, Any] = {
            "result": made if several else made[0] if made else None,
            "args": known,
            "named": named,
            "name": name.partition(".")[0],
            "used": [i in used for i in range(len(made))],
        }
        return function(self.model, **{key: more[key] if key in more else named[key] for key in wanted})


def simplified(program: ExportedProgram, opset: int) -> ExportedProgram:
    """A program without operators that have no form in ONNX but are defined by others."""
    for _ in range(_MOST_LEVELS):
        targets = {n.target for n in program.graph.nodes if isinstance(n.target, OpOverload)}
        table = {
            target: decomposition_of(target.op)
            for target in targets
            if custom_function(target.namespace, target.__name__, opset) is None
            and target.op.name not in RULES
            and target.op.kind is not Kind.POINTWISE
            and has_decomposition(target.op)
        }
        if not table:
            break
        program = program.run_decompositions(table)
    return program


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def bound(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The complete arguments of a call, in the order of the schema."""
    found = []
    for i, argument in enumerate(target.op.schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name, argument.default)
        found.append(list(value) if isinstance(value, tuple) else value)
    return found


def weight_proto(name: str, tensor: Tensor) -> Any:
    return to_proto(np.ascontiguousarray(tensor.detach().numpy_array()), name)


__all__ = ["Translation", "onnx_type", "weight_proto"]
