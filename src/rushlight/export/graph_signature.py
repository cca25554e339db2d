"""What the inputs and outputs of an exported graph are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

__all__ = [
    "ConstantArgument",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymIntArgument",
    "TensorArgument",
]


@dataclass
class TensorArgument:
    """A tensor, which is the node of this name."""

    name: str


@dataclass
class SymIntArgument:
    """A size, which is the node of this name."""

    name: str


@dataclass
class ConstantArgument:
    """A value that is the same in every call."""

    name: str
    value: Any


ArgumentSpec = TensorArgument | SymIntArgument | ConstantArgument


class InputKind(Enum):
    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()


class OutputKind(Enum):
    USER_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()


@dataclass
class InputSpec:
    kind: InputKind
    arg: ArgumentSpec
    target: str | None  # the name of the parameter, buffer or constant
    persistent: bool | None = None  # of a buffer

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    kind: OutputKind
    arg: ArgumentSpec
    target: str | None  # what gets new contents

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of a graph, in order: parameters, buffers, constants, then what the user passes; new
    contents of buffers and of arguments, then what the user gets.

    >>> program = rl.export.export(nn.Linear(2, 3), (rl.ones(1, 2),))
    >>> list(program.graph_signature.parameters)
    ['weight', 'bias']
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _inputs(self, kind: InputKind) -> list[InputSpec]:
        return [spec for spec in self.input_specs if spec.kind is kind]

    def _outputs(self, kind: OutputKind) -> list[OutputSpec]:
        return [spec for spec in self.output_specs if spec.kind is kind]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self._inputs(InputKind.PARAMETER))

    @property
    def buffers(self) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self._inputs(InputKind.BUFFER))

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self._inputs(InputKind.BUFFER) if not spec.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        return tuple(str(spec.target) for spec in self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        return tuple(_shown(spec.arg) for spec in self._inputs(InputKind.USER_INPUT))

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        return tuple(_shown(spec.arg) for spec in self._outputs(OutputKind.USER_OUTPUT))

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        return _targets(self._inputs(InputKind.PARAMETER))

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        return _targets(self._inputs(InputKind.BUFFER))

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        return _targets(self._inputs(InputKind.CONSTANT_TENSOR))

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        return _targets(self._outputs(OutputKind.BUFFER_MUTATION))

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        return _targets(self._outputs(OutputKind.USER_INPUT_MUTATION))

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


def _shown(argument: ArgumentSpec) -> Any:
    return argument.value if isinstance(argument, ConstantArgument) else argument.name


def _targets(specs: Iterable[InputSpec | OutputSpec]) -> dict[str, str]:
    return {spec.arg.name: str(spec.target) for spec in specs}
