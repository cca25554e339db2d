"""Errors of capture, under PyTorch's names."""

from ..capture.errors import CaptureError
from ..core.errors import InternalError

__all__ = ["InternalTorchDynamoError", "TorchDynamoException", "Unsupported"]

TorchDynamoException = CaptureError
Unsupported = CaptureError
InternalTorchDynamoError = InternalError
