"""What PyTorch's table of modules says must raise does, with the same type."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, module_db

import rushlight as rl

from .conftest import ours

INFOS = [info for info in module_db if info.module_error_inputs_func is not None]


@pytest.mark.parametrize("info", INFOS, ids=lambda info: info.name)
def test_error_inputs(info: Any) -> None:
    cases = [
        case
        for training in (True, False)
        for case in info.module_error_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=False, training=training
        )
    ]
    assert cases
    for case in cases:
        made, given = case.module_error_input.constructor_input, case.module_error_input.forward_input
        options = {name: ours(value) for name, value in made.kwargs.items() if name != "device"}
        make, kind = getattr(rl.nn, info.module_cls.__name__), case.error_type
        if case.error_on is not ModuleErrorEnum.FORWARD_ERROR:
            with pytest.raises(kind):
                make(*map(ours, made.args), **options)
            continue
        module = make(*map(ours, made.args), **options)
        with pytest.raises(kind):
            module(*map(ours, given.args), **ours(given.kwargs))
