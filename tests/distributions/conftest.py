"""Double precision for numbers as well, so that results agree to many digits."""

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
