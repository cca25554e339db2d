"""What PyTorch keeps under `torch.ao` and programs import."""

from . import quantization as quantization

__all__ = ["quantization"]
