"""What `onnx.export` gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core import pytree
from ..core.construct import from_numpy
from ..core.tensor import Tensor
from ..export.exported_program import ExportedProgram
from ._model import package
from .errors import OnnxExporterError

_LARGE = 1024  # bytes: smaller tensors stay in the file itself


class ONNXProgram:
    """An exported model: `model_proto` is what the `onnx` package works with, `save` writes a file, and a call
    runs it with the `onnxruntime` package.

    >>> program = rl.onnx.export(nn.Linear(2, 3), (rl.ones(1, 2),))
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Transpose', 'Gemm']
    >>> program(rl.ones(1, 2))[0].shape
    rushlight.Size([1, 3])
    """

    def __init__(
        self, model_proto: Any, exported_program: ExportedProgram, constants: Mapping[int, Any]
    ) -> None:
        self.model_proto, self.exported_program = model_proto, exported_program
        self._constants = dict(constants)  # results that are the same in every call, by their places
        self._session: Any = None

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        inputs, outputs = ([value.name for value in part] for part in (graph.input, graph.output))
        return f"ONNXProgram({len(graph.node)} nodes, inputs {inputs}, outputs {outputs})"

    def initialize_inference_session(self, initializer: Callable[[bytes], Any] | None = None) -> None:
        """Load the model into onnxruntime, or with a function of the user's that takes its bytes."""
        self._session = (initializer or _session)(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Forget what `initialize_inference_session` loaded."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The results of the model, in a row."""
        if self._session is None:
            self.initialize_inference_session()
        given = [leaf for leaf in pytree.flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        names = [value.name for value in self.model_proto.graph.input]
        if len(given) != len(names):
            raise ValueError(f"the model has inputs {names}, and the call {len(given)} tensors")
        arrays = {name: tensor.detach().numpy() for name, tensor in zip(names, given, strict=True)}
        found = iter(self._session.run(None, arrays))
        count = len(self.model_proto.graph.output) + len(self._constants)
        return tuple(
            self._constants[i] if i in self._constants else _tensor(next(found)) for i in range(count)
        )

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file. With `external_data` the weights are in another file beside it, whose name
        has `.data` at the end; without `include_initializers` they are left out."""
        onnx = package()
        model = onnx.ModelProto()
        model.CopyFrom(self.model_proto)
        graph = model.graph
        if keep_initializers_as_inputs or not include_initializers:
            known = {value.name for value in graph.input}
            graph.input.extend(
                onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims)
                for t in graph.initializer
                if t.name not in known
            )
        if not include_initializers:
            del graph.initializer[:]
        path = os.fspath(destination)
        location = f"{os.path.basename(path)}.data"
        if external_data:
            data = os.path.join(os.path.dirname(path), location)
            if os.path.exists(data):  # the package would write behind what is there
                os.remove(data)
        onnx.save_model(
            model,
            path,
            save_as_external_data=bool(external_data),
            all_tensors_to_one_file=True,
            location=location if external_data else None,
            size_threshold=_LARGE,
        )


def _session(model: bytes) -> Any:
    try:
        import onnxruntime
    except ModuleNotFoundError:
        raise ImportError(
            "running an ONNX model needs the onnxruntime package: pip install 'rushlight[onnx]'"
        ) from None
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])


def _tensor(found: Any) -> Any:
    return from_numpy(np.array(found)) if isinstance(found, np.ndarray | np.generic) else found


def verify(program: ONNXProgram, expected: Sequence[Any], example: tuple[Any, dict[str, Any]]) -> None:
    """OnnxExporterError if onnxruntime gives other results for the example."""
    args, kwargs = example
    for i, (found, wanted) in enumerate(zip(program(*args, **kwargs), expected, strict=True)):
        if isinstance(wanted, Tensor) and not np.allclose(
            found.numpy(), wanted.detach().numpy(), rtol=1e-3, atol=1e-4, equal_nan=True
        ):
            raise OnnxExporterError(
                f"onnx.export: result {i} of the exported model is not that of the program"
            )
