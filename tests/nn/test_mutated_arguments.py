"""Losses with one argument changed (another dtype, shape, or values out of range): ours and PyTorch's either
both refuse, with errors of one kind, or return tensors of the same dtype and shape."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from rushlight.testing.entries import Entry, entries

from .conftest import ours

MUTATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor | None]] = {
    "float64": lambda t: t.double(),
    "float32": lambda t: t.float(),
    "bfloat16": lambda t: t.bfloat16(),
    "int64": lambda t: t.long(),
    "bool": lambda t: t.bool(),
    "a dimension before": lambda t: t[None],
    "a dimension after": lambda t: t[..., None],
    "the first row": lambda t: t[0] if t.ndim and t.shape[0] else None,
    "a number": lambda t: t.flatten()[0] if t.numel() else None,
    "wider": lambda t: torch.cat([t, t.narrow(-1, 0, 1)], -1) if t.ndim and t.shape[-1] else None,
    "taller": lambda t: torch.cat([t, t[:1]]) if t.ndim and t.shape[0] else None,
    "no rows": lambda t: t[:0] if t.ndim else None,
    "no columns": lambda t: t[..., :0] if t.ndim else None,
    "negative": lambda t: -t - 1 if t.dtype is torch.int64 else None,
    "too large": lambda t: t + 1000 if t.dtype is torch.int64 else None,
    "NaN": lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else None,
}
# Where we compute what PyTorch has no kernel for, or name another reason to refuse.
KNOWN = {
    ("nn.functional.multi_margin_loss", 0, "bfloat16"),
    ("nn.functional.multilabel_margin_loss", 0, "bfloat16"),
}
LOSSES = [
    entry
    for entry in entries()
    if entry.full_name.startswith("nn.functional.")
    and any(word in entry.full_name for word in ("loss", "nll", "cross_entropy", "kl_div"))
    and not any(word in entry.full_name for word in ("ctc_loss", "linear_cross_entropy"))
]


def outcome(function: Any, args: Any, kwargs: Any) -> Any:
    """The error, or the dtype and shape of the result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function(*args, **kwargs)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            return error
    return str(found.dtype).rpartition(".")[2], tuple(found.shape)


def agree(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, Exception) and isinstance(theirs, Exception):
        return isinstance(mine, type(theirs)) or isinstance(theirs, type(mine))
    return not isinstance(mine, Exception) and mine == theirs


@pytest.mark.parametrize("entry", LOSSES, ids=lambda entry: entry.full_name)
def test_one_argument_changed(entry: Entry) -> None:
    function, found, seen = ours(entry.info.op), [], 0
    for sample in list(entry.info.sample_inputs("cpu", torch.float32))[:2]:
        args = [sample.input, *sample.args]
        for place, value in enumerate(args):
            for name, mutate in MUTATIONS.items() if isinstance(value, torch.Tensor) else ():
                new = mutate(value)
                if new is None or (entry.full_name, place, name) in KNOWN:
                    continue
                changed = [new if i == place else arg for i, arg in enumerate(args)]
                theirs = outcome(entry.info.op, changed, sample.kwargs)
                mine = outcome(function, ours(changed), ours(sample.kwargs))
                seen += 1
                if not agree(mine, theirs):
                    found.append(f"argument {place}: {name}: {theirs!r}, here {mine!r}")
    assert seen > 10
    assert not found, "\n".join(found)
