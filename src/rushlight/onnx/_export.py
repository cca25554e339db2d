"""From a module, or an exported program, to an ONNX model."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core import pytree
from ..core.tensor import Tensor
from ..export import export as exported
from ..export.dynamic_shapes import Dim, changing_sizes
from ..export.exported_program import ExportedProgram
from ..export.graph_signature import OutputKind
from ..nn.modules.module import Module
from ..version import __version__
from ._model import Model, Number, Value, onnx_type, package
from ._program import ONNXProgram, verify
from ._translate import Translation, simplified, weight_proto
from .errors import OnnxExporterError

OPSETS = range(18, 24)
DEFAULT_OPSET = 20
_IR_VERSION = 10


class Options(NamedTuple):
    """What a user asks of an export, under PyTorch's names."""

    kwargs: Mapping[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    opset_version: int | None
    dynamo: bool
    external_data: bool
    dynamic_shapes: Any
    optimize: bool
    verify: bool
    export_params: bool
    keep_initializers_as_inputs: bool
    dynamic_axes: Mapping[str, Any] | None
    training: Any
    verbose: bool | None


# what there is not here, and the values that ask for nothing
_REFUSED: dict[str, tuple[Any, ...]] = {
    "custom_translation_table": (None, {}),
    "report": (False,),
    "profile": (False,),
    "dump_exported_program": (False,),
    "artifacts_dir": (".",),
    "custom_opsets": (None, {}),
    "export_modules_as_functions": (False, None),
    "do_constant_folding": (True,),
    "autograd_inlining": (True,),
}


def options_of(given: Mapping[str, Any]) -> Options:
    """The options among the arguments of a call. NotImplementedError for those that there are not."""
    for name, harmless in _REFUSED.items():
        if given[name] not in harmless:
            raise NotImplementedError(f"onnx.export: {name}={given[name]!r} is not available")
    if given["operator_export_type"].value:
        raise NotImplementedError(f"onnx.export: {given['operator_export_type']} is not available")
    return Options(**{name: given[name] for name in Options._fields})


def run(model: Any, args: Any, f: Any, options: Options, state: Any) -> ONNXProgram | None:
    """Export a model, and write it to `f`."""
    if not options.dynamo and f is None:
        raise ValueError("onnx.export: f, where the model is written to, must be given with dynamo=False")
    args = args if isinstance(args, tuple) else (args,)
    kwargs = dict(options.kwargs or {})
    if not options.dynamo and args and isinstance(args[-1], dict) and not kwargs:
        args, kwargs = args[:-1], args[-1]
    program = exported_model(model, args, kwargs, options, state)
    if options.verbose:
        print(package().printer.to_text(program.model_proto))
    if f is not None:
        write(program, f, external_data=options.external_data and options.dynamo)
    return program if options.dynamo else None


def exported_model(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options, state: Any
) -> ONNXProgram:
    """The model of a call."""
    opset = DEFAULT_OPSET if options.opset_version is None else options.opset_version
    if opset not in OPSETS:
        raise ValueError(
            f"onnx.export: opset_version must be in {OPSETS.start} to {OPSETS.stop - 1}, not {opset}"
        )
    program = model
    if not isinstance(model, ExportedProgram):
        if not isinstance(model, Module):
            kind = type(model).__name__
            raise TypeError(f"onnx.export: a module or an ExportedProgram is exported, not {kind}")
        shapes = options.dynamic_shapes
        if options.dynamic_axes and shapes is None:
            shapes = shapes_of_axes(options.dynamic_axes, model, args, kwargs, options.input_names or ())
        with _exporting(state), _in_mode(model, None if options.dynamo else options.training):
            program = exported(model, args, kwargs, dynamic_shapes=shapes)
    warn_of_writes(program)
    assembly = Assembly(simplified(program, opset), opset, options.input_names)
    made = ONNXProgram(assembly.model(options), program, assembly.constants)
    if options.verify:
        verify(made, results_of(program), program.example_inputs)
    return made


@contextlib.contextmanager
def _in_mode(model: Module, mode: Any) -> Iterator[None]:
    """Export a module in a mode: 0 for evaluation, 2 for training; None and 1 leave it as it is."""
    modes = [(module, module.training) for module in model.modules()]
    if mode is not None and mode.value != 1:
        model.train(mode.value == 2)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextlib.contextmanager
def _exporting(state: Any) -> Iterator[None]:
    before, state.now = state.now, True
    try:
        yield
    finally:
        state.now = before


def shapes_of_axes(
    axes: Mapping[str, Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str]
) -> Any:
    """`dynamic_axes` as `dynamic_shapes`: axes are said by the names of inputs, {0: "batch"} or [0]."""
    own = [*inspect.signature(model.forward).bind(*args, **kwargs).arguments]
    given: list[Any] = [*args, *(kwargs[name] for name in kwargs)]
    labels = [*names, *own[len(names) :]]
    known: dict[str, Dim] = {}
    found: list[Any] = []
    for i, value in enumerate(given):
        said = axes.get(labels[i]) if i < len(labels) else None
        if said is None or not isinstance(value, Tensor):
            found.append(None)
            continue
        if not isinstance(said, Mapping):
            said = {axis: f"{labels[i]}_dynamic_axes_{axis}" for axis in said}
        found.append({axis: known.setdefault(name, Dim(name)) for axis, name in said.items()})
    return tuple(found)


class Assembly:
    """An ONNX model made of a program."""

    def __init__(self, program: ExportedProgram, opset: int, inputs: Sequence[str] | None) -> None:
        self._program = program
        self._work = Translation(program, opset, inputs)
        self._results = self._work.run()
        self.constants = {
            i: r for i, r in enumerate(self._results) if not isinstance(r, Value) and not _named(r)
        }

    def model(self, options: Options) -> Any:
        onnx = package()
        helper = onnx.helper
        made = self._work.model
        results = self._named_outputs(made, options.output_names)
        if options.optimize:
            made.without_copies([name for name, _ in results])
        weights = [weight_proto(name, tensor) for name, tensor in self._used_weights(made)]
        given = [self._input_info(name, value) for name, value in self._work.inputs]
        if options.keep_initializers_as_inputs or not options.export_params:
            given += [helper.make_tensor_value_info(w.name, w.data_type, w.dims) for w in weights]
        found = [self._output_info(name, value) for name, value in results]
        graph = helper.make_graph(
            made.nodes,
            "main_graph",
            given,
            found,
            [*(weights if options.export_params else ()), *made.initializers],
        )
        domains = sorted({node.domain for node in made.nodes} - {""})
        model = helper.make_model(
            graph,
            producer_name="rushlight",
            producer_version=__version__,
            opset_imports=[
                helper.make_opsetid("", made.opset),
                *(helper.make_opsetid(d, 1) for d in domains),
            ],
            ir_version=_IR_VERSION,
        )
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        onnx.checker.check_model(model)
        return model

    def _used_weights(self, made: Model) -> list[tuple[str, Tensor]]:
        needed = {name for node in made.nodes for name in node.input}
        needed |= {value.name for value in self._results if isinstance(value, Value)}
        return [(name, tensor) for name, tensor in self._work.weights if name in needed]

    def _named_outputs(self, made: Model, outputs: Sequence[str] | None) -> list[tuple[str, Any]]:
        """The results of the model with their names, each of which is that of one result."""
        found = [r for r in self._results if isinstance(r, Value) or _named(r)]
        wanted = list(outputs or ())
        if len(wanted) > len(found):
            raise ValueError(
                f"onnx.export: there are {len(found)} outputs and no place for the names {wanted[len(found) :]}"
            )
        taken = {name for name, _ in (*self._work.inputs, *self._work.weights)} | {
            tensor.name for tensor in made.initializers
        }
        named = []
        for i, result in enumerate(found):
            name = result.name
            if i < len(wanted) or name in taken:
                name = made.name(wanted[i] if i < len(wanted) else f"output_{i}")
                if i < len(wanted) and name != wanted[i]:
                    raise OnnxExporterError(f"onnx.export: the name {wanted[i]} is given twice")
                made.nodes.append(_identity(result.name, name))
            taken.add(name)
            named.append((name, result))
        return named

    def _input_info(self, name: str, value: Value) -> Any:
        helper = package().helper
        leaf = self._program._inputs.names.index(self._leaf(name))
        shape = self._program._inputs.shapes[leaf]
        assert shape is not None
        labels = {(i, d): symbol for symbol, (i, d) in self._program._inputs.symbols.items()}
        said = self._said()
        dims = [
            said.get((leaf, d), labels.get((leaf, d), f"{name}_{d}")) if size is None else size
            for d, size in enumerate(shape)
        ]
        return helper.make_tensor_value_info(name, onnx_type(value.dtype), dims)

    def _leaf(self, name: str) -> str:
        place = [known for known, _ in self._work.inputs].index(name)
        tensors = [
            leaf
            for leaf, shape in zip(self._program._inputs.names, self._program._inputs.shapes, strict=True)
            if shape is not None
        ]
        return tensors[place]

    def _said(self) -> dict[tuple[int, int], str]:
        """The names that users gave to sizes, by leaf and dimension."""
        inputs, example = self._program._inputs, self._program.example_inputs
        values = [*example[0], *example[1].values()]
        names = [*inputs.positional, *inputs.keywords]
        found = changing_sizes(self._program.dynamic_shapes, names, values)
        return {(s.leaf, s.dim): s.said.__name__ for s in found if isinstance(s.said, Dim)}

    def _output_info(self, name: str, value: Any) -> Any:
        helper = package().helper
        if not isinstance(value, Value):
            return helper.make_tensor_value_info(name, onnx_type(value.dtype), [1])
        changes = bool(self._program._inputs.symbols)
        dims: list[int | None] = [None] * value.ndim if changes else list(value.shape)
        return helper.make_tensor_value_info(name, onnx_type(value.dtype), dims)


def _named(result: Any) -> bool:
    return isinstance(result, Number)


def _identity(given: str, name: str) -> Any:
    helper = package().helper
    return helper.make_node("Identity", [given], [name], name=name)


def warn_of_writes(program: ExportedProgram) -> None:
    written = [
        spec.target
        for spec in program.graph_signature.output_specs
        if spec.kind is not OutputKind.USER_OUTPUT
    ]
    if written:
        warnings.warn(
            f"onnx.export: the model does not write to {', '.join(map(str, written))} as the program does; "
            "call eval() before the export if that is not what you want",
            UserWarning,
            stacklevel=4,
        )


def write(program: ONNXProgram, f: Any, **settings: Any) -> None:
    """To a path, or to what has a method `write`."""
    if isinstance(f, str | os.PathLike):
        program.save(f, **settings)
    elif isinstance(f, io.IOBase) or hasattr(f, "write"):
        f.write(program.model_proto.SerializeToString())
    else:
        raise TypeError(f"onnx.export: f must be a path or a file, not {type(f).__name__}")


def results_of(program: ExportedProgram) -> list[Any]:
    args, kwargs = program.example_inputs
    return pytree.flatten(program.module()(*args, **kwargs))[0]
