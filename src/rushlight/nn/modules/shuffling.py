"""PixelShuffle, PixelUnshuffle and ChannelShuffle."""

from __future__ import annotations

from ._simple import FunctionModule

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(FunctionModule):
    """Channels become pixels: an image `upscale_factor` times as high and wide.

    >>> nn.PixelShuffle(2)(rl.ones(1, 4, 3, 3)).shape
    rushlight.Size([1, 1, 6, 6])
    """

    function = "pixel_shuffle"

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)


class PixelUnshuffle(FunctionModule):
    """Pixels become channels.

    >>> nn.PixelUnshuffle(2)(rl.ones(1, 1, 4, 4)).shape
    rushlight.Size([1, 4, 2, 2])
    """

    function = "pixel_unshuffle"

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)


class ChannelShuffle(FunctionModule):
    """The channels of several groups, taken from each group in turn.

    >>> nn.ChannelShuffle(2)(rl.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    function = "channel_shuffle"

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)
