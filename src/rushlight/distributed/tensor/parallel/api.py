"""parallelize_module: parts of a module, by name, each in its style."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

from ....nn.modules.module import Module
from .style import ParallelStyle

__all__ = ["parallelize_module"]


def parallelize_module(
    module: Module,
    device_mesh: Any = None,
    parallelize_plan: ParallelStyle | dict[str, ParallelStyle] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> Module:
    """Apply a style to `module`, or to those of its parts that the names in a plan mean (`layers.*.mlp`). The
    mesh has one dimension: of a larger one, take a part (`mesh["tp"]`)."""
    if device_mesh is None:
        raise ValueError("parallelize_module needs a device_mesh")
    if device_mesh.ndim != 1:
        raise ValueError(f"Tensor Parallel only accepts a 1D DeviceMesh, but found {device_mesh.ndim}D!")
    if parallelize_plan is None:
        warnings.warn("No parallelize_plan is provided and auto-parallel is not supported.", stacklevel=2)
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, device_mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(
            "Expect Union[ParallelStyle, Dict[str, ParallelStyle]] for parallelize_plan, "
            f"{type(parallelize_plan)} found!"
        )
    for pattern, style in parallelize_plan.items():
        found = [module] if pattern == "" else list(_matching(module, pattern.split(".")))
        if not found:
            warnings.warn(
                f"Parallelize plan key '{pattern}' could not be resolved: no submodule matching.",
                stacklevel=2,
            )
        for part in found:
            parallelize_module(part, device_mesh, style, src_data_rank=src_data_rank)
    return module


def _matching(module: Module, names: list[str]) -> Iterator[Module]:
    if not names:
        yield module
        return
    for name, child in list(module.named_children()):
        if fnmatch(name, names[0]):
            yield from _matching(child, names[1:])
