"""From a module and example inputs to the parts of an exported program."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from ..capture.errors import CaptureError
from ..core import pytree
from ..core.errors import UserError
from ..core.tensor import Tensor
from ..fx.graph_module import GraphModule
from ..fx.node import Node
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._inputs import CallSpec, Inputs
from ._record import Input, Recorded, Recorder
from ._sizes import ValueRanges
from .dynamic_shapes import ShapesCollection, changing_sizes
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

_KINDS = (bool, int, float, complex, str, bytes, type(None))


class ExportError(CaptureError):
    """The program does something that cannot be exported."""

    otherwise = ()


@dataclass
class Parts:
    """What an ExportedProgram is made of."""

    graph_module: GraphModule
    graph_signature: ExportGraphSignature
    state_dict: dict[str, Tensor]
    constants: dict[str, Tensor]
    inputs: Inputs
    range_constraints: dict[str, ValueRanges]
    example_inputs: tuple[tuple[Any, ...], dict[str, Any]]
    dynamic_shapes: Any


def traced(mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any) -> Parts:
    """Run `mod` once on tensors that look like the arguments, and keep what it did."""
    positional, keywords = _argument_names(mod, args, kwargs)
    kwargs = {name: kwargs[name] for name in keywords}
    if isinstance(dynamic_shapes, ShapesCollection):
        dynamic_shapes = dynamic_shapes.dynamic_shapes(mod, args, kwargs)
    names, values = [*positional, *keywords], [*args, *kwargs.values()]
    in_spec = pytree.flatten((args, kwargs))[1]
    inputs = [
        Input(path, leaf)
        for name, value in zip(names, values, strict=True)
        for path, leaf in _paths(name, value)
    ]
    _check_leaves(inputs)
    changing = changing_sizes(dynamic_shapes, names, values)
    named = _named_tensors(mod)
    recorder = Recorder([given for given, _ in named], inputs, changing, _attributes(mod))
    try:
        recorded = recorder.record(mod, in_spec.unflatten)
    except CaptureError as error:
        raise ExportError(error.what, error.place, error.problem) from None
    signature = _signature(recorded, named, inputs)
    recorded.graph.eliminate_dead_code()
    used = {(size.leaf, size.dim) for size in changing} & set(recorded.symbols.values())
    shapes = tuple(_shape(i, given.value, used) for i, given in enumerate(inputs))
    given = Inputs(
        tuple(given.name for given in inputs),
        positional,
        keywords,
        CallSpec(in_spec, recorded.structure),
        shapes,
        tuple(None if isinstance(given.value, Tensor) else given.value for given in inputs),
        recorded.symbols,
        tuple(recorded.conditions),
    )
    module = GraphModule({}, recorded.graph)
    persistent = set(mod.state_dict(keep_vars=True))
    state = {i.name: i.value for i, _ in named if i.name in persistent}
    constants = {i.name: i.value for i, _ in named if i.name not in state}
    constants |= {i.name: i.value for i in recorded.constants}
    return Parts(module, signature, state, constants, given, recorded.ranges, (args, kwargs), dynamic_shapes)


def _argument_names(
    mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the arguments that are passed by their places, and of those that are passed by name."""
    signature = inspect.signature(mod.forward)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UserError(f"export: the example inputs do not fit forward(): {error}") from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}_{i}" for i in range(len(value))]
        elif kind is inspect.Parameter.POSITIONAL_ONLY or name not in kwargs:
            names += [] if kind is inspect.Parameter.VAR_KEYWORD else [name]
    order = [name for name in signature.parameters if name in kwargs]
    order += [name for name in kwargs if name not in order]
    return tuple(names), tuple(order)


def _paths(name: str, value: Any) -> list[tuple[str, Any]]:
    """The leaves of an argument with names that say where they are in it."""
    leaves, spec = pytree.flatten(value)
    return list(zip(_leaf_paths(name, spec), leaves, strict=True))


def _leaf_paths(name: str, spec: pytree.TreeSpec) -> list[str]:
    if spec.type is None:
        return [name]
    keys: Any = range(len(spec.children))
    if isinstance(spec.type, type) and issubclass(spec.type, dict):
        keys = spec.context[0]
    elif hasattr(spec.type, "_fields"):
        keys = spec.type._fields
    parts = zip(keys, spec.children, strict=True)
    return [path for key, child in parts for path in _leaf_paths(f"{name}_{key}", child)]


def _check_leaves(inputs: list[Input]) -> None:
    for given in inputs:
        if not isinstance(given.value, (Tensor, *_KINDS)):
            raise UserError(
                f"Unsupported input type {type(given.value)} of {given.name}. Export only supports "
                "pytree containers "
                "of basic types (Tensor, int, float, ...) as input. To register a custom dataclass, use "
                "torch.export.register_dataclass."
            )


def _named_tensors(mod: Module) -> list[tuple[Input, InputSpec]]:
    """Parameters and buffers, as inputs of the graph."""
    found: list[tuple[Input, InputSpec]] = []
    persistent = set(mod.state_dict(keep_vars=True))
    for name, tensor in [
        *mod.named_parameters(remove_duplicate=False),
        *mod.named_buffers(remove_duplicate=False),
    ]:
        is_parameter = isinstance(tensor, Parameter)
        prefix = "p" if is_parameter else "b"
        kind = InputKind.PARAMETER if is_parameter else InputKind.BUFFER
        keeps = None if is_parameter else name in persistent
        given = Input(name, tensor, prefix=prefix)
        found.append((given, InputSpec(kind, TensorArgument(""), name, keeps)))
    return found


def _attributes(mod: Module) -> dict[int, str]:
    """By identity, the names of tensors that are attributes of modules, and nothing else."""
    return {
        id(value): f"{path}.{name}" if path else name
        for path, module in mod.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    }


def _signature(
    recorded: Recorded, named: list[tuple[Input, InputSpec]], inputs: list[Input]
) -> ExportGraphSignature:
    """What the inputs and outputs of the graph are; the node of the outputs is made."""
    specs = []
    for given, spec in named:
        assert given.node is not None
        spec.arg = TensorArgument(given.node.name)
        specs.append(spec)
    for given in recorded.constants:
        specs.append(InputSpec(InputKind.CONSTANT_TENSOR, _argument(given.node), given.name))
    for given in inputs:
        assert given.node is not None
        tensor = isinstance(given.value, Tensor)
        arg = TensorArgument(given.node.name) if tensor else ConstantArgument(given.node.name, given.value)
        specs.append(InputSpec(InputKind.USER_INPUT, arg, None))
    buffers = {id(given): spec for given, spec in named}
    constants = {id(given) for given in recorded.constants}
    outputs, results = [], []
    for given, node in recorded.writes:
        if id(given) in constants:
            raise UserError(
                "export: the program writes to a tensor that is neither a parameter, a buffer nor an argument; "
                "register it as a buffer (register_buffer)"
            )
        assert given.node is not None
        buffer = buffers.get(id(given))
        kind = OutputKind.USER_INPUT_MUTATION if buffer is None else OutputKind.BUFFER_MUTATION
        target = given.node.name if buffer is None else buffer.target
        outputs.append(OutputSpec(kind, TensorArgument(node.name), target))
        results.append(node)
    sizes = set(recorded.size_nodes)
    for found in recorded.outputs:
        argument = SymIntArgument(found.name) if found in sizes else _argument(found)
        outputs.append(OutputSpec(OutputKind.USER_OUTPUT, argument, None))
        results.append(found)
    recorded.graph.output(tuple(results))
    return ExportGraphSignature(specs, outputs)


def _argument(value: Any) -> TensorArgument | ConstantArgument:
    return TensorArgument(value.name) if isinstance(value, Node) else ConstantArgument("", value)


def _shape(leaf: int, value: Any, changing: set[tuple[int, int]]) -> tuple[int | None, ...] | None:
    if not isinstance(value, Tensor):
        return None
    return tuple(None if (leaf, d) in changing else int(size) for d, size in enumerate(value.shape))
