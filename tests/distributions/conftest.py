"""Settings that both libraries compute with: doubles for numbers as well, and validated arguments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import rushlight


@pytest.fixture
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    rushlight.set_default_dtype(rushlight.float64)
    yield
    torch.set_default_dtype(torch.float32)
    rushlight.set_default_dtype(rushlight.float32)


@pytest.fixture(autouse=True)
def validated() -> None:
    """PyTorch's compiler, once used in a process, turns the validation of its distributions off."""
    torch.distributions.Distribution.set_default_validate_args(True)
