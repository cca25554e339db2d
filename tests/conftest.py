"""Fixtures for all tests: running the same scenario with torch and with rushlight."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.compiler.size_profile import SIZE_PROFILE
from rushlight.core.passes import VERIFY
from rushlight.testing.oracle import seed_the_cpu_alone

VERIFY.on = True  # every pass of the compiler is verified in tests
seed_the_cpu_alone()
if (
    "RUSHLIGHT_EAGER" not in os.environ
):  # results do not depend on when a kernel arrives; tests/eager has both
    rushlight.eager.use("reference")
SIZE_PROFILE.on = False  # what earlier runs compiled does not decide what a test compiles


def pytest_collection_finish() -> None:
    """The tests stay to the end: the collector, and whoever asks it for objects, need not look at them."""
    gc.collect()
    gc.freeze()


def _plain(value: Any) -> Any:
    """Tensors as (shape, dtype, values), containers item by item, everything else as it is."""
    if isinstance(value, torch.Tensor | rushlight.Tensor):
        detached = value.detach()
        name = str(detached.dtype).rpartition(".")[2]
        return ("tensor", tuple(value.shape), name, detached.tolist())
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_close(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return _close(list(a), list(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key]) for key in a)
    if isinstance(a, float | complex) and isinstance(b, float | complex | int):
        return a == pytest.approx(b, rel=1e-5, abs=1e-6, nan_ok=True)
    return bool(a == b)


def _outcome(module: Any, scenario: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, str | None]:
    try:
        return _plain(scenario(module, *args)), None
    except Exception as error:
        return type(error).__name__, re.sub(r"torch", "rushlight", str(error))


@pytest.fixture
def same() -> Callable[..., None]:
    """`same(scenario)`: scenario(torch) and scenario(rushlight) give equal values, or raise the same error.

    With `message`, a pattern that both errors' messages must contain.
    """

    def check(scenario: Callable[..., Any], *args: Any, message: str | None = None) -> None:
        expected, expected_message = _outcome(torch, scenario, args)
        actual, actual_message = _outcome(rushlight, scenario, args)
        if message is not None:
            assert expected_message is not None, f"torch does not raise but returns {expected}"
            assert re.search(message, expected_message), expected_message
            assert actual_message is not None, f"rushlight does not raise but returns {actual}"
            assert re.search(message, actual_message), actual_message
        assert (actual_message is None) == (expected_message is None), (
            f"torch: {expected} {expected_message}; rushlight: {actual} {actual_message}"
        )
        assert _close(actual, expected), (
            f"torch: {expected} {expected_message}; rushlight: {actual} {actual_message}"
        )

    return check
