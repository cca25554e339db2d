"""The classes of operators, under the name their module has in PyTorch."""

from .core.aten import OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["OpNamespace", "OpOverload", "OpOverloadPacket"]
