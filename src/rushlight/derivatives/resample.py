"""Derivatives of sampling at the places of a grid. Upsampling differentiates through its body."""

from __future__ import annotations

from ..core.dispatch import run_name
from ..core.tensor import Tensor
from .declare import derivative


def grid_sampler_backward(grad: Tensor, input: Tensor, grid: Tensor, interpolation_mode: int,
                          padding_mode: int, align_corners: bool,
                          needs: tuple[bool, bool]) -> tuple[Tensor | None, Tensor | None]:
    return run_name(f"grid_sampler_{input.ndim - 2}d_backward", grad, input, grid, interpolation_mode,
                    padding_mode, align_corners, needs)


derivative(["grid_sampler_2d", "_grid_sampler_2d_cpu_fallback", "grid_sampler_3d"], ("input", "grid"),
           grid_sampler_backward)
