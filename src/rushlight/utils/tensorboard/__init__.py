"""Logs for TensorBoard: `SummaryWriter`, through the `tensorboard` package (the extra `tensorboard`)."""

from __future__ import annotations

try:
    import tensorboard as _package  # noqa: F401
except ModuleNotFoundError:
    raise ImportError(
        "torch.utils.tensorboard needs the tensorboard package: pip install 'rushlight[tensorboard]'"
    ) from None

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
