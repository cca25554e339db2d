"""Automatic mixed precision: `autocast` for forward passes, `GradScaler` for gradients in half precision."""

from . import policies as _policies  # noqa: F401  attaches the policies
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
