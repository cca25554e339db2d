"""The backend under its name, and graphs of Dynamo's that do not outlive a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.backends.registry import register_backend
from torch._dynamo.exc import InvalidBackend

from rushlight.torch_backend import rushlight


def pytest_configure() -> None:
    try:  # an installed package is found by its entry point
        torch._dynamo.lookup_backend("rushlight")
    except InvalidBackend:
        register_backend(rushlight, name="rushlight")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    pytest_configure()
    torch._dynamo.reset()
    torch.manual_seed(0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()
