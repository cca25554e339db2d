"""Counts of what the compiler made, under PyTorch's names: `generated_kernel_count`, since the last `reset()`."""

from __future__ import annotations

import weakref
from typing import Any

from ..compiler.function import compiled_forms
from ..compiler.specialization import Specialization

__all__ = ["reset"]

_before: dict[int, weakref.ref[Specialization]] = {}  # what was compiled before the last reset, by identity


def reset() -> None:
    """Begin to count anew."""
    _before.clear()
    _before.update({id(form): weakref.ref(form) for form in compiled_forms()})


def _is_new(form: Specialization) -> bool:
    known = _before.get(id(form))
    return known is None or known() is not form


def _kernels(form: Specialization) -> int:
    artifacts: list[Any] = [form.artifact, form.backward]
    stages = [stage for artifact in artifacts if artifact is not None for stage in artifact.schedule.stages]
    return sum(len(stage.steps) for stage in stages)


def __getattr__(name: str) -> int:
    if name == "generated_kernel_count":
        return sum(_kernels(form) for form in compiled_forms() if _is_new(form))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
