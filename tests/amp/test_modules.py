"""Which dtypes every module of `nn` gives under autocast: PyTorch's own samples, in float32 and in bfloat16."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db

import rushlight as rl

SAMPLES = 4


def converted(value: Any) -> Any:
    """An argument for this library."""
    if isinstance(value, torch.Tensor):
        return rl.tensor(value.detach().numpy())
    if isinstance(value, torch.dtype):
        return getattr(rl, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return rl.device(str(value))
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        first, attention = value.linear1, value.self_attn
        return rl.nn.TransformerEncoderLayer(
            first.in_features,
            attention.num_heads,
            first.out_features,
            value.dropout.p,
            batch_first=attention.batch_first,
            norm_first=value.norm_first,
        )
    if callable(value):
        return getattr(rl.nn.functional, value.__name__)
    if isinstance(value, list | tuple):
        return type(value)(converted(item) for item in value)
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    return value


def lowered(lib: Any, value: Any, dtype: Any) -> Any:
    if isinstance(value, lib.Tensor):
        return value.detach().to(dtype) if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(lowered(lib, item, dtype) for item in value)
    return value


def dtypes(value: Any) -> Any:
    if isinstance(value, torch.Tensor | rl.Tensor):
        return str(value.dtype).split(".")[-1]
    return [dtypes(item) for item in value] if isinstance(value, list | tuple) else type(value).__name__


def outcome(lib: Any, name: str, made: Any, given: Any, dtype: str) -> Any:
    """The dtypes of what a module gives under autocast, or the type of its error."""
    module = getattr(lib.nn, name)(*made[0], **made[1])
    args = lowered(lib, given[0], getattr(lib, dtype))
    kwargs = {key: lowered(lib, value, getattr(lib, dtype)) for key, value in given[1].items()}
    try:
        with lib.autocast("cpu", dtype=lib.bfloat16):
            return dtypes(module(*args, **kwargs))
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError) as error:
        return type(error).__name__


def cases() -> list[Any]:
    return [info for info in module_db if hasattr(rl.nn, info.name.removeprefix("nn."))]


@pytest.mark.parametrize("info", cases(), ids=lambda info: info.name)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dtypes(info: Any, dtype: str) -> None:
    name = info.name.removeprefix("nn.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=True
        )
        for sample in samples[:SAMPLES]:
            made, given = sample.constructor_input, sample.forward_input
            if given is None:
                continue
            expected = outcome(torch, name, (made.args, made.kwargs), (given.args, given.kwargs), dtype)
            actual = outcome(
                rl,
                name,
                (converted(made.args), converted(made.kwargs)),
                (converted(given.args), converted(given.kwargs)),
                dtype,
            )
            assert actual == expected, (made, given)
