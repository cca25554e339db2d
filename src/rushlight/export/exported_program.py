"""A module and a call of it as a graph that stands for itself: with its weights, and without its Python code."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..core import pytree
from ..core.aten import INPLACE, overload
from ..core.errors import InternalError
from ..core.registry import REGISTRY
from ..core.tensor import Tensor
from ..fx._code import Structure
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..fx.interpreter import Interpreter
from ..fx.node import Node
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._inputs import CallSpec, CheckInputs, Inputs
from ._sizes import ValueRanges
from ._trace import traced
from .graph_signature import ExportGraphSignature, InputKind, OutputKind

__all__ = ["CallSpec", "ExportedProgram"]

_Argument = inspect.Parameter


class ExportedProgram:
    """What `export` makes. `module()` gives what can be called.

    >>> program = rl.export.export(nn.Linear(2, 3), (rl.ones(1, 2),))
    >>> program.module()(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """

    def __init__(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Tensor],
        constants: dict[str, Tensor],
        inputs: Inputs,
        range_constraints: dict[str, ValueRanges],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        dynamic_shapes: Any = None,
    ) -> None:
        self.graph_module, self._graph_signature = graph_module, graph_signature
        self._state_dict, self.constants, self._inputs = state_dict, constants, inputs
        self.range_constraints, self._example_inputs = range_constraints, example_inputs
        self.dynamic_shapes = dynamic_shapes
        self.validate()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    @property
    def graph(self) -> Graph:
        return self.graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        return self._state_dict

    @property
    def example_inputs(self) -> Any:
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        return self._inputs.spec

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        return self.constants

    @property
    def dialect(self) -> str:
        return "ATEN"

    def parameters(self) -> Iterator[Parameter]:
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        for name in self._graph_signature.parameters:
            yield name, self._state_dict[name]  # type: ignore[misc]

    def buffers(self) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        for name in self._graph_signature.buffers:
            yield name, self._tensor(name)

    def _tensor(self, name: str) -> Tensor:
        return self._state_dict[name] if name in self._state_dict else self.constants[name]

    def validate(self) -> None:
        """Raise an error if the graph and what is said of it do not agree."""
        self.graph.lint()
        nodes = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        said = [spec.arg.name for spec in self._graph_signature.input_specs]
        if nodes != said:
            raise InternalError(f"the inputs of the graph are {nodes}, and its signature says {said}")

    def module(self, check_guards: bool = True) -> GraphModule:
        """A module that does what the exported one did, on its own parameters and buffers."""
        made = GraphModule(Module(), _unlifted(self))
        _hold(made, self)
        if check_guards:
            made.register_forward_pre_hook(CheckInputs(self._inputs), with_kwargs=True)
        made.training = False
        return made

    def run_decompositions(
        self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None
    ) -> ExportedProgram:
        """The same program with the operators of a table replaced by what their functions compute. Without
        one it is as it was: composite operators are decomposed when a module is exported."""
        if not decomp_table:
            return copy.copy(self)
        if self._example_inputs is None:
            raise RuntimeError(
                "run_decompositions: the program has no example inputs, with which it would be run"
            )
        args, kwargs = self._example_inputs
        module = Expanded(self.module(check_guards=False), decomp_table, self._inputs)
        return ExportedProgram(**vars(traced(module, args, kwargs, self.dynamic_shapes)))

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self._graph_signature).strip("\n").replace("\n", "\n    ")
        ranges = ", ".join(f"{name}: {found}" for name, found in self.range_constraints.items())
        return (
            f"ExportedProgram:\n    {code}\nGraph signature: \n    {signature}\n\n"
            f"Range constraints: {{{ranges}}}\n"
        )

    __repr__ = __str__


def _hold(root: Module, program: ExportedProgram) -> None:
    """Give a module the program's parameters, buffers and constants under their names."""
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            continue
        *path, last = spec.target.split(".")
        place = root
        for part in path:
            if part not in place._modules:
                place.add_module(part, Module())
            place = getattr(place, part)
        tensor = program._tensor(spec.target)
        if isinstance(tensor, Parameter):
            place.register_parameter(last, tensor)
        elif spec.kind is InputKind.BUFFER:
            place.register_buffer(last, tensor, persistent=bool(spec.persistent))
        else:
            setattr(place, last, tensor)


def _unlifted(program: ExportedProgram) -> Graph:
    """The graph with attributes of a module in the place of the inputs that are no arguments, and writes in the
    place of outputs that are new contents."""
    inputs, signature = program._inputs, program.graph_signature
    graph = Graph()
    known: dict[Node, Any] = {}
    given = [n for n in program.graph.nodes if n.op == "placeholder"]
    specs = list(zip(given, signature.input_specs, strict=True))
    for node, spec in specs:
        if spec.kind is InputKind.USER_INPUT:
            known[node] = graph.placeholder(node.name)
    for node, spec in specs:
        if spec.kind is not InputKind.USER_INPUT:
            known[node] = graph.get_attr(str(spec.target))
    results = graph.graph_copy(program.graph, known)
    nodes = {node.name: known[node] for node in given}
    targets = {
        str(spec.target): nodes[spec.arg.name] for spec in signature.input_specs if spec.target is not None
    }
    outputs: list[Any] = []
    for found, output in zip(results, signature.output_specs, strict=True):
        if output.kind is OutputKind.USER_OUTPUT:
            outputs.append(found)
            continue
        is_buffer = output.kind is OutputKind.BUFFER_MUTATION
        target = targets[str(output.target)] if is_buffer else nodes[str(output.target)]
        graph.call_function(_COPY, (target, found))
    graph.output(tuple(outputs))
    graph._structure = Structure(
        inputs.positional, inputs.spec.in_spec, inputs.spec.out_spec, inputs.keywords
    )
    return graph


_COPY = overload(REGISTRY["copy"], INPLACE)


class Expanded(Module):
    """A module with a graph, which runs functions in the place of some operators."""

    def __init__(self, module: GraphModule, table: Mapping[Any, Callable[..., Any]], inputs: Inputs) -> None:
        super().__init__()
        self._parameters, self._buffers, self._modules = module._parameters, module._buffers, module._modules
        self._non_persistent_buffers_set = module._non_persistent_buffers_set
        self.__dict__["_run"] = Replacing(module, table)
        structure: Any = module.graph._structure

        def forward(*args: Any, **kwargs: Any) -> Any:
            leaves = pytree.flatten((args, kwargs))[0]
            found = self._run.run(*leaves, enable_io_processing=False)
            return structure.out_spec.unflatten(found)

        kinds = ((inputs.positional, _Argument.POSITIONAL_ONLY), (inputs.keywords, _Argument.KEYWORD_ONLY))
        names = [_Argument(name, kind) for part, kind in kinds for name in part]
        forward.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
        self.__dict__["forward"] = forward


class Replacing(Interpreter):
    """Runs a graph with functions in the place of some operators."""

    def __init__(self, module: GraphModule, table: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__(module)
        self._table = table

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._table.get(target, target)(*args, **kwargs)
