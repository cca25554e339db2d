"""Every public function and method that comes from the registry exists under the same name in PyTorch."""

from __future__ import annotations

import pytest
import torch

from rushlight._api import link as _functions
from rushlight.core.registry import OUT

NAMESPACES = {
    "": torch,
    "special": torch.special,
    "linalg": torch.linalg,
    "fft": torch.fft,
    "nn.functional": torch.nn.functional,
    "sparse": torch.sparse,
}


@pytest.mark.parametrize("namespace", sorted(_functions.API.functions))
def test_functions_exist_in_torch(namespace: str) -> None:
    extra = sorted(
        name for name in _functions.API.functions[namespace] if not hasattr(NAMESPACES[namespace], name)
    )
    assert not extra, f"not in PyTorch: {extra}"


def test_methods_exist_in_torch() -> None:
    extra = sorted(name for name in _functions.API.methods if not hasattr(torch.Tensor, name))
    assert not extra, f"not in PyTorch: {extra}"


def test_twins_exist_where_torch_has_them() -> None:
    """An operator reachable as a function is reachable as a method, in place and out=, just where PyTorch's
    is.
    """
    functions, methods = _functions.API.functions[""], _functions.API.methods
    missing = [
        f"Tensor.{name}"
        for name in functions
        if hasattr(torch.Tensor, name) and name not in methods and not hasattr(_tensor_class(), name)
    ]
    missing += [
        f"{where}{name}_"
        for where, owner, table in (("Tensor.", torch.Tensor, methods), ("", torch, functions))
        for name in table
        if not name.endswith("_")
        and hasattr(owner, f"{name}_")
        and f"{name}_" not in table
        and not hasattr(_tensor_class(), f"{name}_")
    ]
    assert not missing, f"in PyTorch but not here: {sorted(missing)}"


def _tensor_class() -> type:
    from rushlight import Tensor

    return Tensor


def test_out_is_accepted_where_the_schema_has_it() -> None:
    with_out = {
        schema.name
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::") and any(a.is_out for a in schema.arguments)
    }
    wrong = sorted(
        {
            op.name
            for packet in _functions.API.functions[""].values()
            for op in packet.overloads
            if op.api & OUT and f"aten::{op.schema.name}" not in with_out
        }
    )
    assert not wrong, f"declared with OUT, but PyTorch has no out= form: {wrong}"
