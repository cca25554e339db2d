"""Scenarios that run with torch and with rushlight."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl

LIBRARIES = pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])


def both(scenario):
    """What `scenario(lib)` returns must be the same for both."""
    assert scenario(rl) == scenario(torch)
