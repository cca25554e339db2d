"""PixelShuffle, PixelUnshuffle and ChannelShuffle."""

from __future__ import annotations

from ._simple import FunctionModule

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(FunctionModule):
    """Channels become pixels: an image `upscale_factor` times as high and wide."""

    function = "pixel_shuffle"

    def __init__(self, upscale_factor: int) -> None:
        super().__init__(upscale_factor=upscale_factor)


class PixelUnshuffle(FunctionModule):
    """Pixels become channels."""

    function = "pixel_unshuffle"

    def __init__(self, downscale_factor: int) -> None:
        super().__init__(downscale_factor=downscale_factor)


class ChannelShuffle(FunctionModule):
    """The channels of several groups, taken from each group in turn."""

    function = "channel_shuffle"

    def __init__(self, groups: int) -> None:
        super().__init__(groups=groups)
