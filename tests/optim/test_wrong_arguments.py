"""What PyTorch's table of optimizers says must raise or warn does, with the same type."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_optimizers import OptimizerErrorEnum, optim_db

import rushlight as rl


def ours(value: Any, known: dict[int, Any]) -> Any:
    """The counterpart of parameters, which stay the same object where they are, and of options."""
    if isinstance(value, torch.Tensor):
        if id(value) not in known:
            made = rl.from_numpy(np.array(value.detach().to_dense().numpy()))
            made = made.to_sparse() if value.is_sparse else made
            kind = rl.nn.Parameter if isinstance(value, torch.nn.Parameter) else rl.Tensor.requires_grad_
            known[id(value)] = made = kind(made, value.requires_grad)
            made.grad = None if value.grad is None else ours(value.grad, known)
        return known[id(value)]
    if isinstance(value, list | tuple):
        return type(value)(ours(item, known) for item in value)
    if isinstance(value, dict):
        return {name: ours(item, known) for name, item in value.items()}
    return value


@pytest.mark.parametrize("info", optim_db, ids=lambda info: info.optim_cls.__name__)
def test_error_inputs(info: Any) -> None:
    cases = list(info.optim_error_inputs_func("cpu", torch.float32))
    assert cases
    for case in cases:
        known: dict[int, Any] = {}
        params = ours(case.optimizer_error_input.params, known)
        options = ours(case.optimizer_error_input.kwargs, known)
        make, raises = getattr(rl.optim, info.optim_cls.__name__), (case.error_type, case.error_regex)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if case.error_on is not OptimizerErrorEnum.STEP_ERROR:
                with pytest.raises(raises[0], match=raises[1]):
                    make(params, **options)
                continue
            optimizer = make(params, **options)
            with pytest.raises(raises[0], match=raises[1]):
                optimizer.step()
