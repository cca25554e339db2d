"""Elementwise operators as compositions: their scalar body, run on tensors.

A body asks its handler for one instruction after the other; here each instruction is the operator of ATen
that it is named after, so the body becomes a composition of simpler operators, with the operands promoted as
the operator promotes them. An operator that is one instruction has no such form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..core import dtypes
from ..core.dispatch import run_name
from ..core.dtypes import BY_NUMPY, DType
from ..core.pointwise import plan_for
from ..core.registry import REGISTRY, Kind, OpDef
from ..core.schema import REQUIRED
from ..core.shapes import broadcast_shapes
from ..core.tensor import Tensor

_NAMES = {
    "floor_div": ("div.Tensor_mode", "floor"),
    "trunc_div": ("div.Tensor_mode", "trunc"),
    "pow": ("pow.Tensor_Tensor",),
    "zeta": ("special_zeta",),
    "where": ("where.self",),
}


class TensorHandler:
    """Instructions of bodies, on tensors."""

    def constant(self, value: Any, like: Tensor) -> Any:
        return run_name("scalar_tensor", value, like.dtype, None, like.device, None)

    def cast(self, x: Tensor, dtype: DType) -> Any:
        return x if x.dtype is dtype else run_name("_to_copy", x, dtype, None, None, None, False, None)

    def dtype(self, x: Tensor) -> DType:
        return x.dtype

    def fma(self, x: Tensor, y: Tensor, z: Tensor) -> Any:
        return run_name("add.Tensor", run_name("mul.Tensor", x, y), z, 1)

    def iterate(self, *args: Any) -> Any:
        raise NotImplementedError("a loop whose length is data is no composition of operators")

    def __getattr__(self, instruction: str) -> Callable[..., Any]:
        found, rest = _operator(instruction)
        if found is None:
            raise NotImplementedError(f"the instruction {instruction} is no operator of its own")
        defaults = found.defaults

        def run(*operands: Any) -> Any:
            given = (*operands, *rest)
            return run_name(found.name, *given, *defaults[len(given) :])

        return run


_handler = TensorHandler()


def _operator(instruction: str) -> tuple[OpDef | None, list[str]]:
    """The operator that an instruction is, and what it takes besides."""
    name, *rest = _NAMES.get(instruction, (instruction,))
    return REGISTRY.ops.get(name) or REGISTRY.ops.get(f"{name}.Tensor"), rest


class _Probe:
    """A handler that notes which instructions a body asks for."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def dtype(self, x: Any) -> DType:
        return dtypes.float64

    def __getattr__(self, instruction: str) -> Callable[..., Any]:
        self.asked.add(instruction)
        return lambda *operands, **named: 0.5


@functools.cache
def is_composed(op: OpDef) -> bool:
    """Whether an elementwise operator is made of others: each of its instructions is one, none is itself."""
    if op.kind is not Kind.POINTWISE or op.instruction:
        return False
    probe = _Probe()
    given = [0.5 if i in op.operands else op.defaults[i] for i in range(len(op.defaults))]
    given = [0 if value is REQUIRED else value for value in given]
    try:
        op.body(probe, *given)  # type: ignore[misc]
    except (TypeError, ValueError, AttributeError, KeyError, IndexError):  # it looks at what is not there
        return False
    known = {name: _operator(name)[0] for name in probe.asked - {"constant", "cast", "fma"}}
    return all(found is not None and found is not op for found in known.values())


def run_composed(op: OpDef, args: tuple[Any, ...]) -> Any:
    """An elementwise operator by its body, on its complete argument tuple."""
    if op.check is not None:
        op.check(args)
    operands = [args[i] for i in op.operands]
    plan = plan_for(op, args, operands)
    device = next(o.device for o in operands if isinstance(o, Tensor))
    full = list(args)
    for i, operand, casts in zip(op.operands, operands, plan.casts, strict=True):
        if operand is None:
            continue
        wanted = [BY_NUMPY[cast] for cast in casts]
        if not isinstance(operand, Tensor):
            operand = run_name("scalar_tensor", operand, wanted[0] if wanted else None, None, device, None)
        for dtype in wanted:
            operand = _handler.cast(operand, dtype)
        full[i] = operand
    result = op.body(_handler, *full)  # type: ignore[misc]
    if isinstance(result, tuple):
        return result
    shape = broadcast_shapes(*(o.shape for o in operands if isinstance(o, Tensor)))
    if result.shape != shape:  # a body that looks at the dtype alone gives a constant
        result = run_name("clone", result.expand(shape), None)
    return _handler.cast(result, plan.result_dtype)
