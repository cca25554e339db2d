"""ChannelShuffle, under the name of PyTorch's module."""

from .shuffling import ChannelShuffle

__all__ = ["ChannelShuffle"]
