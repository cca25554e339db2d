"""The memory order of what convolutions give: PyTorch's, by every way in which they run."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rushlight as rl


def operands(lib: Any, dtype: str, rank: int, last: tuple[bool, bool]) -> list[Any]:
    order = (lib.channels_last, lib.channels_last_3d)[rank - 2]
    shapes = ((2, 4, *[6] * rank), (4, 4, *[3] * rank))
    made = [
        ((lib.arange(lib.Size(s).numel()) % 7 - 3) / 4).reshape(s).to(getattr(lib, dtype)) for s in shapes
    ]
    return [t.to(memory_format=order) if is_last else t for t, is_last in zip(made, last, strict=True)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("name", ["conv2d", "conv_transpose2d", "conv3d", "conv_transpose3d"])
@pytest.mark.parametrize("last", [(False, False), (True, False), (False, True), (True, True)])
def test_results_have_their_channels_last_where_operands_do(
    dtype: str, name: str, last: tuple[bool, bool]
) -> None:
    rank = int(name[-2])
    expected = getattr(torch.nn.functional, name)(*operands(torch, dtype, rank, last))
    function = getattr(rl.nn.functional, name)
    given = operands(rl, dtype, rank, last)
    found = {}
    for way in ("reference", "native"):
        with rl.eager.use(way):
            found[way] = function(*given)
    found["compiled"] = rl.compile(function, fullgraph=True)(*given)
    tolerance = {"bfloat16": 2e-1, "float16": 5e-2, "float32": 1e-4, "float64": 1e-10, "complex64": 1e-4}[
        dtype
    ]
    for way, result in found.items():
        assert result.stride() == expected.stride(), way
        assert (
            abs(result.to(rl.complex128).numpy() - expected.to(torch.complex128).numpy()).max() < tolerance
        ), way
