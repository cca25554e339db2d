"""The memory order of the weights of convolutions."""

from __future__ import annotations

from typing import Any

from ..modules.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Any, kinds: Any, memory_format: Any) -> Any:
    for inner in module.modules():
        if isinstance(inner, kinds):
            weight: Any = inner.weight
            weight.data = weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Put the weights of all 2-d convolutions in `module` into another order in memory.

    >>> layer = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(2, 3, 2), rl.channels_last)
    >>> layer.weight.stride()
    (8, 1, 4, 2)
    """
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Any, memory_format: Any) -> Any:
    """Put the weights of all 3-d convolutions in `module` into another order in memory.

    >>> layer = nn.Conv3d(2, 3, 2)
    >>> _ = nn.utils.convert_conv3d_weight_memory_format(layer, rl.channels_last_3d)
    >>> layer.weight.stride()
    (16, 1, 8, 4, 2)
    """
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
