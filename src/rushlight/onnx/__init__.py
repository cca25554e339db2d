"""Models in the ONNX format: `export(module, args, "model.onnx")`, through the `onnx` package (the extra `onnx`).

A module is exported as a graph of operators first (`rushlight.export`); each operator is written as ONNX has it.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import errors as errors
from . import operators as operators
from . import symbolic_helper as symbolic_helper
from . import symbolic_opset11 as symbolic_opset11
from ._custom import register_custom_op_symbolic, unregister_custom_op_symbolic
from ._export import options_of, run
from ._program import ONNXProgram
from .errors import OnnxExporterError

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TensorProtoDataType",
    "TrainingMode",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]


class TrainingMode(enum.Enum):
    """Which mode of a module is exported.

    >>> rl.onnx.TrainingMode.EVAL.value
    0
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Which operators a model may have: those of ONNX.

    >>> rl.onnx.OperatorExportTypes.ONNX.value
    0
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    """The numbers that the format has for dtypes.

    >>> rl.onnx.TensorProtoDataType.INT64.value
    7
    """

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL = range(10)
    FLOAT16, DOUBLE, UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16, FLOAT8E4M3FN = range(10, 18)
    FLOAT8E4M3FNUZ, FLOAT8E5M2, FLOAT8E5M2FNUZ = range(18, 21)


class _State:
    now = False


_STATE = _State()


def is_in_onnx_export() -> bool:
    """Whether a module is being exported.

    >>> rl.onnx.is_in_onnx_export()
    False
    """
    return _STATE.now


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: dict[Callable[..., Any], Callable[..., Any]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Any] | None = None,
    training: TrainingMode = TrainingMode.EVAL,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: Any = False,
    autograd_inlining: bool = True,
) -> Any:
    """The ONNX model of a module, or of an ExportedProgram, and of a call of it with `args`; written to `f`, if
    that is given. Sizes are fixed, unless `dynamic_shapes` (as `rushlight.export.export` takes it) or
    `dynamic_axes` (by the names of inputs) says which change.

    There is one way to export here: `dynamo=True` returns an ONNXProgram, and with `dynamo=False` the model is in
    the mode that `training` says, and None is returned. `optimize` removes copies and what is not needed,
    `verify` compares with what onnxruntime gives. What is not available raises NotImplementedError.

    >>> program = rl.onnx.export(nn.Linear(2, 3), (rl.ones(4, 2),), input_names=["x"], output_names=["y"])
    >>> program
    ONNXProgram(2 nodes, inputs ['x'], outputs ['y'])
    """
    return run(model, args, f, options_of(locals()), _STATE)
