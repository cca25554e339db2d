"""Collectives as functions of tensors with derivatives, by the names of `torch.distributed.nn`."""

from . import functional as functional
from .functional import *  # noqa: F403

__all__ = ["functional"]
__all__ += functional.__all__
