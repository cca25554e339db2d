"""Errors of capture, under PyTorch's names."""

from ..capture.errors import CaptureError
from ..core.errors import InternalError, UserError

__all__ = ["InternalTorchDynamoError", "TorchDynamoException", "Unsupported", "UserError"]

TorchDynamoException = CaptureError
Unsupported = CaptureError
InternalTorchDynamoError = InternalError
