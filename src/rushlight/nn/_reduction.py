"""The reduction of losses: its name, its number in ATen's operators, and the old pair of flags."""

from __future__ import annotations

import warnings

from ..core.errors import check

NUMBERS = {"none": 0, "mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """ATen's number of a reduction."""
    check(reduction in NUMBERS, f"{reduction} is not a valid value for reduction", ValueError)
    return NUMBERS[reduction]


def legacy_get_string(
    size_average: bool | None, reduce: bool | None, emit_warning: bool = True, stacklevel: int = 3
) -> str:
    """The reduction that the old flags mean."""
    word = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{word}' instead.",
            UserWarning,
            stacklevel=stacklevel,
        )
    return word


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    return NUMBERS[legacy_get_string(size_average, reduce, emit_warning, 4)]
