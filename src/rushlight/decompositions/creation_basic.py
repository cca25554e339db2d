"""New tensors and copies in terms of the few that make them: full, empty, arange with a step, copy.

These operators have kernels and native code of their own; their decompositions are for whoever wants fewer
operators (`get_decompositions`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core import dtypes
from ..core.dispatch import run_name
from ..core.dtypes import DTYPES, DType
from ..core.registry import REGISTRY, decomposition
from ..core.tensor import Tensor

Size = Sequence[int]


def full(size: Size, value: Any, dtype: DType | None, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    made: Tensor = run_name(
        "full", size, value, dtype or dtypes.get_default_dtype(), layout, device, pin_memory
    )
    return made


def counted(count: int, device: Any, dtype: DType | None = None) -> Tensor:
    """0, 1, ..., `count` - 1."""
    made: Tensor = run_name("arange.start_step", 0, count, 1, dtype or DTYPES["int64"], None, device, None)
    return made


# Of one value.


@decomposition("zeros")
def zeros(size: Size, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    return full(size, 0, dtype, layout, device, pin_memory)


@decomposition("ones")
def ones(size: Size, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    return full(size, 1, dtype, layout, device, pin_memory)


@decomposition("new_full")
def new_full(
    self: Tensor, size: Size, fill_value: Any, dtype: Any, layout: Any, device: Any, pin_memory: Any
) -> Tensor:
    return full(size, fill_value, dtype or self.dtype, layout, device or self.device, pin_memory)


decomposition("new_zeros")(
    lambda self, size, dtype, layout, device, pin_memory: new_full(
        self, size, 0, dtype, layout, device, pin_memory
    )
)
decomposition("new_ones")(
    lambda self, size, dtype, layout, device, pin_memory: new_full(
        self, size, 1, dtype, layout, device, pin_memory
    )
)
decomposition("zeros_like")(
    lambda self, dtype, layout, device, pin_memory, memory_format: run_name(
        "full_like", self, 0, dtype, layout, device, pin_memory, memory_format
    )
)
decomposition("ones_like")(
    lambda self, dtype, layout, device, pin_memory, memory_format: run_name(
        "full_like", self, 1, dtype, layout, device, pin_memory, memory_format
    )
)
decomposition("zero")(lambda self: run_name("full_like", self, 0, None, None, None, None, None))
decomposition("fill.Scalar")(
    lambda self, value: run_name("full_like", self, value, None, None, None, None, None)
)
decomposition("fill.Tensor")(lambda self, value: run_name("copy", self, value, False))


# Without a value; the memory order is what the shape rule promises.


@decomposition("empty_like")
def empty_like(
    self: Tensor, dtype: Any, layout: Any, device: Any, pin_memory: Any, memory_format: Any
) -> Tensor:
    rule = REGISTRY["empty_like"].rule
    assert rule is not None
    spec = rule((self, dtype, layout, device, pin_memory, memory_format))
    made: Tensor = run_name(
        "empty_strided",
        spec.known_shape(),
        spec.known_strides(),
        spec.dtype,
        layout,
        device or self.device,
        pin_memory,
    )
    return made


@decomposition("new_empty")
def new_empty(self: Tensor, size: Size, dtype: Any, layout: Any, device: Any, pin_memory: Any) -> Tensor:
    made: Tensor = run_name(
        "empty.memory_format", size, dtype or self.dtype, layout, device or self.device, pin_memory, None
    )
    return made


@decomposition("_to_copy")
def to_copy(
    self: Tensor,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: bool,
    memory_format: Any,
) -> Tensor:
    like = run_name("empty_like", self, dtype, layout, device, pin_memory, memory_format)
    copied: Tensor = run_name("copy", like, self, non_blocking)
    return copied


# Sequences.

decomposition("arange")(
    lambda end, dtype, layout, device, pin_memory: run_name(
        "arange.start_step", 0, end, 1, dtype, layout, device, pin_memory
    )
)
decomposition("arange.start")(
    lambda start, end, dtype, layout, device, pin_memory: run_name(
        "arange.start_step", start, end, 1, dtype, layout, device, pin_memory
    )
)


@decomposition("eye.m")
def eye(n: int, m: int, dtype: Any, layout: Any, device: Any) -> Tensor:
    same = counted(n, device).unsqueeze(1) == counted(m, device)
    return same.to(dtype or dtypes.get_default_dtype())


decomposition("eye")(lambda n, dtype, layout, device: eye(n, n, dtype, layout, device))


def evenly_spaced(start: Any, end: Any, steps: int, spec: Any, device: Any) -> Tensor:
    """From both ends inwards, in the dtype in which `spec` computes."""
    compute: DType = spec.dtype.opmath
    whole = not (compute.is_floating_point or compute.is_complex)
    compute = DTYPES["float64"] if whole else compute

    def number(value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return (value.to(DTYPES["int64"]) if whole else value).to(compute)
        return full((), int(value) if whole else value, compute, None, device, None)

    first, last = number(start), number(end)
    if steps < 2:
        return first.expand((steps,)).clone()
    step = (last - first) / (steps - 1)
    place = counted(steps, device)
    ahead, back = (t.to(compute) for t in (place, steps - 1 - place))
    return (first + step * ahead).where(place < steps // 2, last - step * back)


def _declare_spaces(overload: str) -> None:
    lines, powers = REGISTRY[f"linspace{overload}"], REGISTRY[f"logspace{overload}"]

    @decomposition(lines.name)
    def linspace(
        start: Any, end: Any, steps: int, dtype: Any, layout: Any, device: Any, pin_memory: Any
    ) -> Tensor:
        assert lines.rule is not None
        spec = lines.rule((start, end, steps, dtype, layout, device, pin_memory))
        return evenly_spaced(start, end, steps, spec, device).to(spec.dtype)

    @decomposition(powers.name)
    def logspace(
        start: Any, end: Any, steps: int, base: float, dtype: Any, layout: Any, device: Any, pin_memory: Any
    ) -> Tensor:
        assert powers.rule is not None
        spec = powers.rule((start, end, steps, base, dtype, layout, device, pin_memory))
        return run_name("pow.Scalar", base, evenly_spaced(start, end, steps, spec, device)).to(spec.dtype)


for _overload in ("", ".Scalar_Tensor", ".Tensor_Scalar", ".Tensor_Tensor"):
    _declare_spaces(_overload)


@decomposition("hann_window.periodic")
def hann_window(
    window_length: int, periodic: bool, dtype: Any, layout: Any, device: Any, pin_memory: Any
) -> Tensor:
    """In double, rounded once."""
    wanted = dtype or dtypes.get_default_dtype()
    if window_length <= 1:
        return full((window_length,), 1, wanted, layout, device, pin_memory)
    places = counted(window_length, device, DTYPES["float64"]) / (
        window_length if periodic else window_length - 1
    )
    return (0.5 - 0.5 * (places * (2 * math.pi)).cos()).to(wanted)


decomposition("hann_window")(
    lambda window_length, dtype, layout, device, pin_memory: hann_window(
        window_length, True, dtype, layout, device, pin_memory
    )
)
