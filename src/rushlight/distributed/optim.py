"""Optimizers whose state is spread over processes: not available."""

from ..core.missing import missing_class
from .distributed_c10d import ALONE

__all__ = ["ZeroRedundancyOptimizer"]

ZeroRedundancyOptimizer = missing_class("distributed.optim", "ZeroRedundancyOptimizer", ALONE)
