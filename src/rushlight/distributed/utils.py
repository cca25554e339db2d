"""What several processes agree about: one always does."""

from __future__ import annotations

from typing import Any

from .groups import world


def _verify_param_shape_across_processes(process_group: Any, tensors: list[Any], logger: Any = None) -> None:
    """That all processes have parameters of the same shapes."""
    world()


def _sync_module_states(*args: Any, **kwargs: Any) -> None:
    """Give all processes the same parameters."""
    world()
