"""DistributedSampler, under the name of PyTorch's module."""

from .sampler import DistributedSampler

__all__ = ["DistributedSampler"]
