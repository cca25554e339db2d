"""Styles: how the parameters of a module are cut, and how what goes in and comes out is placed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ....core.tensor import Tensor
from ....nn.modules.linear import Linear
from ....nn.modules.module import Module
from ....nn.modules.sparse import Embedding
from .._api import DTensor, replace_parameter
from ..placement_types import Placement, Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """What `parallelize_module` does with a module."""

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: Any) -> Module: ...

    def _place(self, module: Module, mesh: Any, placements: dict[str, Placement]) -> None:
        """Make the parameters DTensors; Replicate() for those that are not named."""
        parameters: dict[str, Any] = module._parameters
        for name, parameter in list(parameters.items()):
            if parameter is not None and not isinstance(parameter, DTensor):
                placed = [placements.get(name, Replicate())]
                module.register_parameter(
                    name, replace_parameter(parameter, mesh, placed, self.src_data_rank)
                )


def _distributed(value: Any, mesh: Any, given: Placement, wanted: Placement) -> Any:
    """A tensor as a DTensor placed as `wanted`, where it is `given` as."""
    if not isinstance(value, Tensor):
        return value
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, [given])
    return value.redistribute(placements=[wanted])


def _returned(value: Any, wanted: Placement, local: bool) -> Any:
    if not isinstance(value, DTensor):
        return value
    value = value.redistribute(placements=[wanted])
    return value.to_local() if local else value


class _OneInput(ParallelStyle):
    """A style of a module with one input and one output."""

    desired: Placement

    def __init__(self, given: Placement, output: Placement, use_local_output: bool) -> None:
        self.input_layouts, self.output_layouts = (given,), (output,)
        self.use_local_output = use_local_output

    def _wanted(self, module: Module) -> Placement:
        return self.desired

    def _hook(self, module: Module, mesh: Any) -> Module:
        (given,), (output,), wanted = self.input_layouts, self.output_layouts, self._wanted(module)
        local = self.use_local_output

        def before(module: Module, inputs: Any) -> Any:
            return (_distributed(inputs[0], mesh, given, wanted), *inputs[1:])

        def after(module: Module, inputs: Any, result: Any) -> Any:
            return _returned(result, output, local)

        module.register_forward_pre_hook(before)
        module.register_forward_hook(after)
        return module


class ColwiseParallel(_OneInput):
    """A Linear whose outputs are divided among the processes, or an Embedding whose columns are."""

    desired = Replicate()

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        if isinstance(module, Linear):
            self._place(module, device_mesh, {"weight": Shard(0), "bias": Shard(0)})
        elif isinstance(module, Embedding):
            self._place(module, device_mesh, {"weight": Shard(1)})
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._hook(module, device_mesh)


class RowwiseParallel(_OneInput):
    """A Linear whose inputs are divided among the processes, or an Embedding whose rows are."""

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _wanted(self, module: Module) -> Placement:
        return Shard(-1) if isinstance(module, Linear) else Replicate()

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        if isinstance(module, Linear):
            self._place(module, device_mesh, {"weight": Shard(1)})
        elif isinstance(module, Embedding):
            self._place(module, device_mesh, {"weight": Shard(0)})
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")
        return self._hook(module, device_mesh)


class SequenceParallel(_OneInput):
    """A normalization, or another module without exchange along the sequence: each process has a piece of it, and
    all parameters."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(Shard(sequence_dim), Shard(sequence_dim), use_local_output)
        self.sequence_dim = sequence_dim
        self.desired = Shard(sequence_dim)

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        self._place(module, device_mesh, {})
        return self._hook(module, device_mesh)


def _several(layouts: Any) -> tuple[Placement | None, ...]:
    return (layouts,) if isinstance(layouts, Placement) or layouts is None else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """Inputs of a module, given as `input_layouts`, become `desired_input_layouts`; None leaves one as it is."""

    def __init__(
        self,
        *,
        input_layouts: Placement | Sequence[Placement | None] | None = None,
        desired_input_layouts: Placement | Sequence[Placement | None] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = None if input_layouts is None else _several(input_layouts)
        self.desired_input_layouts = (
            None if desired_input_layouts is None else _several(desired_input_layouts)
        )
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None and len(self.input_layouts) != len(
            self.desired_input_layouts or ()
        ):
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if self.input_kwarg_layouts.keys() != self.desired_input_kwarg_layouts.keys():
            raise AssertionError(
                "input_kwarg_layouts and desired_input_kwarg_layouts should have the same names!"
            )

    def _one(self, value: Any, mesh: Any, given: Placement | None, wanted: Placement | None) -> Any:
        if given is None or wanted is None:
            return value
        placed = _distributed(value, mesh, given, wanted)
        return placed.to_local() if self.use_local_output and isinstance(placed, DTensor) else placed

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def before(module: Module, inputs: Any, kwargs: dict[str, Any]) -> Any:
            if self.input_layouts is not None:
                if len(inputs) != len(self.input_layouts):
                    raise ValueError("module inputs and input_layouts should have same length!")
                pairs = zip(inputs, self.input_layouts, self.desired_input_layouts or (), strict=True)
                inputs = tuple(self._one(value, device_mesh, given, wanted) for value, given, wanted in pairs)
            named = {
                name: self._one(
                    value,
                    device_mesh,
                    self.input_kwarg_layouts.get(name),
                    self.desired_input_kwarg_layouts.get(name),
                )
                for name, value in kwargs.items()
            }
            return inputs, named

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Outputs of a module, given as `output_layouts`, become `desired_output_layouts`."""

    def __init__(
        self,
        *,
        output_layouts: Placement | Sequence[Placement | None],
        desired_output_layouts: Placement | Sequence[Placement | None],
        use_local_output: bool = True,
    ) -> None:
        self.output_layouts, self.desired_output_layouts = (
            _several(output_layouts),
            _several(desired_output_layouts),
        )
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        def after(module: Module, inputs: Any, result: Any) -> Any:
            results = result if isinstance(result, tuple) else (result,)
            if len(results) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            placed = []
            for value, given, wanted in zip(
                results, self.output_layouts, self.desired_output_layouts, strict=True
            ):
                if given is not None and wanted is not None:
                    value = _returned(
                        _distributed(value, device_mesh, given, wanted), wanted, self.use_local_output
                    )
                placed.append(value)
            return tuple(placed) if isinstance(result, tuple) else placed[0]

        module.register_forward_hook(after)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Both."""

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: Any) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
